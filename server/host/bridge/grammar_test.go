package bridge

import (
	"context"
	"errors"
	"reflect"
	"testing"

	"tgi/plugins"
	"tgi/plugins/tools"
	"tgi/runtime/llm"
	"tgi/server/generate"
)

// TestHoldCalls checks that a parser plugin's constraint is compiled, and that one that can't be enforced fails its
// request in the client's terms, unless it is optional.
func TestHoldCalls(t *testing.T) {
	places := []tools.Place{{At: "#/a", Pointer: "#/tools/0/function/parameters", Tool: "f"},
		{At: "#/b", Pointer: "#/answer"}}
	source := func(optional, answer bool) *plugins.ToolGrammar {
		return &plugins.ToolGrammar{Language: "x", Source: "both", Optional: optional, Answer: answer, Places: places,
			Dropped: []generate.Dropped{{Pointer: "#/tools/0/function/strict"}}}
	}
	refused := &plugins.BindError{Plugin: "p", Text: "#/a/not: no", Err: plugins.ErrParams}
	unknown := &plugins.BindError{Text: "nobody knows x", Err: plugins.ErrUnknown}
	note := []generate.Dropped{{Pointer: "#/tool"}}
	answer := &generate.Grammar{Field: "response_format"}
	for name, c := range map[string]struct {
		answer  *generate.Grammar
		wants   *plugins.ToolGrammar
		compile error
		asked   bool
		err     string // "" where the request goes on
		why     string // it goes on without the grammar
	}{
		"nothing":     {nil, nil, nil, false, "", ""},
		"notes":       {nil, &plugins.ToolGrammar{Dropped: note}, nil, false, "", ""},
		"calls alone": {answer, source(false, false), nil, false, generate.AnswerOrCalls("").Error(), ""},
		"no plugin":   {answer, nil, nil, false, generate.AnswerOrCalls("").Error(), ""},
		"notes alone": {answer, &plugins.ToolGrammar{Answer: true, Dropped: note}, nil, false,
			generate.AnswerOrCalls("").Error(), ""},
		"refused":      {nil, source(false, false), refused, true, "tool `f`: #/function/parameters/not: no", ""},
		"optional":     {nil, source(true, false), refused, true, "", "tool `f`: #/function/parameters/not: no"},
		"no language":  {nil, source(false, false), unknown, true, "", "nobody knows x"},
		"both refused": {answer, source(true, true), refused, true, "tool `f`: #/function/parameters/not: no", ""},
		"both unknown": {answer, source(true, true), unknown, true, "nobody knows x", ""},
		"broken": {nil, source(true, false), &plugins.BindError{Plugin: "p", Text: "trap", Err: plugins.ErrFault}, true,
			llm.ErrPlugin.Error() + ": plugin p: trap", ""},
		"left": {nil, source(true, false), context.Canceled, true, "context canceled", ""},
	} {
		talk := &generate.Conversation{Answer: c.answer, ToolPlaces: []string{"#/function"}}
		asked := false
		h, err := holdCalls(t.Context(), talk, c.wants, func(_ context.Context, call plugins.GrammarCall) (
			*plugins.Grammar, error) {
			if asked = true; call.Language != "x" || string(call.Source) != "both" {
				t.Errorf("%s: asked for %+v", name, call)
			}
			return nil, c.compile
		})
		if (err == nil) != (c.err == "") || err != nil && err.Error() != c.err {
			t.Errorf("%s: got %v, want %q", name, err, c.err)
		}
		if asked != c.asked || h.grammar != nil {
			t.Errorf("%s: asked %v, got %v", name, asked, h.grammar)
		}
		if err != nil {
			continue
		}
		var want []generate.Dropped
		if c.wants != nil && c.wants.Source == "" {
			want = note
		} else if c.wants != nil {
			want = []generate.Dropped{{Pointer: "#/function/strict"},
				{Pointer: "#/tools", Keyword: "function", Reason: c.why}}
		}
		if !reflect.DeepEqual(h.dropped, want) {
			t.Errorf("%s: dropped %+v, want %+v", name, h.dropped, want)
		}
	}
}

// TestClientTerms checks that errors about a grammar of tools point into the client's request.
func TestClientTerms(t *testing.T) {
	g := &plugins.ToolGrammar{Places: []tools.Place{{At: "#/a", Pointer: "#/tools/1/function/parameters", Tool: "f"},
		{At: "#/b", Pointer: "#/answer"}}}
	c := &generate.Conversation{Answer: &generate.Grammar{Field: "response_format"}, ToolPlaces: []string{"#/x", "#/y"}}
	for text, want := range map[string][2]string{
		"#/a/not: no": {"#/y/parameters/not: no", "f"},
		"#/b: no":     {"#/response_format: no", ""},
		"too costly":  {"too costly", ""},
	} {
		if said, tool := clientTerms(c, g)(text); said != want[0] || tool != want[1] {
			t.Errorf("%s: %s, %s", text, said, tool)
		}
	}
}

// TestGrammarErrors checks that only a refused grammar is the client's mistake.
func TestGrammarErrors(t *testing.T) {
	var no *generate.Invalid
	err := grammarError(&plugins.BindError{Plugin: "p", Text: "#/a", Err: plugins.ErrParams}, "guided_json")
	if !errors.As(err, &no) || no.Field != "guided_json" || no.Msg != "grammar is not valid: #/a" {
		t.Errorf("got %v", err)
	}
	for _, cause := range []error{plugins.ErrOff, plugins.ErrFault} {
		err := grammarError(&plugins.BindError{Plugin: "p", Text: "x", Err: cause}, "guided_json")
		if !errors.Is(err, llm.ErrPlugin) || errors.As(err, &no) {
			t.Errorf("%v: got %v", cause, err)
		}
	}
	busy := grammarError(&plugins.BindError{Plugin: "p", Text: "x", Err: plugins.ErrBusy}, "guided_json")
	if !errors.Is(busy, llm.ErrOverloaded) {
		t.Errorf("got %v", busy)
	}
}
