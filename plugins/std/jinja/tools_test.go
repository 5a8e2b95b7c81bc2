package jinja

import (
	"os"
	"strings"
	"testing"

	"tgi/plugins/std/jinja/syntax"
)

func TestReadsTools(t *testing.T) {
	for source, want := range map[string]toolSupport{
		"{{ messages }}":       {results: true},
		"{{ tools | tojson }}": {tools: true, results: true},
		"{% if x %}{% set tools = y %}{% endif %}{{ tools }}": {tools: true,
			results: true},
		"{% set tools = y %}{{ message.tools }}{{ x['tools'] }}":  {results: true},
		"{% macro f(tools) %}{{ tools }}{% endmacro %}{{ f(x) }}": {results: true},
		"{% macro f(tools) %}{{ tools }}{% endmacro %}{{ f(tools) }}": {tools: true,
			results: true},
		"{% macro f(x) %}{{ x }}{% endmacro %}{{ f(x=tools) }}": {tools: true,
			results: true},
		"{% macro f(x) %}{{ tools }}{% endmacro %}": {tools: true,
			results: true},
		"{% call(tools) f() %}{{ tools }}{% endcall %}": {results: true},
		"{% for t in tools if t %}{% endfor %}": {tools: true,
			results: true},
		"{% if messages and tools is defined %}{% endif %}": {tools: true,
			results: true},
		"{% filter trim %}{% with a = tools or [] %}{{ a }}{% endwith %}{% endfilter %}": {tools: true,
			results: true},
		"{% if m.role == 'user' %}{{ m.tool_calls }}{% endif %}": {calls: true},
		"{% if m['role'] in ['user', 'tool'] %}{{ m.get('tool_calls') }}{% endif %}": {calls: true,
			results: true},
		"{% if 'tool_calls' in m %}{% elif m['role'] != 'assistant' %}{{ 'tools' }}{% endif %}": {calls: true},
	} {
		if got := toolSupportOf(mustParseTree(t, source)); got != want {
			t.Errorf("%s: %+v, want %+v", source, got, want)
		}
	}
}

// TestReadsToolsOfTemplates: of real templates, those that name tools nowhere are told from the others.
func TestReadsToolsOfTemplates(t *testing.T) {
	for name, want := range map[string]toolSupport{
		"trl/qwen3":                     {tools: true, calls: true, results: true},
		"llama.cpp/GLM-4.6":             {tools: true, calls: true, results: true},
		"llama.cpp/openai-gpt-oss-120b": {tools: true, calls: true, results: true},
		"axolotl/mistral_v3_tekken":     {tools: true, calls: true, results: true},
		"trl/deepseekv3":                {calls: true, results: true},
		"axolotl/chatml":                {results: true},
		"axolotl/phi_4":                 {},
		"trl/phi3":                      {},
	} {
		src, err := os.ReadFile("testdata/templates/" + name + ".jinja")
		if os.IsNotExist(err) {
			t.Errorf("%s: no such template", name)
			continue
		}
		if got := toolSupportOf(mustParseTree(t, string(src))); err != nil || got != want {
			t.Errorf("%s: %+v, want %+v (%v)", name, got, want, err)
		}
	}
}

const (
	oneTool = `"tools": [{"type": "function", "function": {"name": "f", "description": "<s>"}}]`
	oneJSON = `[{"type": "function", "function": {"name": "f", "description": "<s>"}}]`
	turns   = "{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}"
	strict  = "{% for m in messages %}{% if (m.role == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('take turns') }}{% endif %}" +
		"<{{ 'U' if m.role == 'user' else 'A' }}>{{ m.content }}{% endfor %}"
)

// TestOfferedTools: a template that reads no tools shows them all the same, as TGI does.
func TestOfferedTools(t *testing.T) {
	for _, c := range []struct{ what, source, messages, more, want string }{
		{"default words", turns, `{"role": "user", "content": "Hi"}`, oneTool, "<user>«Hi»\n---\n«" + oneJSON + "»\n" +
			toolPrompt},
		{"no tools", turns, `{"role": "user", "content": "Hi"}`, `"tools": []`, "<user>«Hi»"},
		{"null", turns, `{"role": "user", "content": "Hi"}`, `"tools": null`, "<user>«Hi»"},
		{"read tools", turns + "{{ tools is none }}",
			`{"role": "user", "content": "Hi\n---\nUse", "tool_prompt": "Use"}`, oneTool, "<user>«Hi\n---\nUse»False"},
		{"the request's words", turns, `{"role": "user", "content": "Hi\n---\nUse <s>", "tool_prompt": "Use <s>"}`,
			oneTool,
			"<user>«Hi»\n---\n«" + oneJSON + "»\n«Use <s>»"},
		{"words that are not there", turns, `{"role": "user", "content": "Hi", "tool_prompt": "Use"}`, oneTool,
			"<user>«Hi»\n---\n«" + oneJSON + "»\n" + toolPrompt},
		{"the prompt is no member", "{{ messages[0] }}", `{"tool_prompt": "Use", "x": 1}`, `"tools": null`, "{'x': 1}"},
		{"the last turn is continued", turns,
			`{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Well"}`,
			`"continue_final_message": true, ` + oneTool,
			"<user>«Hi»\n---\n«" + oneJSON + "»\n" + toolPrompt + "<assistant>«Well»"},
		{"assistants alone", turns, `{"role": "assistant", "content": "Well"}`, oneTool, "<assistant>«Well»\n---\n«" +
			oneJSON + "»\n" + toolPrompt},
		{"no content", turns, `{"role": "user"}`, oneTool, "<user>\n---\n«" + oneJSON + "»\n" + toolPrompt},
		{"parts", turns,
			`{"role": "user", "content": [{"type": "text", "text": "Hi\n---\nUse"}], "tool_prompt": "Use"}`, oneTool,
			"<user>«Hi»\n---\n«" + oneJSON + "»\n«Use»"},
		{"parts kept", "{% for m in messages %}{% for p in m.content %}[{{ p.text }}]{% endfor %}{% endfor %}",
			`{"role": "user", "content": [{"type": "image", "text": 1}]}`, oneTool,
			"[1][\n---\n«" + oneJSON + "»\n" + toolPrompt + "]"},
	} {
		got, err := mustModel(t, PartsAuto, "default", c.source).Render([]byte(`{"messages": [`+c.messages+`], `+c.more+
			`}`), Limits{})
		if err != nil || strings.ReplaceAll(marks(got), "{'«x»'", "{'x'") != c.want {
			t.Errorf("%s:\ngot  %q, %v\nwant %q", c.what, marks(got), err, c.want)
		}
	}
	got, err := mustModel(t, PartsKeep, "default",
		turns).Render([]byte(`{"messages": [{"role": "user", "content": "Hi"}], `+oneTool+`}`), Limits{})
	if err != nil || marks(got) != "<user>«Hi»" {
		t.Errorf("kept as it is: %q, %v", marks(got), err)
	}
}

// TestEarlierCalls: what was called and what came back is shown where the template knows neither.
func TestEarlierCalls(t *testing.T) {
	const (
		ask     = `{"role": "user", "content": "Hi"}, `
		call    = `{"function": {"name": "f", "arguments": {"a": "<s>"}}}`
		results = `{"role": "tool", "content": "1"}, {"role": "tool", "content": [{"type": "text", "text": "<s>"}]}`
	)
	for _, c := range []struct{ what, source, messages, want string }{
		{"turns", strict, ask + `{"role": "assistant", "content": null, "tool_calls": [` + call +
			`, {"name": "g", "arguments": "x"}]}, ` + results,
			"<U>«Hi»<A>«{\"name\": \"f\", \"parameters\": {\"a\": \"<s>\"}}»\n«{\"name\": \"g\", \"parameters\": \"x\"}»<U>«1»\n«<s>»"},
		{"any role", turns, ask + `{"role": "assistant", "content": "See:", "tool_calls": [` + call + `]}, ` + results,
			"<user>«Hi»<assistant>«See:»\n«{\"name\": \"f\", \"parameters\": {\"a\": \"<s>\"}}»<tool>«1»<tool>«<s>»"},
		{"shown calls", "{{ messages[1].tool_calls | length }}" + turns,
			ask + `{"role": "assistant", "content": "", "tool_calls": [` + call + `]}`, "1<user>«Hi»<assistant>"},
		{"no calls", turns,
			ask + `{"role": "assistant", "content": "", "tool_calls": []}, {"role": "assistant", "tool_calls": [1]}`,
			"<user>«Hi»<assistant><assistant>"},
	} {
		got, err := mustModel(t, PartsAuto, "default", c.source).Render([]byte(`{"messages": [`+c.messages+`]}`),
			Limits{})
		if err != nil || marks(got) != c.want {
			t.Errorf("%s:\ngot  %q, %v\nwant %q", c.what, marks(got), err, c.want)
		}
	}
}

// mustParseTree gives the statements of a template.
func mustParseTree(t *testing.T, source string) []syntax.Stmt {
	t.Helper()
	tree, err := syntax.Parse("test", source)
	if err != nil {
		t.Fatal(err)
	}
	return tree.Body
}
