package generate_test

import (
	"errors"
	"reflect"
	"testing"

	"tgi/runtime/engine"
	"tgi/runtime/llm"
	"tgi/runtime/sample"
	"tgi/server/generate"
	"tgi/server/generate/generatetest"
)

// user is the user code that the engine gets for a request, with all sequences begun.
func user(t *testing.T, e *generatetest.Engine) []sample.Plugins {
	t.Helper()
	all := e.Requests()
	r := all[len(all)-1]
	if r.Plugins == nil {
		t.Fatal("the request has no user code")
	}
	var out []sample.Plugins
	for i := range r.N {
		out = append(out, r.Plugins(i))
	}
	return out
}

// TestGrammar: every sequence has a masker of its own beside its other user code, and
// all that was taken is given back.
func TestGrammar(t *testing.T) {
	e := &generatetest.Engine{Script: func(engine.Request) []engine.Event { return nil }}
	ends := 0
	dropped := []generate.Dropped{{Pointer: "#/a", Keyword: "format", Reason: "unknown"}}
	g := &generatetest.Grammars{Drops: dropped}
	s := generatetest.UserCode{Grammars: g, Loop: func([]generate.PluginCall) (func(int) sample.Plugins, error) {
		return func(int) sample.Plugins { return sample.Plugins{Close: func() { ends++ }} }, nil
	}}.On(generate.New(e, generatetest.Words{}, generatetest.Limits(), nil))
	want := generate.Grammar{Field: "response_format", Language: generate.Regex, Source: []byte("a+")}
	run, err := s.Start(t.Context(), generate.Draft{
		Rules: generate.OpenAI, Inputs: "x", N: ptr(uint64(2)), Seed: ptr(uint64(7)), FrequencyPenalty: ptr(float32(1)),
		Grammar: &want,
	})
	if err != nil {
		t.Fatal(err)
	}
	if got := g.Compiled(); len(got) != 1 || !reflect.DeepEqual(got[0], want) {
		t.Errorf("compiled %+v", got)
	}
	if got, want := g.Seeds(), []uint64{llm.SeedFor(7, 0), llm.SeedFor(7, 1)}; !reflect.DeepEqual(got, want) {
		t.Errorf("seeds %v, want %v", got, want)
	}
	if got := run.Dropped(); !reflect.DeepEqual(got, dropped) {
		t.Errorf("dropped %+v", got)
	}
	seqs := user(t, e)
	for _, p := range seqs {
		if p.Masker == nil || len(p.Processors) != 1 {
			t.Errorf("masker %v and %d processors, want one of each", p.Masker, len(p.Processors))
		}
	}
	run.Close()
	if bound, maskers := g.Open(); bound != 0 || maskers != 2 {
		t.Errorf("after the run: %d grammars and %d maskers, want none and those that the engine has", bound, maskers)
	}
	for _, p := range seqs {
		p.Close()
	}
	if _, maskers := g.Open(); maskers != 0 || ends != 2 {
		t.Errorf("%d maskers were not released, the plugins of %d sequences closed", maskers, ends)
	}
}

// TestGrammarRefused: what is wrong with a grammar is told after what is wrong with
// the rest, and leaves nothing behind.
func TestGrammarRefused(t *testing.T) {
	bad := &generate.Invalid{Msg: "grammar is not valid: #/a", Field: "guided_json"}
	full := errors.New("all in use")
	for _, c := range []struct {
		name     string
		grammars *generatetest.Grammars
		draft    generate.Draft
		want     error
		text     string
	}{
		{"compile", &generatetest.Grammars{Refuse: bad}, generate.Draft{}, bad, bad.Msg},
		{"begin", &generatetest.Grammars{RefuseBegin: errors.Join(llm.ErrOverloaded, full)}, generate.Draft{},
			llm.ErrOverloaded, llm.ErrOverloaded.Error()},
		{"end", &generatetest.Grammars{}, generate.Draft{IgnoreEOS: true}, llm.ErrInvalid,
			"`ignore_eos` and `guided_json` exclude each other: a grammar says where its text ends"},
		{"off", nil, generate.Draft{}, llm.ErrInvalid, "grammar is not supported"},
		{"order", nil, generate.Draft{MaxNewTokens: ptr(uint32(50))}, llm.ErrInvalid,
			"`inputs` tokens + `max_new_tokens` must be <= 20. Given: 1 `inputs` tokens and 50 `max_new_tokens`"},
	} {
		s := generate.New(&generatetest.Engine{}, generatetest.Words{}, generatetest.Limits(), nil)
		if c.grammars != nil {
			generatetest.UserCode{Grammars: c.grammars}.On(s)
		}
		c.draft.Inputs, c.draft.Grammar = "x", &generate.Grammar{Field: "guided_json"}
		run, err := s.Start(t.Context(), c.draft)
		if run != nil || !errors.Is(err, c.want) || err.Error() != c.text {
			t.Errorf("%s: got %v, want %s", c.name, err, c.text)
		}
		if c.grammars == nil {
			continue
		}
		if bound, maskers := c.grammars.Open(); bound != 0 || maskers != 0 {
			t.Errorf("%s: %d grammars and %d maskers are left", c.name, bound, maskers)
		}
	}
}
