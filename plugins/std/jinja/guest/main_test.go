package main

import (
	"strings"
	"testing"

	"tgi/sdk/go/plugintest"
)

const source = `{{ bos_token }}{% for m in messages %}<|{{ m.role }}|>{{ m.content }}{% endfor %}{% if x %}{{ raise_exception('no ' ~ x) }}{% endif %}{{ 1 + (y or 1) }}`

func TestRender(t *testing.T) {
	for config, want := range map[string]string{
		`{"source": "` + source +
			`", "model": {"templates": {"default": "{{ nonsense"}}}`: "<|user|>«<s>»2",
		`{"model": {"tokens": {"bos_token": "<s>"}, "templates": {"default": "` + source +
			`"}}}`: "<s><|user|>«<s>»2",
		`{"parts": "keep", "model": {"templates": {"default": "{{ messages[0].content is string }}"}}}`: "True",
	} {
		p, err := open([]byte(config))
		if err != nil {
			t.Errorf("%s: %v", config, err)
			continue
		}
		got, err := plugintest.Render(p, `{"messages": [{"role": "user", "content": "<s>"}]}`)
		if got != want || err != nil {
			t.Errorf("%s: %s, %v; want %s", config, got, err, want)
		}
	}
}

// TestTools: a template that reads none shows them, unless the operator keeps it from that.
func TestTools(t *testing.T) {
	for config, want := range map[string]bool{`"tools": "auto"`: true, `"tools": "keep"`: false,
		`"parts": "auto"`: true} {
		p, err := open([]byte(`{"source": "{{ messages[0].content }}", ` + config + `}`))
		if err != nil {
			t.Fatal(err)
		}
		got, err := plugintest.Render(p, `{"messages": [{"role": "user", "content": "a"}], "tools": [{"name": "f"}]}`)
		if err != nil || strings.Contains(got, "---") != want {
			t.Errorf("%s: %s, %v", config, got, err)
		}
	}
}

// TestRefusals: what the client is told.
func TestRefusals(t *testing.T) {
	p, err := open([]byte(`{"source": "` + source + `"}`))
	if err != nil {
		t.Fatal(err)
	}
	for kwargs, want := range map[string]string{
		`{"x": "way"}`: "no way",
		`{"y": "z"}`:   "line 1: TypeError: unsupported operand type(s) for +: 'int' and 'str'",
		`{"tools": 1}`: "template input: kwargs: tools is a member of the request itself",
	} {
		if _, err := plugintest.Render(p, `{"messages": [], "kwargs": `+kwargs+`}`); err == nil || err.Error() != want {
			t.Errorf("%s: %v\nwant %s", kwargs, err, want)
		}
	}
}

func TestConfig(t *testing.T) {
	for config, want := range map[string]string{
		`{"source": "a\n{% if %}"}`: "default:2:7: ",
		`{"source": "{% if %}", "files": {"default": "/m/x.jinja", "y": "z"}}`: "/m/x.jinja:1:7: ",
		`{"model": {"templates": {"rag": "{{ a b }}"}}}`:                       "rag:1:6: ",
		`{"sourc": "a"}`: "unknown setting: sourc", `{"parts": "some"}`: "parts: want auto, join or keep",
		`{"tools": "x"}`: "tools: want auto or keep", `[]`: "want a JSON object",
	} {
		if _, err := open([]byte(config)); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: %v, want %s", config, err, want)
		}
	}
	p, err := open([]byte(`{}`))
	if err != nil {
		t.Fatal(err)
	}
	for params, ok := range map[string]bool{`{}`: true, `{"template": "x"}`: true, `{"template": 1}`: false,
		`{"x": 1}`: false} {
		if err := p.(renderer).Validate([]byte(params)); (err == nil) != ok {
			t.Errorf("%s: %v", params, err)
		}
	}
}
