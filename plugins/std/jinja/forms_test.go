package jinja

import (
	"encoding/json"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"tgi/plugins/std/jinja/value"
)

// TestForms: of all the forms that a conversation can have, templates get the one that they show best. Which that is
// was found by Python, which tried them all.
func TestForms(t *testing.T) {
	var cases []struct {
		Template, Case string
		Request        json.RawMessage
		Text           *string
		Refused        bool
	}
	readGolden(t, "forms.json.gz", &cases)
	models, refused := map[string]*Model{}, 0
	for _, c := range cases {
		m := models[c.Template]
		if m == nil {
			src, err := os.ReadFile("testdata/" + c.Template)
			if err != nil {
				t.Fatal(err)
			}
			tokens := map[string]string{"bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>",
				"unk_token": "<unk>"}
			if m, err = NewModel(map[string]string{"default": string(src)}, tokens, PartsAuto); err != nil {
				t.Fatal(err)
			}
			m.KeepTools()
			models[c.Template] = m
		}
		request := string(c.Request[:len(c.Request)-1]) + `, "now": "` + testNow.Format(time.RFC3339) + `"}`
		segments, err := m.Render([]byte(request), InSandbox)
		switch {
		case c.Refused:
			refused++
			if err == nil {
				t.Errorf("%s, %s: rendered, Python finds no form that works:\n%s", c.Template, c.Case, Text(segments))
			}
		case err != nil:
			t.Errorf("%s, %s: %v", c.Template, c.Case, err)
		case Text(segments) != *c.Text:
			t.Errorf("%s, %s:\n%s", c.Template, c.Case, firstDiff(Text(segments), *c.Text))
		}
	}
	if len(cases) < 1400 || refused > len(cases)/10 {
		t.Errorf("%d conversations, %d of them refused: the goldens are not complete", len(cases), refused)
	}
}

// TestOtherForm: where a template fails in a case that was not tried when it was loaded, the other form is tried before
// the request is refused. The error is that of the first.
func TestOtherForm(t *testing.T) {
	const rare = "{% for m in messages %}{% if rare %}RARE{% else %}{{ m.content }}{% endif %}" +
		"{% for c in m.tool_calls %}({{ c.function.arguments if c.function.arguments is string else c.function.arguments | tojson }}){% endfor %}{% endfor %}"
	for _, c := range []struct{ what, inRare, message, want string }{
		{"a string where parts are wanted", "{% for p in m.content %}[{{ p.text + '' }}]{% endfor %}",
			`{"role": "user", "content": "Hi"}`, "[«Hi»]"},
		{"parts where a string is wanted", "{{ '<' + m.content }}",
			`{"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}`, "<«a»\n«b»"},
		{"null where a string is wanted", "{{ '<' + m.content }}",
			`{"role": "assistant", "content": null, "tool_calls": []}`, "<"},
		{"text where an object is wanted",
			"{% for k, v in m.tool_calls[0].function.arguments|items %}{{ k ~ v }}{% endfor %}",
			`{"role": "assistant", "content": "", "tool_calls": [{"function": {"name": "f", "arguments": {"a": 1}, "arguments_text": "{\"a\":1}"}}]}`, `«a»1({"«a»": 1})`},
		{"raised", "{{ raise_exception('no') }}", `{"role": "user", "content": "Hi"}`, "no"},
		{"the first error",
			"{{ 'first' if m.content is string else 'second' }}{{ (1 if m.content is string else 'x') + none }}",
			`{"role": "user", "content": "Hi"}`, "'int' and 'NoneType'"},
	} {
		m := mustModel(t, PartsAuto, "default", strings.Replace(rare, "RARE", c.inRare, 1))
		got, err := m.Render([]byte(`{"messages": [`+c.message+`], "kwargs": {"rare": true}}`), Limits{})
		if err != nil {
			if !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s: %v, want %s", c.what, err, c.want)
			}
		} else if marks(got) != c.want {
			t.Errorf("%s: %s, want %s", c.what, marks(got), c.want)
		}
	}
}

// TestLostForm: where a template fails with one form and loses the other, or writes it as Python does, the request is
// refused.
func TestLostForm(t *testing.T) {
	m := mustModel(t, PartsAuto, "default",
		"{% for m in messages %}{{ m.content }}{{ raise_exception('bad word') if 'bad' in m.content }}{% endfor %}")
	got, err := m.Render([]byte(`{"messages": [{"role": "user", "content": "a bad one"}]}`), Limits{})
	if !errors.Is(err, ErrRaised) {
		t.Errorf("%q, %v; want what the template raised", Text(got), err)
	}
}

// TestAttemptsShareLimits: all attempts together cost what one may.
func TestAttemptsShareLimits(t *testing.T) {
	m := mustModel(t, PartsAuto, "default",
		"{% for m in messages %}{% if x %}{% for i in range(4000) %}{% endfor %}{% for p in m.content %}{{ p.text + '' }}{% endfor %}{% else %}{{ m.content }}{% endif %}{% endfor %}")
	request := []byte(`{"messages": [{"role": "user", "content": "Hi"}], "kwargs": {"x": 1}}`)
	if got, err := m.Render(request, Limits{Steps: 20_000}); err != nil || Text(got) != "Hi" {
		t.Errorf("%q, %v", Text(got), err)
	}
	if _, err := m.Render(request, Limits{Steps: 6_000}); !value.IsClass(err, "UndefinedError") {
		t.Errorf("%v, want the first error", err)
	}
}

// TestArgumentsText: the text of arguments is beside the object in a request, and no template sees it there.
func TestArgumentsText(t *testing.T) {
	const request = `{"messages": [{"role": "assistant", "content": "", "tool_calls": [{"function": {"name": "f", "arguments": {"a": 1}, "arguments_text": "{ \"a\":1}"}}]}]}`
	for _, c := range []struct {
		parts        Parts
		source, want string
	}{
		{PartsAuto, "{{ messages[0].tool_calls | tojson }}", `[{"function": {"name": "f", "arguments": {"a": 1}}}]`},
		{PartsKeep, "{{ messages[0].tool_calls | tojson }}", `[{"function": {"name": "f", "arguments": {"a": 1}}}]`},
		{PartsAuto,
			"{% for m in messages %}{% for c in m.tool_calls %}{{ c.function.arguments }}{% endfor %}{% endfor %}",
			`{ "a":1}`},
		{PartsJoin,
			"{% for m in messages %}{% for c in m.tool_calls %}{{ c.function.arguments }}{% endfor %}{% endfor %}",
			`{ "a":1}`},
		{PartsKeep,
			"{% for m in messages %}{% for c in m.tool_calls %}{{ c.function.arguments }}{% endfor %}{% endfor %}",
			`{'a': 1}`},
		{PartsAuto,
			"{% for m in messages %}{% for c in m.tool_calls %}{% for k, v in c.function.arguments|items %}{{ k }}={{ v }}{% endfor %}{% endfor %}{% endfor %}", `a=1`},
	} {
		got, err := mustModel(t, c.parts, "default", c.source).Render([]byte(request), Limits{})
		if err != nil || Text(got) != c.want {
			t.Errorf("%s, %s: %q, %v; want %q", c.parts, c.source, Text(got), err, c.want)
		}
	}
}

// TestDocuments: they may be among the template's variables, as some clients send them.
func TestDocuments(t *testing.T) {
	m := mustModel(t, PartsAuto, "default", "{% for d in documents %}{{ d.text }}{% endfor %}")
	const own, inside = `"documents": [{"text": "own"}]`, `"kwargs": {"documents": [{"text": "inside"}]}`
	for request, want := range map[string]string{own: "own", inside: "inside",
		inside + `, "documents": null`: "inside"} {
		if got, err := m.Render([]byte(`{"messages": [], `+request+`}`), Limits{}); err != nil || Text(got) != want {
			t.Errorf("%s: %q, %v", request, Text(got), err)
		}
	}
	if _, err := m.Render([]byte(`{"messages": [], `+own+`, `+inside+`}`), Limits{}); !errors.Is(err, ErrInput) {
		t.Errorf("both: %v", err)
	}
}
