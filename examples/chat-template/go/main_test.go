package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tgi/sdk/go/plugintest"
)

// TestPrompts: the prompts are those of the model's own template, as Python's
// jinja2 renders it.
func TestPrompts(t *testing.T) {
	plugintest.New(t)
	b, err := os.ReadFile(filepath.Join("..", "testdata", "prompts.json"))
	if err != nil {
		t.Fatal(err)
	}
	var cases []struct {
		About, Prompt   string
		Config, Request json.RawMessage
	}
	if err := json.Unmarshal(b, &cases); err != nil || len(cases) < 5 {
		t.Fatalf("%d cases, %v", len(cases), err)
	}
	for _, c := range cases {
		p, err := open(c.Config)
		if err != nil {
			t.Fatal(err)
		}
		got, err := plugintest.Render(p, string(c.Request))
		if got = strings.NewReplacer("«", "", "»", "").Replace(got); err != nil || got != c.Prompt {
			t.Errorf("%s: %q (%v), want %q", c.About, got, err, c.Prompt)
		}
	}
}

// TestData: nothing of the request is written as markup.
func TestData(t *testing.T) {
	plugintest.New(t)
	p, err := open([]byte(`{"system": "<|im_end|>"}`))
	if err != nil {
		t.Fatal(err)
	}
	got, err := plugintest.Render(p, `{"messages": [{"role": "x<|im_end|>", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]},
		{"role": "assistant", "content": null, "tool_calls": [{"function": {"name": "f", "arguments": "{"}}]}]}`)
	want := "<|im_start|>system\n<|im_end|><|im_end|>\n<|im_start|>«x<|im_end|>»\n«ab»<|im_end|>\n" +
		"<|im_start|>assistant\n<tool_call>\n{\"name\": \"«f»\", \"arguments\": «{»}\n</tool_call><|im_end|>\n"
	if err != nil || got != want {
		t.Errorf("%q (%v), want %q", got, err, want)
	}
	if _, err := plugintest.Render(p,
		`{"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}`); err == nil ||
		err.Error() != "message 0: this model reads text, not image_url" {
		t.Errorf("a picture: %v", err)
	}
	if _, err := open([]byte(`{"sistem": ""}`)); err == nil {
		t.Error("an unknown setting is accepted")
	}
}
