package main

import (
	"fmt"
	"strings"
	"testing"

	"tgi/sdk/abi"
	"tgi/sdk/go/plugintest"
	"tgi/sdk/go/tools"
)

const offered = `"tools": [{"type": "function", "function": {"name": "now", "parameters": {"type": "object", "properties": {"n": {"type": "integer"}}}}}]`

// told writes events in short.
func told(events []tools.Event) string {
	var b strings.Builder
	for _, e := range events {
		switch e.Kind {
		case abi.EventContent, abi.EventReasoning, abi.EventArguments:
			fmt.Fprintf(&b, "%d:%s ", e.Kind, e.Text)
		case abi.EventBegin:
			fmt.Fprintf(&b, "begin %d %s %d ", e.Index, e.Name, len(e.ID))
		case abi.EventEnd:
			fmt.Fprintf(&b, "end %d ", e.Index)
		case abi.EventFailed:
			fmt.Fprintf(&b, "failed %d %d %s ", e.Index, e.Reason, e.Text)
		}
	}
	return strings.TrimSpace(b.String())
}

func TestParse(t *testing.T) {
	const hermes = `{"model": {"templates": {"default": "{{ '<tool_call>' }}"}}}`
	call := []string{"Hi ", "<tool_call>", `{"name": "now", "arg`, `uments": {}}`, "</tool_call>", "<|im_end|>"}
	for _, c := range []struct {
		config, request string
		pieces          []string
		want            string
	}{
		{hermes, `{` + offered + `}`, call, "0:Hi begin 0 now 29 3:{} end 0"},
		{hermes, `{}`, call, `0:Hi <tool_call>{"name": "now", "arguments": {}}</tool_call>`},
		{hermes, `{"tool_choice": "none", ` + offered + `}`, call[:3], `0:Hi <tool_call>{"name": "now", "arg`},
		{hermes, `{"tool_choice": {"name": "later"}, ` + offered + `}`, call,
			`0:Hi failed -1 1 <tool_call>{"name": "now", "arguments": {}}</tool_call>`},
		{hermes, `{"tool_choice": "required", ` + offered + `}`, call[:3],
			`0:Hi begin 0 now 29 failed 0 0 <tool_call>{"name": "now", "arg`},
		{hermes, `{"parallel_tool_calls": false, ` + offered + `}`, append(call[1:5:5], call[1:]...),
			`begin 0 now 29 3:{} end 0 failed -1 4 <tool_call>{"name": "now", "arguments": {}}</tool_call>`},
		{hermes, `{"prompt_end": "<think>\n", ` + offered + `}`, []string{"hm", "</think>", "yes"}, "1:hm 0:yes"},
		{hermes, `{"params": {"format": "mistral"}, ` + offered + `}`, []string{"[TOOL_CALLS]",
			`[{"name": "now", "arguments": {}}]`}, "begin 0 now 9 3:{} end 0"},
		{`{"format": "glm-4.5"}`, `{` + offered + `}`, []string{"<tool_call>",
			"now\n<arg_key>n</arg_key>\n<arg_value>7</arg_value>\n", "</tool_call>"},
			`begin 0 now 29 3:{"n": 7} end 0`},
		{`{"template": "x"}`, `{` + offered + `}`, []string{"<think>", "hm", "</think>", "yes"}, "1:hm 0:yes"},
		{`{"format": {"call": {"begin": ["<call>"], "end": ["</call>"]}, "named": {"separators": [" "]}}}`,
			`{` + offered + `}`, []string{"<call>", "now {}", "</call>"}, "begin 0 now 29 3:{} end 0"},
	} {
		plugintest.New(t)
		p, err := open([]byte(c.config))
		if err != nil {
			t.Errorf("%s: %v", c.config, err)
			continue
		}
		events, err := plugintest.Parse(p, c.request, c.pieces...)
		if got := told(events); err != nil || got != c.want {
			t.Errorf("%s, %s, %q:\ngot  %s (%v)\nwant %s", c.config, c.request, c.pieces, got, err, c.want)
		}
	}
}

func TestConfig(t *testing.T) {
	for config, want := range map[string]string{
		`{"format": "nonesuch"}`:       `format: "nonesuch" is none of auto, gpt-oss, `,
		`{"format": {"bare": "["}}`:    `tool call format: "": 0 bodies`,
		`{"format": {"bara": "["}}`:    `tool call format: unknown field "bara"`,
		`{"preset": "hermes"}`:         "unknown setting: preset",
		`{"model": {"templates": []}}`: "want a JSON object",
	} {
		if _, err := open([]byte(config)); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: %v, want %s", config, err, want)
		}
	}
	p, err := open([]byte(`{}`))
	if err != nil {
		t.Fatal(err)
	}
	for params, ok := range map[string]bool{`{}`: true, `{"format": "hermes"}`: true, `{"format": "x"}`: false,
		`{"x": 1}`: false, `{"format": {}}`: false} {
		if err := p.(reader).Validate([]byte(params)); (err == nil) != ok {
			t.Errorf("%s: %v", params, err)
		}
	}
	for _, request := range []string{`{"params": {"format": "x"}}`, `[]`, `{"tools": [{"name": "` + strings.Repeat("n",
		257) + `"}]}`} {
		plugintest.New(t)
		if _, err := p.Begin(tools.Request(request)); err == nil {
			t.Errorf("%.60s is accepted", request)
		}
	}
}
