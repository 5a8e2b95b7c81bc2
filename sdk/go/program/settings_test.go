package program_test

import (
	"errors"
	"fmt"
	"reflect"
	"testing"

	"tgi/sdk/go/plugintest"
	"tgi/sdk/go/program"
)

// TestSettings: a run gets what was set, in any order, and valid JSON.
func TestSettings(t *testing.T) {
	h := plugintest.New(t, "Q", " a", "</s>")
	m := h.Program(t, &plugintest.Model{Next: func(string) string { return " a" }})
	for want, s := range map[string]*program.Settings{
		``:                           program.With(),
		`{"grammar_from":3}`:         program.With().Grammar(program.Grammar{}, 3), // the request's
		`{"min_p":0.1}`:              program.With().MinP(0.1),
		`{"deny":[1,2],"emit":true}`: program.With().Deny(1, 2).Emit(),
		`{"deny":[]}`:                program.With().Deny(),
		`{"plugins":[{"name":"x"}]}`: program.With().Plugin("x", nil),
		`{"temperature":0.5,"max_tokens":3,"plugins":[{"name":"x","params":{"a":1}},{"name":"y\""}]}`: program.With().
			Temperature(0.5).Plugin("x", []byte(`{"a":1}`)).MaxTokens(3).Plugin(`y"`, nil),
	} {
		m.Runs = nil
		run := func(r *program.Request) error { return program.Generate(s, r.Context) }
		if _, err := m.Run(program.Func(run), "Q", "{}"); err != nil || !reflect.DeepEqual(m.Runs, []string{want}) {
			t.Errorf("%q (%v), want %s", m.Runs, err, want)
		}
	}
}

// TestGrammarOfRequest: a program knows whether the request has a grammar, and what that allows.
func TestGrammarOfRequest(t *testing.T) {
	h := plugintest.New(t, "Q", "</s>")
	for _, source := range []string{"", "ab"} {
		m := h.Program(t, &plugintest.Model{Grammar: source})
		_, err := m.Run(program.Func(func(r *program.Request) error {
			n, err := program.GrammarPrefix(program.Grammar{}, "ac")
			if r.HasGrammar != (source != "") || (err == nil) != r.HasGrammar || r.HasGrammar && n != 1 {
				return fmt.Errorf("%v, %d bytes, %w", r.HasGrammar, n, err)
			}
			return nil
		}), "Q", "{}")
		if err != nil {
			t.Errorf("%q: %v", source, err)
		}
	}
}

// TestAsk: questions are begun with the tokens of a text, or without any, and those that cannot be are refused.
func TestAsk(t *testing.T) {
	h := plugintest.New(t, "Q", " a", " b", "</s>")
	m := h.Program(t, &plugintest.Model{})
	_, err := m.Run(program.Func(func(r *program.Request) error {
		kids, err := r.Context.ForkN(3)
		if err != nil {
			return err
		}
		for i, text := range []string{"", " a b", " b"} {
			if err := kids[i].Ask(text); err != nil {
				return err
			}
		}
		if err := program.Wait(kids...); err != nil {
			return err
		}
		if p, err := kids[1].Score(" a b"); p != -2 || err != nil {
			return fmt.Errorf("score %v, %w", p, err)
		}
		if err := r.Context.Ask("elsewhere"); !errors.Is(err, program.ErrArgument) {
			return fmt.Errorf("a text without tokens: %w", err)
		}
		kids[0].Drop()
		if err := kids[0].AskTokens(1); !errors.Is(err, program.ErrArgument) {
			return fmt.Errorf("a context that was dropped: %w", err)
		}
		return nil
	}), "Q", "{}")
	if want := []string{"", " a b", " b"}; err != nil || !reflect.DeepEqual(m.Asked, want) {
		t.Errorf("%q (%v), want %q", m.Asked, err, want)
	}
}

// TestDenyAndEnd: a run begins with no token that it is denied, and the end of a run can be denied and emitted.
func TestDenyAndEnd(t *testing.T) {
	h := plugintest.New(t, "Q", " a", " b", "</s>")
	m := h.Program(t, &plugintest.Model{Next: func(text string) string { return map[string]string{"Q": " a"}[text] }})
	got, err := m.Run(program.Func(func(r *program.Request) error {
		c := r.Context
		run := func(deny uint32, want program.Reason, count int) error {
			err := program.Generate(program.With().Deny(deny), c)
			s, ended := c.Span(), want == program.End
			if err != nil || s.Reason != want || s.Count != count || c.Ended() != ended || ended != (s.EndToken == 3) {
				return fmt.Errorf("without %d: %+v, ended %t (%w)", deny, s, c.Ended(), err)
			}
			return nil
		}
		if err := run(1, program.Denied, 0); err != nil { // the script has " a" alone
			return err
		}
		if c.Emit(1, 1) == nil {
			return errors.New("a token that is not there was emitted")
		}
		if err := run(2, program.End, 1); err != nil {
			return err
		}
		f, err := c.Fork()
		if err != nil {
			return err
		}
		if err := c.Push(2); err != nil || c.Ended() || c.Emit(1, 3) == nil {
			return fmt.Errorf("the end of a text that goes on was emitted (%w)", err)
		}
		if err := f.EmitToEnd(1); err != nil || f.Emit(1, 3) == nil {
			return fmt.Errorf("more than the end was emitted (%w)", err)
		}
		if err := c.Rewind(2); err != nil {
			return err
		}
		return run(3, program.Denied, 0) // only the end comes
	}), "Q", "{}")
	if got != " a" || err != nil {
		t.Errorf("%q (%v), want a", got, err)
	}
}
