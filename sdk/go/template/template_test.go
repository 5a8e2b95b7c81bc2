package template

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"tgi/sdk/abi"
	"tgi/sdk/go/internal/registry"
)

// plain writes roles as template and contents as data.
type plain struct{}

func (plain) Render(r Request, out *Output) error {
	c, err := r.Read()
	if err != nil {
		return err
	}
	if len(c.Messages) == 0 {
		return errors.New("no messages")
	}
	for _, m := range c.Messages {
		out.Template("[" + m.Role + "]")
		out.Data(m.Content)
	}
	return nil
}

// picky takes parameters.
type picky struct{ plain }

func (picky) Validate(params []byte) error {
	if strings.Contains(string(params), "bad") {
		return errors.New("bad")
	}
	return nil
}

func TestRegister(t *testing.T) {
	var p Plugin = plain{}
	Register(func(config []byte) (Plugin, error) {
		if string(config) != `{"model":{}}` {
			return nil, errors.New("want a model")
		}
		return p, nil
	})
	if d := string(registry.Description()); !strings.Contains(d, `"kinds":["template"],"modes":[],"needs":[]`) {
		t.Errorf("description %s", d)
	}
	if registry.Init([]byte(`{}`)) == nil || registry.Init([]byte(`{"model":{}}`)) != nil {
		t.Error("the configuration is not handed over")
	}
	if registry.Begin([]byte(` {} `), nil) != nil || registry.Begin([]byte(`{"a":1}`), nil) == nil {
		t.Error("a plugin without Validate takes no parameters")
	}
	current = picky{}
	if registry.Begin([]byte(`{"a":1}`), nil) != nil || registry.Begin([]byte(`{"bad":1}`), nil) == nil {
		t.Error("Validate is not asked")
	}
	var out Output
	if err := render([]byte(`{"messages":[]}`), &out); err == nil || err.Error() != "no messages" {
		t.Errorf("refusal: %v", err)
	}
	if err := render([]byte(`{"messages":[{"role":"user","content":"é"}]}`), &out); err != nil ||
		out.Text() != "[user]é" {
		t.Errorf("%q, %v", out.Text(), err)
	}
	if want := []Span{{6, 8}}; !reflect.DeepEqual(out.Spans(), want) {
		t.Errorf("spans %v, want %v", out.Spans(), want)
	}
}

func TestRead(t *testing.T) {
	c, err := Request(`{"messages": [
		{"role": "user", "content": ["a", {"type": "image_url", "image_url": {"url": "x"}}, {"type": "text", "text": "b"}], "name": "Ann"},
		{"role": "assistant", "content": null, "reasoning_content": "hm", "tool_calls": [
			{"id": "c1", "type": "function", "function": {"name": "f", "arguments": {"x": [1, "}"]}}}]},
		{"role": "tool", "tool_call_id": "c1", "content": "42", "tool_calls": null}],
		"tools": [{"type": "function", "function": {"name": "f", "description": "does f", "parameters": {"type": "object"}}}, {"name": "bare"}],
		"documents": [{"text": "d"}], "add_generation_prompt": true, "continue_final_message": false, "kwargs": {"k": 1},
		"template": "rag", "now": "2025-01-02T03:04:05Z", "params": {"p": 2}, "new": [{}]}`).Read()
	if err != nil {
		t.Fatal(err)
	}
	m := c.Messages
	if m[0].Content != "ab" || len(m[0].Parts) != 3 || m[0].Parts[1].Type != "image_url" || m[0].Name != "Ann" {
		t.Errorf("parts: %+v", m[0])
	}
	if m[1].Content != "" || m[1].Parts != nil || m[1].Reasoning != "hm" || len(m[1].ToolCalls) != 1 {
		t.Errorf("calls: %+v", m[1])
	}
	if call := m[1].ToolCalls[0]; call.ID != "c1" || call.Name != "f" || string(call.Arguments) != `{"x": [1, "}"]}` {
		t.Errorf("call: %+v", call)
	}
	if m[2].ToolCallID != "c1" || m[2].Content != "42" || !strings.HasPrefix(string(m[2].Raw), `{"role": "tool"`) {
		t.Errorf("tool: %+v", m[2])
	}
	if f := c.Tools[0]; f.Name != "f" || f.Description != "does f" || string(f.Parameters) != `{"type": "object"}` ||
		c.Tools[1].Name != "bare" {
		t.Errorf("tools: %+v", c.Tools)
	}
	got := fmt.Sprintf("%s %v %v %s %s %s %s", c.Documents, c.AddGenerationPrompt, c.ContinueFinalMessage, c.Kwargs,
		c.Template, c.Now, c.Params)
	if want := `[{"text": "d"}] true false {"k": 1} rag 2025-01-02T03:04:05Z {"p": 2}`; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	for _, bad := range []string{`[]`, `{"messages": {}}`, `{"messages": [1]}`, `{"messages": [{"role": 1}]}`,
		`{"messages": [{"content": [7]}]}`,
		`{"messages": [{"tool_calls": [{"function": 1}]}]}`, `{"tools": [[]]}`, `{"kwargs": {]}`, `{} x`} {
		if _, err := Request(bad).Read(); err == nil {
			t.Errorf("%s is accepted", bad)
		}
	}
}

// TestOutput: neighbours are merged, and what the server would not take ends in an error.
func TestOutput(t *testing.T) {
	var out Output
	for _, s := range []string{"a", "", "b"} {
		out.Data(s)
	}
	out.Template("c")
	out.Template("")
	out.Data("d")
	if want := []Span{{0, 2}, {3, 4}}; out.Text() != "abcd" || !reflect.DeepEqual(out.Spans(), want) {
		t.Errorf("%q %v", out.Text(), out.Spans())
	}
	big := strings.Repeat("x", abi.MaxRendered-4)
	if out.Data(big); out.Err() != nil {
		t.Errorf("a text at the limit: %v", out.Err())
	}
	if out.Template("x"); out.Err() == nil {
		t.Error("a text beyond the limit is accepted")
	}
	out = Output{}
	for range abi.MaxSpans {
		out.Data("x")
		out.Template("y")
	}
	if out.Err() != nil {
		t.Errorf("spans at the limit: %v", out.Err())
	}
	if out.Data("x"); out.Err() == nil {
		t.Error("a span beyond the limit is accepted")
	}
}
