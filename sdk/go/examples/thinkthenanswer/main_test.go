package main

import (
	"reflect"
	"strings"
	"testing"

	"tgi/sdk/go/plugintest"
	"tgi/sdk/go/program"
)

// gives runs the program: the model says this behind Q, and 4 behind all else.
func gives(t *testing.T, params, said, grammar string) (string, []string, error) {
	t.Helper()
	h := plugintest.New(t, "Q", " hm", "</think>", " 4", "\nTime is up.\n", "hint", " more", "</s>")
	m := h.Program(t, &plugintest.Model{Grammar: grammar, Next: func(text string) string {
		if text == "Q" {
			return said
		}
		return " 4"
	}})
	got, err := m.Run(think{}, "Q", params)
	return got, m.Runs, err
}

// TestThinksWithinABudget: thoughts and answer go out, and where the model does not end its thoughts it is told to.
func TestThinksWithinABudget(t *testing.T) {
	for _, c := range []struct {
		params, said, want string
		runs               int
	}{
		{`{"budget":9}`, " hm hm</think> more", " hm hm 4", 2}, // the markup is special, so it has no text
		{`{"budget":2}`, " hm hm hm</think>", " hm hm\nTime is up.\n 4", 2},
		{`{"budget":2,"hint":"hint"}`, " hm hm hm", " hm hmhint 4", 2},
		{`{}`, " 4", " 4", 1}, // it ends its text
	} {
		if got, runs, err := gives(t, c.params, c.said, ""); got != c.want || len(runs) != c.runs || err != nil {
			t.Errorf("%s: %q after %q (%v), want %q", c.params, got, runs, err, c.want)
		}
	}
	if got, _, err := gives(t, `{"budget":1,"hint":"elsewhere"}`, " hm hm", ""); err == nil {
		t.Errorf("%q, want an error", got)
	}
}

// TestNoMarker: a model without a token for the usual end of thoughts answers, unless the end is named.
func TestNoMarker(t *testing.T) {
	for params, want := range map[string]string{
		`{"budget":1}`:                  " 4 4",
		`{"budget":1,"end":"</think>"}`: " 4 up</think> 4 4",
	} {
		h := plugintest.New(t, "Q", " 4", " up", "</", "think>", "</s>")
		m := h.Program(t, &plugintest.Model{Next: func(string) string { return " 4 4" }})
		got, err := m.Run(think{}, "Q", strings.Replace(params, "}", `,"hint":" up"}`, 1))
		if got != want || err != nil {
			t.Errorf("%s: %q (%v), want %q", params, got, err, want)
		}
	}
}

// TestKeepsTheGrammar: where the request has a grammar, the thoughts are free and stay here.
func TestKeepsTheGrammar(t *testing.T) {
	for _, said := range []string{" hm</think> more", " hm hm hm", " hm"} {
		got, runs, err := gives(t, `{"budget":2}`, said, " 4")
		want := []string{`{"grammar":null,"stop":["</think>"],"max_tokens":2}`, `{"emit":true}`}
		if got != " 4" || !reflect.DeepEqual(runs, want) || err != nil {
			t.Errorf("%s: %q after %q (%v)", said, got, runs, err)
		}
	}
}

// TestFinishesCalls: where the budget ends inside a call of a tool, or of what may be one, that is finished. Behind a
// call nothing is put.
func TestFinishesCalls(t *testing.T) {
	h := plugintest.New(t, "Q", " [", "tool]", " x", "[/tool]", " 4", "\nTime is up.\n", "</think>", "</s>")
	for _, c := range []struct{ said, want string }{
		{" [tool] x x x[/tool]", " [tool] x x x[/tool]"},         // the model ends its text there
		{" [tool] x x[/tool] 4 4 4", " [tool] x x[/tool] 4 4 4"}, // and here it goes on
		{" [ x x x", " [ x\nTime is up.\n 4"},
		{" x x x", " x\nTime is up.\n 4"},
	} {
		m := h.Program(t, &plugintest.Model{Next: func(text string) string {
			if strings.Contains(text, "Time is up") {
				return " 4"
			}
			return strings.TrimPrefix(c.said, strings.TrimPrefix(text, "Q"))
		}, ReadCalls: func(text string) program.Calls {
			switch {
			case strings.HasSuffix(text, "[/tool]") || strings.HasSuffix(text, " 4"):
				return program.CallsMade
			case strings.HasSuffix(text, " [") || strings.Contains(text, "tool]"):
				return program.OpenCall
			}
			return program.NoCalls
		}})
		if got, err := m.Run(think{}, "Q", `{"budget":1}`); got != c.want || err != nil {
			t.Errorf("%q (%v), want %q after %q", got, err, c.want, m.Runs)
		}
	}
}

func TestParameters(t *testing.T) {
	for _, bad := range []string{`{"budget":0}`, `{"budget":1.5}`, `{"end":""}`, `{"hint":7}`, `{"x":1}`} {
		if err := (think{}).Validate([]byte(bad)); err == nil {
			t.Errorf("%s is accepted", bad)
		}
	}
	if err := (think{}).Validate([]byte(`{"budget":3,"end":"</t>"}`)); err != nil {
		t.Error(err)
	}
}
