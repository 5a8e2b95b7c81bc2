package generate_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"tgi/server/generate"
	"tgi/server/wire"
)

func say(role, text string) generate.Message {
	b := wire.AppendString([]byte(`{"role":`), role)
	b = append(wire.AppendString(append(b, `,"content":`...), text), '}')
	return generate.Message{Role: role, HasText: strings.TrimSpace(text) != "", JSON: b}
}

func talk(list ...generate.Message) *generate.Conversation {
	return &generate.Conversation{Messages: list, Parallel: true}
}

func TestTemplateRequest(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 600_000_000, time.FixedZone("", 3600))
	const now = `,"now":"2026-01-02T03:04:05.6+01:00"}`
	const tools = `[{"type":"function","function":{"name":"f"}}]`
	raw := generate.Message{Role: "assistant", Calls: true,
		JSON: []byte(`{"role":"assistant","content":null,"tool_calls":[]}`)}
	full := talk(say("user", "a\n\"b\""), raw)
	full.Tools, full.Documents, full.Kwargs, full.Template = []byte(tools), []byte(`[{"title":"t"}]`),
		[]byte(`{"x": 1}`), "rag"
	silent := talk(say("user", "a"))
	silent.Tools, silent.ToolChoice.Mode = []byte(tools), generate.ChooseNone
	for want, c := range map[string]*generate.Conversation{
		`{"messages":[{"role":"user","content":"a\n\"b\""},{"role":"assistant","content":null,"tool_calls":[]}],"tools":` + tools +
			`,"documents":[{"title":"t"}],"add_generation_prompt":true,"continue_final_message":false,"kwargs":{"x": 1},"template":"rag"` + now: full,
		// Who may call nothing is told of nothing.
		`{"messages":[{"role":"user","content":"a"}],"add_generation_prompt":true,"continue_final_message":false` +
			now: silent,
	} {
		got := string(c.TemplateRequest(at))
		if got != want || !json.Valid([]byte(got)) {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
}

// TestContinuing: a last turn of the assistant's is gone on with, as TGI does,
// unless the request says otherwise.
func TestContinuing(t *testing.T) {
	yes, no := ptr(true), ptr(false)
	called := say("assistant", "a")
	called.Calls = true
	for _, c := range []struct {
		last              generate.Message
		goOn, ask         *bool
		wantAsk, wantGoOn bool
	}{
		{say("user", "a"), nil, nil, true, false},
		{say("assistant", "a"), nil, nil, false, true},
		{say("assistant", " \n"), nil, nil, true, false},
		{say("assistant", ""), nil, nil, true, false},
		{called, nil, nil, true, false},
		{say("assistant", "a"), no, nil, true, false},
		{say("assistant", "a"), nil, yes, true, false},
		{say("assistant", "a"), nil, no, false, true},
		{say("assistant", "a"), no, no, false, false},
		{say("user", "a"), nil, no, false, false},
		{say("user", "a"), yes, nil, false, true},
		{called, yes, no, false, true},
	} {
		conv := talk(c.last)
		conv.Continue, conv.GenerationPrompt = c.goOn, c.ask
		var got struct {
			Ask  bool `json:"add_generation_prompt"`
			GoOn bool `json:"continue_final_message"`
		}
		if err := json.Unmarshal(conv.TemplateRequest(time.Time{}), &got); err != nil {
			t.Fatal(err)
		}
		if got.Ask != c.wantAsk || got.GoOn != c.wantGoOn {
			t.Errorf("%+v, %v, %v: got %+v", c.last, c.goOn, c.ask, got)
		}
	}
}

func TestToolsRequest(t *testing.T) {
	const tools = `[{"type":"function","function":{"name":"f"}}]`
	for want, choice := range map[string]generate.ToolChoice{
		`{"tools":` + tools + `,"tool_choice":"auto","parallel_tool_calls":true,"prompt_end":"<\"é>"}`: {},
		`{"tool_choice":"none","parallel_tool_calls":true,"prompt_end":"<\"é>"}`:                       {Mode: generate.ChooseNone},
		`{"tools":` + tools +
			`,"tool_choice":"required","parallel_tool_calls":true,"prompt_end":"<\"é>"}`: {Mode: generate.ChooseRequired},
		`{"tools":` + tools +
			`,"tool_choice":{"name":"f.1"},"parallel_tool_calls":false,"prompt_end":"<\"é>"}`: {Mode: generate.ChooseNamed, Name: "f.1"},
	} {
		c := talk(say("user", "a"))
		c.Tools, c.ToolChoice = []byte(tools), choice
		if got := string(c.ToolsRequest(`<"é>`)); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
	one := talk()
	one.Parallel = false
	if got, want := string(one.ToolsRequest("")),
		`{"tool_choice":"auto","parallel_tool_calls":false,"prompt_end":""}`; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// TestPromptEnd: a parser sees the last 1,024 bytes, never a part of a character.
func TestPromptEnd(t *testing.T) {
	for prompt, want := range map[string]int{
		strings.Repeat("a", 1024):                1024,
		strings.Repeat("a", 5000):                1024,
		strings.Repeat("é", 600):                 1024,
		strings.Repeat("é", 600) + "a":           1023,
		strings.Repeat("é", 10) + "\xff\x80\x80": 23,
		strings.Repeat("\x80", 2000):             0,
	} {
		var got struct {
			End string `json:"prompt_end"`
		}
		if err := json.Unmarshal(talk().ToolsRequest(prompt), &got); err != nil {
			t.Fatal(err)
		}
		valid := utf8.ValidString(prompt)
		if valid && (len(got.End) != want || !strings.HasSuffix(prompt, got.End)) || !utf8.ValidString(got.End) {
			t.Errorf("a prompt of %d bytes ends with %d, want %d", len(prompt), len(got.End), want)
		}
	}
}
