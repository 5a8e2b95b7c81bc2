package generate_test

import (
	"errors"
	"reflect"
	"strings"
	"testing"

	"tgi/runtime/engine"
	"tgi/runtime/llm"
	"tgi/server/generate"
	"tgi/server/generate/generatetest"
)

// offer is a conversation that offers a tool.
func offer(choice generate.ToolChoice) *generate.Conversation {
	c := talk(say("user", "a"))
	c.Tools, c.ToolNames = []byte(`[{"type":"function","function":{"name":"f","strict":true}}]`), []string{"f"}
	c.ToolChoice, c.Parallel, c.Strict = choice, true, true
	return c
}

// holding is a service whose parser says what texts are held to.
func holding(chat *generatetest.Chat, g *generatetest.Grammars) (*generate.Service, *generatetest.Engine) {
	e := &generatetest.Engine{Script: func(engine.Request) []engine.Event { return nil }}
	chat.Parse = true
	s := generate.New(e, generatetest.Words{}, generatetest.Limits(), nil).WithChat(chat)
	if g != nil {
		s.WithGrammars(g)
	}
	return s, e
}

// TestConstraint: the grammar that the parser wants is compiled, every sequence has a masker of it, and the reply tells
// what is not enforced.
func TestConstraint(t *testing.T) {
	want := generate.Grammar{Field: "tools", Language: generate.StructuralTag, Source: []byte("{}")}
	note := func(p string) generate.Dropped { return generate.Dropped{Pointer: p} }
	chat := &generatetest.Chat{Holds: &generate.ToolGrammar{Grammar: &want,
		Dropped: []generate.Dropped{note("#/tools")}}}
	g := &generatetest.Grammars{Drops: []generate.Dropped{note("#/tools/0")}}
	s, e := holding(chat, g)
	run, err := s.Start(t.Context(), generate.Draft{Conversation: offer(generate.ToolChoice{}), N: ptr(uint64(2)),
		Rules: generate.OpenAI})
	if err != nil {
		t.Fatal(err)
	}
	if got := g.Compiled(); len(got) != 1 || !reflect.DeepEqual(got[0], want) {
		t.Errorf("compiled %+v", got)
	}
	if asked := chat.Requests()[1]; !strings.Contains(asked, `"strict":true`) ||
		!strings.Contains(asked, `"prompt_end":"`) || !strings.Contains(asked, `assistant\n"`) {
		t.Errorf("the parser was asked %s", asked)
	}
	if got := run.Dropped(); !reflect.DeepEqual(got, []generate.Dropped{note("#/tools"), note("#/tools/0")}) {
		t.Errorf("dropped %+v", got)
	}
	for _, p := range user(t, e) {
		if p.Masker == nil {
			t.Error("a sequence is held to nothing")
		}
		p.Close()
	}
	run.Close()
	bound, maskers := g.Open()
	if chats, parsers := chat.Open(); bound+maskers+chats+parsers != 0 {
		t.Errorf("%d grammars, %d maskers, %d chats and %d parsers are left", bound, maskers, chats, parsers)
	}
}

// TestConstraintNotAsked: where there is nothing to hold to, or nothing to hold it with, the request is as it was.
func TestConstraintNotAsked(t *testing.T) {
	holds := &generate.ToolGrammar{Grammar: &generate.Grammar{}}
	none, loose := offer(generate.ToolChoice{Mode: generate.ChooseNone}), offer(generate.ToolChoice{})
	loose.Strict = false
	for name, c := range map[string]struct {
		draft    generate.Draft
		grammars *generatetest.Grammars
		holds    *generate.ToolGrammar
	}{
		"no grammars": {generate.Draft{Conversation: offer(generate.ToolChoice{Mode: generate.ChooseRequired})}, nil,
			holds},
		"no tools":      {generate.Draft{Conversation: talk(say("user", "a"))}, &generatetest.Grammars{}, holds},
		"no insistence": {generate.Draft{Conversation: loose}, &generatetest.Grammars{}, holds},
		"no calls":      {generate.Draft{Conversation: none}, &generatetest.Grammars{}, holds},
		"ignore_eos": {generate.Draft{Conversation: offer(generate.ToolChoice{}), IgnoreEOS: true},
			&generatetest.Grammars{}, holds},
		"nothing": {generate.Draft{Conversation: offer(generate.ToolChoice{})}, &generatetest.Grammars{}, nil},
		"only notes": {generate.Draft{Conversation: offer(generate.ToolChoice{})}, &generatetest.Grammars{},
			&generate.ToolGrammar{Dropped: []generate.Dropped{{Pointer: "#/tools"}}}},
	} {
		s, e := holding(&generatetest.Chat{Holds: c.holds}, c.grammars)
		run, err := s.Start(t.Context(), c.draft)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if all := e.Requests(); all[0].Plugins != nil {
			t.Errorf("%s: the sequences have user code", name)
		}
		if got := run.Dropped(); len(got) > 0 != (name == "only notes") {
			t.Errorf("%s: dropped %+v", name, got)
		}
		run.Close()
	}
}

// TestAnswerOrCalls: an answer's grammar is the parser's to put beside calls, or the request is refused as TGI does.
func TestAnswerOrCalls(t *testing.T) {
	answer := &generate.Grammar{Field: "response_format", Language: generate.JSONSchema, Source: []byte(`{"a": "\""}`),
		Params: []byte(`{"lenient":true}`)}
	holds := func(answer bool) *generate.ToolGrammar {
		return &generate.ToolGrammar{Grammar: &generate.Grammar{Source: []byte("both")}, Answer: answer}
	}
	refused := &generate.ToolError{Msg: "#/response_format: no"}
	for name, c := range map[string]struct {
		holds    *generate.ToolGrammar
		grammars *generatetest.Grammars
		mode     generate.Choosing
		compiled string
		err      string
	}{
		"both": {holds(true), &generatetest.Grammars{}, generate.ChooseAuto, "both", ""},
		"calls": {holds(false), &generatetest.Grammars{}, generate.ChooseAuto, "",
			"Grammar and tools are mutually exclusive"},
		"nothing": {nil, &generatetest.Grammars{}, generate.ChooseAuto, "",
			"Grammar and tools are mutually exclusive"},
		"no grammar": {&generate.ToolGrammar{Answer: true}, &generatetest.Grammars{}, generate.ChooseAuto, "",
			"Grammar and tools are mutually exclusive"},
		"no calls": {nil, &generatetest.Grammars{}, generate.ChooseNone, string(answer.Source), ""},
		"refused":  {holds(true), &generatetest.Grammars{Refuse: refused}, generate.ChooseAuto, "both", refused.Msg},
		"off":      {holds(true), nil, generate.ChooseAuto, "", "grammar is not supported"},
	} {
		chat := &generatetest.Chat{Holds: c.holds}
		s, _ := holding(chat, c.grammars)
		talk := offer(generate.ToolChoice{Mode: c.mode})
		talk.Strict, talk.Answer = false, answer
		run, err := s.Start(t.Context(), generate.Draft{Conversation: talk, Grammar: answer})
		if err == nil {
			run.Close()
		}
		if (err == nil) != (c.err == "") || err != nil && err.Error() != c.err {
			t.Errorf("%s: got %v, want %q", name, err, c.err)
		}
		if c.grammars == nil {
			continue
		}
		if got := c.grammars.Compiled(); c.compiled == "" && len(got) > 0 || c.compiled != "" &&
			(len(got) != 1 || string(got[0].Source) != c.compiled) {
			t.Errorf("%s: compiled %+v", name, got)
		}
		want := `,"answer":{"language":"json_schema","source":"{\"a\": \"\\\"\"}","params":{"lenient":true}}}`
		if c.holds != nil && !strings.HasSuffix(chat.Requests()[1], want) {
			t.Errorf("%s: the parser was asked %s", name, chat.Requests()[1])
		}
	}
}

// TestConstraintRefused: what can't be held to fails its request, unless nobody insists on it, and leaves nothing
// behind.
func TestConstraintRefused(t *testing.T) {
	holds := func(optional bool) *generate.ToolGrammar {
		return &generate.ToolGrammar{Grammar: &generate.Grammar{}, Optional: optional}
	}
	refused := &generate.ToolError{Msg: "tool `f`: #/tools/0/function/parameters/not: no"}
	unknown := &generate.ToolError{Msg: "no such language", Err: generate.ErrLanguage}
	for name, c := range map[string]struct {
		chat     *generatetest.Chat
		grammars *generatetest.Grammars
		want     error // nil: the request goes on and says so
	}{
		"by the parser": {&generatetest.Chat{RefuseHold: refused}, &generatetest.Grammars{}, refused},
		"parser is full": {&generatetest.Chat{RefuseHold: llm.ErrOverloaded}, &generatetest.Grammars{},
			llm.ErrOverloaded},
		"by the grammar": {&generatetest.Chat{Holds: holds(false)}, &generatetest.Grammars{Refuse: refused},
			refused},
		"grammar is broken": {&generatetest.Chat{Holds: holds(true)}, &generatetest.Grammars{Refuse: llm.ErrPlugin},
			llm.ErrPlugin},
		"begin": {&generatetest.Chat{Holds: holds(true)},
			&generatetest.Grammars{RefuseBegin: llm.ErrOverloaded}, llm.ErrOverloaded},
		"optional":    {&generatetest.Chat{Holds: holds(true)}, &generatetest.Grammars{Refuse: refused}, nil},
		"no language": {&generatetest.Chat{Holds: holds(false)}, &generatetest.Grammars{Refuse: unknown}, nil},
	} {
		s, _ := holding(c.chat, c.grammars)
		run, err := s.Start(t.Context(),
			generate.Draft{Conversation: offer(generate.ToolChoice{Mode: generate.ChooseRequired})})
		if !errors.Is(err, c.want) {
			t.Errorf("%s: got %v, want %v", name, err, c.want)
		}
		if err == nil {
			if got := run.Dropped(); len(got) != 1 || got[0].Pointer != "#/tools" || got[0].Reason == "" {
				t.Errorf("%s: dropped %+v", name, got)
			}
			run.Close()
		}
		bound, maskers := c.grammars.Open()
		if chats, parsers := c.chat.Open(); bound+maskers+chats+parsers != 0 {
			t.Errorf("%s: %d grammars, %d maskers, %d chats and %d parsers are left", name, bound, maskers, chats,
				parsers)
		}
	}
	if !errors.Is(unknown, generate.ErrTool) || !errors.Is(unknown, llm.ErrInvalid) ||
		!errors.Is(unknown, generate.ErrLanguage) || errors.Is(refused, generate.ErrLanguage) {
		t.Error("what a ToolError wraps")
	}
}
