package generate_test

import (
	"fmt"
	"strings"
	"testing"

	"tgi/runtime/engine"
	"tgi/runtime/llm"
	"tgi/sdk/abi"
	"tgi/server/generate"
	"tgi/server/generate/generatetest"
)

// ending spells tokens as numbers does; 9 ends a text.
type ending struct{ numbers }

func (ending) EOS() []llm.Token { return []llm.Token{9} }

// denied runs a program's text on a model that counts, up to 9.
func denied(t *testing.T, program programs) (r generate.Result, err error) {
	e, err := engine.New(counting{}, ending{}, engine.Config{Verify: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	l := generatetest.Limits()
	l.Vocab = countingVocab
	s := generate.New(generate.On(e), generatetest.Words{}, l, nil)
	s.WithUserCode(program)
	run, err := s.Start(t.Context(), generate.Draft{Inputs: "aa bbbb", MaxNewTokens: ptr(uint32(12)),
		Plugins: []llm.PluginCall{{Name: "program"}}})
	if err != nil {
		return r, err
	}
	defer run.Close()
	return run.Collect(t.Context())
}

// spanOf lets context 0 run.
func spanOf(t *testing.T, h *generate.Contexts, settings string) llm.ProgramSpan {
	err := h.Start(0, []byte(settings))
	if err == nil {
		_, _, err = h.Wait([]int{0}, false)
	}
	if err != nil {
		t.Errorf("%s: %v", settings, err)
	}
	s, _ := h.Span(0)
	return s
}

// TestDeniedTokens: what a run is denied are tokens of the vocabulary, no more than may be, and the error names what is
// wrong. The run begins with none of them.
func TestDeniedTokens(t *testing.T) {
	list := func(n int) string { return strings.TrimSuffix(strings.Repeat("7,", n), ",") }
	_, err := denied(t, func(h *generate.Contexts) error {
		for settings, want := range map[string]string{
			`{"deny":[0,1,-1]}`: "deny[2] is -1, the vocabulary has 64 tokens",
			`{"deny":[64]}`:     "deny[0] is 64, the vocabulary has 64 tokens",
			`{"deny":[0.5]}`:    "settings: ",
			`{"deny":[` + list(abi.MaxDenied+1) + `]}`: "deny has 1025 tokens, at most 1024 are allowed",
		} {
			if err := h.Start(0, []byte(settings)); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%.30s: %v, want %s", settings, err, want)
			}
		}
		prompt, _ := h.Tokens(0)
		n, next := len(prompt), prompt[len(prompt)-1]+1
		spanOf(t, h, fmt.Sprintf(`{"max_tokens":2,"deny":[%d,%s]}`, next, list(1000)))
		if all, _ := h.Tokens(0); len(all) != n+2 || all[n] == next || all[n+1] != all[n]+1 {
			t.Errorf("%v, it was denied %d", all[n:], next)
		}
		return h.Emit(0, n, 1)
	})
	if err != nil {
		t.Error(err)
	}
}

// TestEndIsEmitted: the end of a run is a token more as long as nothing changes behind it, in forks too. Emitted, it
// ends the text; the program goes on, and nothing that it emits goes out.
func TestEndIsEmitted(t *testing.T) {
	got, err := denied(t, func(h *generate.Contexts) error {
		prompt, _ := h.Tokens(0)
		n := len(prompt)
		if s := spanOf(t, h, `{"max_tokens":1}`); s.Reason != llm.FinishLength || h.Emit(0, n, 2) == nil {
			t.Errorf("%+v, and an end that is not there was emitted", s)
		}
		s := spanOf(t, h, `{}`)
		end := s.From + s.Count
		if s.Reason != llm.FinishEOS || s.End != 9 || h.Emit(0, n, end-n+2) == nil || h.Emit(0, end+2, 0) == nil {
			t.Errorf("%+v, and more than the end was emitted", s)
		}
		if err := h.Rewind(0, end); err != nil { // which changes nothing
			return err
		}
		c, err := h.Fork(0)
		if err != nil {
			return err
		}
		if err := h.Push(0, []uint32{7}); err != nil {
			return err
		}
		if err := h.Rewind(0, end); err != nil || h.Emit(0, n, end-n+1) == nil {
			t.Errorf("what was behind the end changed it not (%v)", err)
		}
		s = spanOf(t, h, `{"deny":[9],"max_tokens":1}`)
		if s.Count != 1 || s.Reason != llm.FinishLength || s.End != 0 {
			t.Errorf("without the end: %+v", s)
		}
		if err := h.Emit(c, n, end-n+1); err != nil {
			return err
		}
		if h.Emit(c, n, 1) == nil {
			t.Error("more was emitted behind the end")
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	last := got.Best.Tokens[len(got.Best.Tokens)-1]
	if got.Best.Finish.Reason != llm.FinishEOS || last.Token != 9 || last.Logprob == 0 || len(got.Best.Tokens) < 2 {
		t.Errorf("%+v", got.Best)
	}
}
