package toolparser

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"tgi/examples/internal/served"
)

const tools = `"tools":[{"type":"function","function":{"name":"pin","description":"Keeps a number.",
	"parameters":{"type":"object","properties":{"value":{"type":"integer"}}}}}]`

// question is one that the model answers with {"pin": 4821}.
const question = `"messages":[{"role":"user","content":"As JSON: pin 4821"}]`

func TestServed(t *testing.T) {
	s := served.Start(t, ".")
	s.Documented(t, "README.md")

	r := s.Chat(t, question+`,`+tools)
	if len(r.Choices) != 1 || r.Choices[0].FinishReason != "tool_calls" || r.Choices[0].Message.Content != nil {
		t.Fatalf("%+v", r)
	}
	calls := r.Choices[0].Message.ToolCalls
	if len(calls) != 1 || calls[0].Function.Name != "pin" || calls[0].Function.Arguments != `{"value": 4821}` ||
		calls[0].ID == "" {
		t.Errorf("calls %+v", calls)
	}
	for about, members := range map[string]string{
		"no tools":     question,
		"none":         question + `,` + tools + `,"tool_choice":"none"`,
		"another tool": question + `,` + strings.Replace(tools, `"pin"`, `"pun"`, 1),
	} {
		if r := s.Chat(t, members); r.Text() != `{"pin": 4821}` || len(r.Choices[0].Message.ToolCalls) > 0 {
			t.Errorf("%s: %+v", about, r)
		}
	}
	if r := s.Chat(t, question+`,`+tools+`,"max_tokens":5`); r.Status != http.StatusOK ||
		len(r.Choices[0].Message.ToolCalls) > 0 || r.Choices[0].FinishReason != "length" {
		t.Errorf("a call that was cut: %+v", r)
	}
	if r := s.Chat(t, question+`,`+strings.Replace(tools, `"pin"`, `"pun"`, 1)+
		`,"tool_choice":"required"`); r.Status != http.StatusUnprocessableEntity {
		t.Errorf("a call is demanded, and of another tool: %+v", r)
	}
}

// TestTemplate: the template writes calls as the parser reads them.
func TestTemplate(t *testing.T) {
	const conversation = `"messages":[{"role":"user","content":"Pin it."},{"role":"assistant","content":null,
		"tool_calls":[{"id":"c","type":"function","function":{"name":"pin","arguments":"{\"value\":1}"}}]},{"role":"tool","tool_call_id":"c","content":"kept"}]`
	want := "<|im_start|>user\nPin it.<|im_end|>\n<|im_start|>assistant\n{\"pin\": 1}<|im_end|>\n" +
		"<|im_start|>tool\n<tool_response>\nkept\n</tool_response><|im_end|>\n<|im_start|>assistant\n"
	if got := served.Start(t, ".").Prompt(t, conversation); got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestStreamed: the same call, in a stream.
func TestStreamed(t *testing.T) {
	s := served.Start(t, ".")
	status, b := s.Post(t, "/v1/chat/completions", `{"model":"tgi","temperature":0,"stream":true,`+question+`,`+tools+
		`}`)
	var name, arguments, reason string
	for line := range strings.Lines(string(b)) {
		data, ok := strings.CutPrefix(line, "data: ")
		if !ok || strings.HasPrefix(data, "[DONE]") {
			continue
		}
		var chunk struct {
			Choices []struct {
				Delta struct {
					Content   string
					ToolCalls []struct {
						Function struct{ Name, Arguments string }
					} `json:"tool_calls"`
				}
				FinishReason string `json:"finish_reason"`
			}
		}
		if err := json.Unmarshal([]byte(data), &chunk); err != nil {
			t.Fatalf("%s: %v", data, err)
		}
		for _, c := range chunk.Choices {
			reason += c.FinishReason
			for _, call := range c.Delta.ToolCalls {
				name, arguments = name+call.Function.Name, arguments+call.Function.Arguments
			}
			if c.Delta.Content != "" {
				t.Errorf("content %q beside the call", c.Delta.Content)
			}
		}
	}
	if status != http.StatusOK || name != "pin" || arguments != `{"value": 4821}` || reason != "tool_calls" {
		t.Errorf("status %d, %s(%s), %s:\n%s", status, name, arguments, reason, b)
	}
}
