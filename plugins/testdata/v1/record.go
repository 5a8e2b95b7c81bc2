//go:build ignore

// Command record writes down what the host of version 0.1 answers with its own modules: see record.sh, which builds it
// in the tree of that version, beside old_walk_test.go.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"tgi/plugins"
)

type host struct{ set *plugins.Set }

var ctx = context.Background()

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

func (h host) begin(plugin, params string, prompt []uint32) (l oldLoop, refused string, err error) {
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
			e, err := p.Process(prompt, output, row)
			return e.Temperature, e.Force, e.Stop, err
		}
	}
	if s.Sampler != nil {
		l.candidates, l.sample = s.Sampler.Candidates(), s.Sampler.Sample
	}
	l.close = func() { s.Release(); b.Close() }
	return l, "", nil
}

func (h host) compile(plugin, language, source, params string) (t oldText, refused string, err error) {
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

func (h host) render(plugin, params, request string) (string, error) {
	b, _, err := h.set.BindChat(ctx, []plugins.Call{{Name: plugin, Params: raw(params)}}, plugins.ChatPlugins{})
	if err != nil {
		return "", err
	}
	defer b.Close()
	r, err := b.Render(ctx, []byte(request))
	return fmt.Sprintf("%q %v", r.Text, r.Data), err
}

func (h host) parse(plugin, request string, pieces []string) (lines []string, err error) {
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
			lines = append(lines, fmt.Sprintf("%d %d %q %q %q %d", e.Kind, e.Index, e.Text, e.Name, e.ID, e.Reason))
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

func main() {
	files, _ := filepath.Glob(filepath.Join(os.Args[1], "*.wasm"))
	var specs []plugins.Spec
	var names []string
	for _, f := range files {
		name := strings.TrimSuffix(filepath.Base(f), ".wasm")
		names = append(names, name)
		specs = append(specs, plugins.Spec{Name: name, Source: f})
	}
	set, err := plugins.Open(ctx, plugins.Options{Specs: specs, Vocabulary: oldVocabulary{}})
	if err != nil {
		panic(err)
	}
	defer set.Close()
	answers := map[string][]string{}
	for _, c := range oldCases(names) {
		lines, err := c.answers(host{set})
		if err != nil {
			panic(c.name() + ": " + err.Error())
		}
		answers[c.name()] = lines
	}
	e := json.NewEncoder(os.Stdout)
	e.SetEscapeHTML(false)
	e.SetIndent("", " ")
	if err := e.Encode(answers); err != nil {
		panic(err)
	}
}
