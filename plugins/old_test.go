package plugins_test

import (
	"archive/zip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"tgi/plugins"
	"tgi/sdk/abi"
)

// newHost is this version's host.
type newHost struct {
	t   *testing.T
	set *plugins.Set
}

func refusal(err error) (string, error) {
	var no *plugins.BindError
	if errors.Is(err, plugins.ErrParams) && errors.As(err, &no) {
		return no.Text, nil
	}
	return "", err
}

func raw(params string) []byte {
	if params == "" {
		return nil
	}
	return []byte(params)
}

func (h newHost) begin(plugin, params string, prompt []uint32) (l oldLoop, refused string, err error) {
	ctx := h.t.Context()
	b, err := h.set.Bind(ctx, []plugins.Call{{Name: plugin, Params: raw(params)}})
	if err != nil {
		refused, err = refusal(err)
		return l, refused, err
	}
	if err := b.Begin(ctx, prompt, 64, []uint64{7}); err != nil {
		b.Close()
		refused, err = refusal(err)
		return l, refused, err
	}
	s := b.Sequence(0)
	if len(s.Processors) > 0 {
		p := s.Processors[0]
		l.process = func(prompt, output []uint32, row []float32) (float32, int64, bool, error) {
			e, err := p.Run(prompt, output, row)
			return e.Temperature, e.Force, e.Stop, err
		}
	}
	if s.Sampler != nil {
		l.candidates, l.sample = s.Sampler.Candidates(), s.Sampler.Choose
	}
	l.close = func() { s.Release(); b.Close() }
	return l, "", nil
}

func (h newHost) compile(plugin, language, source, params string) (t oldText, refused string, err error) {
	ctx := h.t.Context()
	g, err := h.set.Compile(ctx, plugins.GrammarCall{Plugin: plugin, Language: language, Source: []byte(source),
		Params: raw(params)})
	if err != nil {
		refused, err = refusal(err)
		return t, refused, err
	}
	c, err := g.Sequence(ctx, 7)
	if err != nil {
		return t, "", err
	}
	return oldText{c.Mask, c.Accept, func() { c.Close(); g.Close() }}, "", nil
}

func (h newHost) render(plugin, params, request string) (string, error) {
	ctx := h.t.Context()
	b, _, err := h.set.BindChat(ctx, []plugins.Call{{Name: plugin, Params: raw(params)}}, plugins.ChatPlugins{})
	if err != nil {
		return "", err
	}
	defer b.Close()
	r, err := b.Render(ctx, []byte(request))
	return fmt.Sprintf("%q %v", r.Text, r.Data), err
}

func (h newHost) parse(plugin, request string, pieces []string) (lines []string, err error) {
	ctx := h.t.Context()
	b, _, err := h.set.BindChat(ctx, []plugins.Call{{Name: plugin}}, plugins.ChatPlugins{})
	if err != nil {
		return nil, err
	}
	defer b.Close()
	p, err := b.Parser(ctx, []byte(request), 7)
	if err != nil {
		return nil, err
	}
	defer p.Close()
	note := func(events []plugins.Event, err error) error {
		for _, e := range events {
			lines = append(lines, fmt.Sprintf("%d %d %q %q %q %d", e.Kind, e.Index, e.Text, e.Name, e.ID, e.Failed))
		}
		return err
	}
	for _, piece := range pieces {
		if err := note(p.Feed(piece, false)); err != nil {
			return lines, err
		}
	}
	return lines, note(p.Finish(true))
}

// TestOldModules: the modules of version 0.1 load, byte for byte as they were built, and this host answers with them
// what the host of that version did. What a module refused in its own words is refused in the host's where the module
// declares a schema of its parameters.
func TestOldModules(t *testing.T) {
	names, specs := oldModules(t)
	set, err := plugins.Open(t.Context(), plugins.Options{Specs: specs, Vocabulary: oldVocabulary{}})
	if err != nil {
		t.Fatal(err)
	}
	defer set.Close()
	text, err := os.ReadFile("testdata/v1/answers.json")
	if err != nil {
		t.Fatal(err)
	}
	want := map[string][]string{}
	if err := json.Unmarshal(text, &want); err != nil {
		t.Fatal(err)
	}
	for _, c := range oldCases(names) {
		got, err := c.answers(newHost{t, set})
		if err != nil || !slices.EqualFunc(got, want[c.name()], sameAnswer) {
			t.Errorf("%s (%v):\n%s\nbefore:\n%s", c.name(), err, strings.Join(got, "\n"),
				strings.Join(want[c.name()], "\n"))
		}
		delete(want, c.name())
	}
	if len(want) > 0 {
		t.Errorf("nobody asked %q", slices.Collect(maps.Keys(want)))
	}
}

// reworded are the refusals that the host says in its own words, because the module declares a schema, with the words
// of the module.
var reworded = map[string]string{
	`epsilon is 2, above the maximum, 1`:                     "epsilon: want a number from 0 to 1",
	`n is 0, below the minimum, 1`:                           "n: 0 is not a whole number from 1 to 64",
	`n is 0, and has to be above 0`:                          "n: want a number above 0, at most 100",
	`probability is 2, above the maximum, 1`:                 "probability: 2 is not from 0 to 1",
	`unknown parameter "x": the plugin has ban, boost, only`: "unknown parameter: x",
	`unknown parameter "x": the plugin has allowed_length, base, multiplier, range, ` +
		`sequence_breakers`: "unknown parameter: x",
}

// sameAnswer compares an answer with that of the host of version 0.1.
func sameAnswer(now, before string) bool {
	const refused = "refused: "
	said, ok := strings.CutPrefix(now, refused)
	old, known := reworded[said]
	return now == before || ok && known && before == refused+old
}

// oldModules unpacks the modules.
func oldModules(t *testing.T) (names []string, specs []plugins.Spec) {
	t.Helper()
	z, err := zip.OpenReader("testdata/v1/modules.zip")
	if err != nil {
		t.Fatal(err)
	}
	defer z.Close()
	dir := t.TempDir()
	for _, f := range z.File {
		r, err := f.Open()
		if err != nil {
			t.Fatal(err)
		}
		wasm, err := io.ReadAll(r)
		if err := errors.Join(err, r.Close(), os.WriteFile(filepath.Join(dir, f.Name), wasm, 0o600)); err != nil {
			t.Fatal(err)
		}
		name := strings.TrimSuffix(f.Name, ".wasm")
		names = append(names, name)
		specs = append(specs, plugins.Spec{Name: name, Source: filepath.Join(dir, f.Name)})
	}
	return names, specs
}

// leb is a number as modules have it.
func leb(n int) (b []byte) {
	for n >= 0x80 {
		b = append(b, byte(n)|0x80)
		n >>= 7
	}
	return append(b, byte(n))
}

// section is a section of a module with entries.
func section(id byte, entries ...[]byte) []byte {
	body := leb(len(entries))
	for _, e := range entries {
		body = append(body, e...)
	}
	return append(append([]byte{id}, leb(len(body))...), body...)
}

func name(s string) []byte { return append(leb(len(s)), s...) }

// future is a module whose exports and imports are functions without parameters, and which does nothing.
func future(imports, exports []string) []byte {
	m := []byte("\x00asm\x01\x00\x00\x00")
	m = append(m, section(1, []byte{0x60, 0, 0})...)
	var in, out [][]byte
	for _, i := range imports {
		in = append(in, slices.Concat(name("tgi"), name(i), []byte{0, 0}))
	}
	for _, e := range exports {
		out = append(out, slices.Concat(name(e), []byte{0}, leb(len(imports))))
	}
	out = append(out, slices.Concat(name("memory"), []byte{2, 0}))
	m = append(m, section(2, in...)...)
	m = append(m, section(3, []byte{0})...)
	m = append(m, section(5, []byte{0, 1})...)
	m = append(m, section(7, out...)...)
	return append(m, section(10, []byte{2, 0, 0x0b})...)
}

// TestNewerModules: a module that needs a newer host is refused with words that say so, and what this host is.
func TestNewerModules(t *testing.T) {
	for what, c := range map[string]struct {
		wasm []byte
		want []string
	}{
		"version": {future(nil, []string{"tgi_abi_v2"}), []string{"tgi_abi_v2: the module is of version 2 of the " +
			"contract, and this host has version 1: it needs a newer host"}},
		"kind": {future(nil, []string{"tgi_abi_v1", "tgi_dream_begin"}), []string{`"tgi_dream_begin" is not part of ` +
			`version 1: names that begin with tgi_ are reserved; it is misspelt, or it needs a newer host: this one has ` +
			fmt.Sprintf("revision %d", abi.Revision)}},
		"import": {future([]string{"dream"}, []string{"tgi_abi_v1"}), []string{`import "tgi" "dream", a function () ` +
			`-> (), is not offered`, "it needs a newer host: this one has version 1, revision"}},
	} {
		at := filepath.Join(t.TempDir(), "future.wasm")
		if err := os.WriteFile(at, c.wasm, 0o600); err != nil {
			t.Fatal(err)
		}
		set, err := plugins.Open(context.Background(), plugins.Options{Vocabulary: oldVocabulary{},
			Specs: []plugins.Spec{{Name: "future", Source: at}}})
		if err == nil {
			set.Close()
			t.Errorf("%s: it loads", what)
			continue
		}
		for _, part := range c.want {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("%s: %v lacks %q", what, err, part)
			}
		}
	}
}
