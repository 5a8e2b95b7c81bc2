package openai

import (
	"encoding/json"
	"testing"
	"time"

	"tgi/server/dialect"
	"tgi/server/wire"
)

// FuzzChat: whatever a body holds, templates and parsers are handed JSON.
func FuzzChat(f *testing.F) {
	for _, seed := range []string{
		`{` + hi + `}`,
		`{"messages":[{"role":"assistant","content":[{"type":"text","text":"a"}],"reasoning":"r","tool_calls":[{"id":"c","function":{"name":"f","arguments":"{\"a\":[1,{}]}"}},{"function":{"name":"g","parameters":{}}}]}]}`,
		`{` + hi +
			`,"tools":[{"type":"function","function":{"name":"f","arguments":{"a":1},"parameters":null}}],"tool_choice":{"function":{"name":"f"}},"tool_prompt":"x"}`,
		`{` + hi +
			`,"reasoning_effort":"low","chat_template_kwargs":{"a":"\u0000\ud83d\ude00"},"documents":[{"a": 1 }],"chat_template":"rag"}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		c, err := decodeChat(body, dialect.Default())
		if err != nil {
			return
		}
		talk := c.drafts[0].Conversation
		for _, request := range [][]byte{talk.TemplateRequest(time.Time{}), talk.ToolsRequest(string(body))} {
			if !json.Valid(request) {
				t.Errorf("%s became %s", body, request)
			}
		}
	})
}

// BenchmarkDecode reads a conversation of 50 messages with 10 tools and writes what
// the template is handed.
func BenchmarkDecode(b *testing.B) {
	body := []byte(`{"messages":[{"role":"system","content":"Be kind."}`)
	for range 12 {
		body = append(body,
			`,{"role":"user","content":[{"type":"text","text":"What time is it in Berlin, and what in Lima? Say both."}]},`+
				`{"role":"assistant","content":null,"tool_calls":[{"id":"c1","type":"function","function":{"name":"get_time","arguments":"{\"zone\": \"CET\", \"format\": \"%H:%M\"}"}}]},`+
				`{"role":"tool","tool_call_id":"c1","content":"12:00"},{"role":"assistant","content":"It is noon in Berlin and early morning in Lima."}`...)
	}
	body = append(body, `,{"role":"user","content":"Thanks"}],"tools":[`...)
	for i := range 10 {
		body = append(wire.Comma(body, i), `{"type":"function","function":{"name":"tool_`+string(rune('a'+i))+
			`","description":"Does what it can.","parameters":{"type":"object","properties":{"zone":{"type":"string","enum":["CET","PET"]},"n":{"type":"integer"}},"required":["zone"]}}}`...)
	}
	body = append(body, `]}`...)
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		c, err := decodeChat(body, dialect.Default())
		if err != nil {
			b.Fatal(err)
		}
		if n := len(c.drafts[0].Conversation.TemplateRequest(time.Time{})); n < 5000 {
			b.Fatal(n)
		}
	}
}
