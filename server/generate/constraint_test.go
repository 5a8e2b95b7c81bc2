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
func holding(chat *generatetest.Chat, g *generatetest.Grammars) *generate.Service {
	chat.Parse = true
	e := &generatetest.Engine{Script: func(engine.Request) []engine.Event { return nil }}
	return generatetest.UserCode{Chat: chat, Grammars: g}.On(
		generate.New(e, generatetest.Words{}, generatetest.Limits(), nil))
}

// loose offers tools without strict ones.
func loose(mode generate.Choosing) *generate.Conversation {
	c := offer(generate.ToolChoice{Mode: mode})
	c.Strict = false
	return c
}

// TestHoldCalls: texts are held to what the parser says where calls are demanded, a tool is strict or there is an
// answer to put beside them, and the reply tells what is not enforced.
func TestHoldCalls(t *testing.T) {
	answer := &generate.Grammar{Field: "response_format", Language: generate.JSONSchema, Source: []byte(`{"a": "\""}`),
		Params: []byte(`{"lenient":true}`)}
	both := func(mode generate.Choosing) *generate.Conversation {
		c := loose(mode)
		c.Answer = answer
		return c
	}
	const beside = `,"answer":{"language":"json_schema","source":"{\"a\": \"\\\"\"}","params":{"lenient":true}}}`
	for name, c := range map[string]struct {
		talk     *generate.Conversation
		draft    generate.Draft
		grammars *generatetest.Grammars
		held     bool   // as the parser says
		end      string // of what it was asked
		compiled bool   // the answer alone
	}{
		"strict": {offer(generate.ToolChoice{}), generate.Draft{}, &generatetest.Grammars{}, true,
			`assistant\n"}`, false},
		"demanded": {loose(generate.ChooseRequired), generate.Draft{}, &generatetest.Grammars{}, true,
			`assistant\n"}`, false},
		"answer": {both(generate.ChooseAuto), generate.Draft{Grammar: answer}, &generatetest.Grammars{}, true, beside,
			false},
		"answer alone": {both(generate.ChooseNone), generate.Draft{Grammar: answer}, &generatetest.Grammars{}, false,
			"", true},
		"no grammars":   {loose(generate.ChooseRequired), generate.Draft{}, nil, false, "", false},
		"no tools":      {talk(say("user", "a")), generate.Draft{}, &generatetest.Grammars{}, false, "", false},
		"no insistence": {loose(generate.ChooseAuto), generate.Draft{}, &generatetest.Grammars{}, false, "", false},
		"no calls": {offer(generate.ToolChoice{Mode: generate.ChooseNone}), generate.Draft{},
			&generatetest.Grammars{}, false, "", false},
		"ignore_eos": {loose(generate.ChooseAuto), generate.Draft{IgnoreEOS: true}, &generatetest.Grammars{}, false,
			"", false},
	} {
		chat := &generatetest.Chat{Beside: true, Drops: []generate.Dropped{{Pointer: "#/tools"}}}
		s := holding(chat, c.grammars)
		c.talk.NotEnforced = []generate.Dropped{{Pointer: "#/tool_choice"}}
		c.draft.Conversation = c.talk
		run, err := s.Start(t.Context(), c.draft)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		var want []generate.Dropped
		if c.talk.Tools != nil && c.talk.ToolChoice.Mode != generate.ChooseNone {
			want = c.talk.NotEnforced
		}
		if c.held {
			want = append(want[:1:1], chat.Drops...)
		}
		if got := run.Dropped(); !reflect.DeepEqual(got, want) {
			t.Errorf("%s: dropped %+v, want %+v", name, got, want)
		}
		if asked := chat.Requests(); c.held != (len(asked) == 3) || c.held && !strings.HasSuffix(asked[1], c.end) {
			t.Errorf("%s: the chat was asked %s", name, asked)
		}
		if c.grammars != nil && (len(c.grammars.Compiled()) == 1) != c.compiled {
			t.Errorf("%s: compiled %+v", name, c.grammars.Compiled())
		}
		run.Close()
		if chats, parsers := chat.Open(); chats+parsers != 0 {
			t.Errorf("%s: %d chats and %d parsers are left", name, chats, parsers)
		}
	}
}

// TestHoldCallsRefused: what can't be held to fails its request and leaves nothing behind; an answer beside calls needs
// grammars.
func TestHoldCallsRefused(t *testing.T) {
	refused := &generate.ToolError{Msg: "tool `f`: #/tools/0/function/parameters/not: no"}
	for _, want := range []error{refused, llm.ErrOverloaded} {
		chat := &generatetest.Chat{RefuseHold: want}
		_, err := holding(chat, &generatetest.Grammars{}).Start(t.Context(),
			generate.Draft{Conversation: offer(generate.ToolChoice{Mode: generate.ChooseRequired})})
		if !errors.Is(err, want) {
			t.Errorf("got %v, want %v", err, want)
		}
		if chats, parsers := chat.Open(); chats+parsers != 0 {
			t.Errorf("%v: %d chats and %d parsers are left", want, chats, parsers)
		}
	}
	c := loose(generate.ChooseAuto)
	c.Answer = &generate.Grammar{Field: "response_format"}
	for _, x := range []struct {
		draft    generate.Draft
		grammars *generatetest.Grammars
		want     string
	}{
		{generate.Draft{Conversation: c, Grammar: c.Answer}, nil, "grammar is not supported"},
		{generate.Draft{Conversation: offer(generate.ToolChoice{}), IgnoreEOS: true}, &generatetest.Grammars{},
			"`ignore_eos` and `tools` exclude each other: calls that are held to their tools say where the text ends"},
		{generate.Draft{Conversation: loose(generate.ChooseRequired), IgnoreEOS: true}, &generatetest.Grammars{},
			"`ignore_eos` and `tool_choice` exclude each other: calls that are held to their tools say where the text ends"},
	} {
		if _, err := holding(&generatetest.Chat{}, x.grammars).Start(t.Context(), x.draft); err == nil ||
			err.Error() != x.want {
			t.Errorf("got %v, want %s", err, x.want)
		}
	}
	if !errors.Is(refused, generate.ErrTool) || !errors.Is(refused, llm.ErrInvalid) {
		t.Error("what a ToolError wraps")
	}
}
