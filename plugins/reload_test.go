package plugins

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"tgi/plugins/internal/guest/guesttest"
)

// reload reloads and compares the report.
func reload(t *testing.T, s *Set, specs []Spec, loaded, unchanged, removed, failed []string) Report {
	t.Helper()
	r, err := s.Reload(t.Context(), specs)
	if err != nil {
		t.Fatal(err)
	}
	var bad []string
	for name, err := range r.Failed {
		bad = append(bad, name)
		if !errors.Is(err, ErrLoad) {
			t.Errorf("%s: %v does not match ErrLoad", name, err)
		}
	}
	slices.Sort(bad)
	if !slices.Equal(r.Loaded, loaded) || !slices.Equal(r.Unchanged, unchanged) || !slices.Equal(r.Removed, removed) ||
		!slices.Equal(bad, failed) {
		t.Errorf("report %+v, want loaded %q, unchanged %q, removed %q, failed %q", r, loaded, unchanged, removed,
			failed)
	}
	return r
}

// logit returns what the plugin makes of a zero.
func logit(t *testing.T, s *Set, name string) float32 {
	t.Helper()
	x, err := once(s, Call{Name: name})
	if err != nil {
		t.Fatal(err)
	}
	return x[5]
}

func TestReload(t *testing.T) {
	a, b, c := spec(t, "a", bias(1).Wasm()), spec(t, "b", bias(1).Wasm()), spec(t, "c", bias(1).Wasm())
	s := open(t, Options{Specs: []Spec{a, b}})
	before := s.names["a"].current
	reload(t, s, []Spec{a, b}, nil, []string{"a", "b"}, nil, nil)
	if s.names["a"].current != before {
		t.Error("an unchanged plugin was loaded again")
	}
	write(t, a.Source, bias(2).Wasm())
	b.Limits.FuelPerStep = 1000
	reload(t, s, []Spec{c, b, a}, []string{"c", "b", "a"}, nil, nil, nil)
	if logit(t, s, "a") != 2 || s.names["b"].current.guest.Limits().FuelPerStep != 1000 {
		t.Error("the new module or setting is not used")
	}
	if got := s.List(); got[0].Name != "c" || got[2].Stats.Loads != 2 {
		t.Errorf("list %+v", got)
	}
	reload(t, s, []Spec{a}, nil, []string{"a"}, []string{"c", "b"}, nil)
	if _, ok := s.Get("b"); ok || len(s.List()) != 1 {
		t.Error("what was removed is listed")
	}
	moved := a
	moved.Source = file(t, "elsewhere", bias(2).Wasm())
	reload(t, s, []Spec{moved}, nil, []string{"a"}, nil, nil)
	if st, _ := s.Get("a"); st.Source != moved.Source {
		t.Errorf("source %q", st.Source)
	}
	if _, err := s.Reload(t.Context(), []Spec{{Name: "A", Source: "x"}}); !errors.Is(err, ErrSpec) ||
		len(s.List()) != 1 {
		t.Errorf("bad specs: %v", err)
	}
}

// TestReloadRollback: a version that fails leaves the old one serving, with its settings, and says why.
func TestReloadRollback(t *testing.T) {
	a := spec(t, "a", bias(1).Wasm())
	s := open(t, Options{Specs: []Spec{a}})
	worse := a
	worse.OnError = OnErrorSkip
	for name, wasm := range map[string][]byte{
		"cut":        bias(2).Wasm()[:100],
		"first-step": guesttest.Fake{Code: map[string]guesttest.Code{"tgi_logits_process": guesttest.Trap()}}.Wasm(),
	} {
		write(t, a.Source, wasm)
		r := reload(t, s, []Spec{worse}, nil, nil, nil, []string{"a"})
		if logit(t, s, "a") != 1 {
			t.Errorf("%s: the old version does not serve", name)
		}
		if st, _ := s.Get("a"); st.State != StateActive || st.OnError != OnErrorFail ||
			st.Error != "a newer version was rejected: "+r.Failed["a"].Error() {
			t.Errorf("%s: status %+v", name, st)
		}
	}
	pinned := a
	pinned.SHA256 = strings.Repeat("1", 64)
	reload(t, s, []Spec{pinned}, nil, nil, nil, []string{"a"})
	if err := os.Remove(a.Source); err != nil {
		t.Fatal(err)
	}
	reload(t, s, []Spec{a}, nil, nil, nil, []string{"a"})
	write(t, a.Source, bias(1).Wasm())
	reload(t, s, []Spec{a, {Name: "gone", Source: a.Source + "x"}}, nil, []string{"a"}, nil, []string{"gone"})
	if st, _ := s.Get("a"); st.Error != "" || st.Stats.Loads != 1 {
		t.Errorf("the good module is back, status %+v", st)
	}
	if st, _ := s.Get("gone"); st.State != StateFailed || st.Stats.Loads != 0 {
		t.Errorf("status %+v", st)
	}
	if n := s.names["a"].current.refs.Load(); n != 1 {
		t.Errorf("%d references", n)
	}
}

// TestReloadCancelled: a reload that is given up changes nothing.
func TestReloadCancelled(t *testing.T) {
	a := spec(t, "a", bias(1).Wasm())
	s := open(t, Options{Specs: []Spec{a}})
	write(t, a.Source, bias(2).Wasm())
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.Reload(ctx, []Spec{a}); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if logit(t, s, "a") != 1 {
		t.Error("the set was changed")
	}
}

// TestReloadSharesTheChain: what applies always must fit one request, whatever order the changes come in.
func TestReloadSharesTheChain(t *testing.T) {
	greedy := guesttest.SDK(t, "epsilon-greedy")["c"]
	a, b := spec(t, "a", greedy), spec(t, "b", greedy)
	a.Apply = ApplyAlways
	s := open(t, Options{Specs: []Spec{a, b}})
	b.Apply = ApplyAlways
	r := reload(t, s, []Spec{a, b}, nil, []string{"a"}, nil, []string{"b"})
	if !strings.Contains(r.Failed["b"].Error(), `apply is "always" for two plugins of kind "sampler", a is the other`) {
		t.Error(r.Failed["b"])
	}
	a.Apply = ApplyRequest
	reload(t, s, []Spec{a, b}, []string{"a", "b"}, nil, nil, nil)
	var up Upload
	up.Apply = ApplyAlways
	if _, err := s.Put(t.Context(), "c", greedy, up); !errors.Is(err, ErrLoad) {
		t.Errorf("a second sampler by upload: %v", err)
	}
	both, err := Open(t.Context(), options(t, Options{Specs: []Spec{{Name: "x", Source: a.Source, Apply: ApplyAlways},
		{Name: "y", Source: a.Source, Apply: ApplyAlways}}}))
	if !errors.Is(err, ErrLoad) {
		t.Errorf("opened with two samplers for every request: %v %v", both, err)
	}
}

// TestReloadFolderOfSpec: a spec may say how a file of the folder is used; only another file of its name is warned of.
func TestReloadFolderOfSpec(t *testing.T) {
	dir, log := t.TempDir(), &logLines{}
	file := filepath.Join(dir, "a.wasm")
	write(t, file, bias(3).Wasm())
	own := Spec{Name: "a", Source: file}
	s := open(t, Options{Specs: []Spec{own}, Folder: dir, Log: logger(log)})
	reload(t, s, []Spec{own}, nil, []string{"a"}, nil, nil)
	if logit(t, s, "a") != 3 || strings.Contains(log.String(), "ignored") {
		t.Errorf("the spec's own file is warned of: %s", log)
	}
	reload(t, s, []Spec{spec(t, "a", bias(4).Wasm())}, []string{"a"}, nil, nil, nil)
	if logit(t, s, "a") != 4 || strings.Count(log.String(), "plugin file ignored") != 1 {
		t.Errorf("another file of the name is not warned of: %s", log)
	}
}

// TestReloadFolder: files come, change and go; one that begins to have a spec's name gives way.
func TestReloadFolder(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name+".wasm") }
	write(t, at("a"), bias(1).Wasm())
	s := open(t, Options{Folder: dir})
	write(t, at("b"), bias(5).Wasm())
	write(t, at("a"), bias(2).Wasm())
	reload(t, s, nil, []string{"a", "b"}, nil, nil, nil)
	if logit(t, s, "a") != 2 || logit(t, s, "b") != 5 {
		t.Error("the files are not used")
	}
	reload(t, s, []Spec{spec(t, "b", bias(6).Wasm())}, []string{"b"}, []string{"a"}, nil, nil)
	if logit(t, s, "b") != 6 {
		t.Error("the spec does not win")
	}
	reload(t, s, nil, []string{"b"}, []string{"a"}, nil, nil)
	if err := os.Remove(at("a")); err != nil {
		t.Fatal(err)
	}
	reload(t, s, nil, nil, []string{"b"}, []string{"a"}, nil)
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	write(t, dir, nil) // a folder that can't be read
	if r, err := s.Reload(t.Context(), nil); err == nil || !slices.Equal(r.Unchanged, []string{"b"}) ||
		len(r.Failed) != 0 {
		t.Errorf("report %+v, error %v", r, err)
	}
	if st, _ := s.Get("b"); st.Error != "" {
		t.Errorf("error %q", st.Error)
	}
	if logit(t, s, "b") != 5 {
		t.Error("the plugin went with the folder that can't be read")
	}
}

// TestReloadKeepsKinds: a file that becomes a module which lacks a kind of what serves is rejected, wherever the plugin
// comes from, and what serves goes on. Settings that name the kind, and a file that was away, say that it is meant.
func TestReloadKeepsKinds(t *testing.T) {
	guards := func(hold string) []byte {
		return bytes.Replace(swapGuard(false), []byte(`"hold":4`), []byte(`"hold":`+hold), 1)
	}
	dir := t.TempDir()
	inFolder := filepath.Join(dir, "f.wasm")
	write(t, inFolder, guards("4"))
	of := spec(t, "s", guards("4"))
	of.Apply = ApplyAlways
	s := open(t, Options{Specs: []Spec{of}, Folder: dir})
	kinds := func(want ...string) {
		t.Helper()
		for _, st := range s.List() {
			if strings.Join(st.Kinds, " ") != strings.Join(want, " ") {
				t.Errorf("%s: kinds %q, want %q", st.Name, st.Kinds, want)
			}
		}
	}
	put := func(wasm []byte) {
		write(t, of.Source, wasm)
		write(t, inFolder, wasm)
	}
	put(bias(1).Wasm())
	for range 2 {
		r := reload(t, s, []Spec{of}, nil, nil, nil, []string{"f", "s"})
		const why = "a name keeps its kinds: what served is of kind guard, source "
		for name, means := range map[string]string{"s": `kind = "logits" in its settings`, "f": "remove the file"} {
			if text := r.Failed[name].Error(); !strings.Contains(text, why) || !strings.Contains(text, means) {
				t.Errorf("%s: %s", name, text)
			}
			if got, text := state(s, name); got != StateActive || !strings.Contains(text, why) {
				t.Errorf("%s: %s %s", name, got, text)
			}
		}
		kinds("guard")
	}
	put(guards("5"))
	reload(t, s, []Spec{of}, []string{"s", "f"}, nil, nil, nil)
	named := of
	named.Kind = "logits"
	put(bias(1).Wasm())
	if err := os.Remove(inFolder); err != nil {
		t.Fatal(err)
	}
	reload(t, s, []Spec{named}, []string{"s"}, nil, []string{"f"}, nil)
	put(bias(1).Wasm())
	reload(t, s, []Spec{named}, []string{"f"}, []string{"s"}, nil, nil)
	kinds("logits")

	put(guesttest.Fake{Description: guesttest.Both}.Wasm())
	reload(t, s, []Spec{of}, []string{"s", "f"}, nil, nil, nil)
	kinds("logits", "sampler")
	put(bias(2).Wasm())
	reload(t, s, []Spec{of}, nil, nil, nil, []string{"f", "s"})
	kinds("logits", "sampler")
	for _, e := range s.order {
		if n := e.current.refs.Load(); n != 1 {
			t.Errorf("%s: %d references", e.name, n)
		}
	}
}

// TestKindsOutlastSets: a set that is opened when the one before it is closed holds files to what served there.
func TestKindsOutlastSets(t *testing.T) {
	dir := t.TempDir()
	inFolder := filepath.Join(dir, "f.wasm")
	of := spec(t, "s", swapGuard(false))
	write(t, inFolder, swapGuard(false))
	o := options(t, Options{Specs: []Spec{of}, Folder: dir, Kinds: NewKinds()})
	opened := func() (*Set, error) {
		t.Helper()
		s, err := Open(t.Context(), o)
		if err == nil {
			s.Close()
		}
		return s, err
	}
	if _, err := opened(); err != nil {
		t.Fatal(err)
	}
	const why = "a name keeps its kinds: what served is of kind guard"
	write(t, of.Source, bias(1).Wasm())
	if _, err := opened(); !errors.Is(err, ErrLoad) || !strings.Contains(err.Error(), why) {
		t.Errorf("a spec's file: %v", err)
	}
	o.Specs[0].Kind = "logits"
	if _, err := opened(); err != nil {
		t.Errorf("with its kind: %v", err)
	}
	o.Specs[0].Kind = ""

	write(t, inFolder, bias(1).Wasm())
	s := open(t, o)
	if got, text := state(s, "f"); got != StateFailed || !strings.Contains(text, why) {
		t.Errorf("a file of the folder: %s %s", got, text)
	}
	s.Close()
	if err := os.Remove(inFolder); err != nil {
		t.Fatal(err)
	}
	if _, err := opened(); err != nil {
		t.Error(err)
	}
	write(t, inFolder, bias(1).Wasm())
	s = open(t, o)
	if got, text := state(s, "f"); got != StateActive {
		t.Errorf("a file that was away: %s %s", got, text)
	}
}
