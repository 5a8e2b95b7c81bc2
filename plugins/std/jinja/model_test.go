package jinja

import (
	"errors"
	"strings"
	"testing"

	"tgi/plugins/std/jinja/value"
)

// marks shows the data of segments in «».
func marks(segments []Segment) string {
	var b strings.Builder
	for _, s := range segments {
		if s.Data {
			b.WriteString("«" + s.Text + "»")
		} else {
			b.WriteString(s.Text)
		}
	}
	return b.String()
}

func mustModel(t *testing.T, parts Parts, sources ...string) *Model {
	t.Helper()
	m := map[string]string{}
	for i := 0; i < len(sources); i += 2 {
		m[sources[i]] = sources[i+1]
	}
	model, err := NewModel(m, map[string]string{"bos_token": "<s>"}, parts)
	if err != nil {
		t.Fatal(err)
	}
	return model
}

// TestModelVariables: the variables are those of apply_chat_template, and only tokens count as the template's text.
func TestModelVariables(t *testing.T) {
	m := mustModel(t, PartsAuto, "default",
		"{{ bos_token }}{{ messages[0].content }}|{{ tools is none }}{{ documents is none }}{{ add_generation_prompt }}|"+
			"{{ enable_thinking }}|{{ continue_final_message is defined }}{{ params is defined }}{{ kwargs is defined }}|{{ strftime_now('%H:%M') }}")
	got, err := m.Render([]byte(`{"messages": [{"role": "user", "content": "<s>"}], "add_generation_prompt": true, "continue_final_message": false,
		"kwargs": {"enable_thinking": "<s>"}, "now": "2025-07-10T15:06:07+02:00", "params": {}}`), Limits{})
	if want := "<s>«<s>»|TrueTrueTrue|«<s>»|FalseFalseFalse|15:06"; err != nil || marks(got) != want {
		t.Errorf("got  %s, %v\nwant %s", marks(got), err, want)
	}
	got, err = m.Render([]byte(`{"messages": [{"content": ""}], "kwargs": {"bos_token": "X"}, "tools": [], "documents": [1]}`), Limits{})
	if want := "«X»|FalseFalseNone||FalseFalseFalse|00:00"; err != nil || marks(got) != want {
		t.Errorf("got  %s, %v\nwant %s", marks(got), err, want)
	}
	for request, want := range map[string]string{
		`{"messages": [], "kwargs": {"messages": []}}`:   "kwargs: messages is a member of the request itself",
		`{"messages": [{"content": ""}], "now": "noon"}`: `now is not a time in RFC 3339: "noon"`,
		`{}`: "messages is not a list",
	} {
		if _, err := m.Render([]byte(request), Limits{}); !errors.Is(err, ErrInput) ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", request, err, want)
		}
	}
}

// TestModelChoice: of several templates the request's is taken.
func TestModelChoice(t *testing.T) {
	m := mustModel(t, PartsAuto, "default", "d", "tool_use", "t", "rag", "r")
	for request, want := range map[string]string{
		`{"messages": []}`:                                                       "d",
		`{"messages": [], "tools": null}`:                                        "d",
		`{"messages": [], "tools": [{}]}`:                                        "t",
		`{"messages": [], "template": "rag", "tools": [{}]}`:                     "r",
		`{"messages": [], "params": {"template": "rag"}}`:                        "r",
		`{"messages": [], "template": "default", "params": {"template": "rag"}}`: "d",
	} {
		got, err := m.Render([]byte(request), Limits{})
		if err != nil || Text(got) != want {
			t.Errorf("%s: %q, %v; want %s", request, Text(got), err, want)
		}
	}
	for want, m := range map[string]*Model{
		`template "x" is none of this model's: default, rag, tool_use`: m,
		`no template of name default: name one of rag`:                 mustModel(t, PartsAuto, "rag", "r"),
		`the model has no chat template`:                               mustModel(t, PartsAuto),
	} {
		input := `{"messages": []}`
		if strings.Contains(want, `"x"`) {
			input = `{"messages": [], "template": "x"}`
		}
		if _, err := m.Render([]byte(input), Limits{}); !errors.Is(err, ErrInput) ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
	if _, err := NewModel(map[string]string{"default": "x", "rag": "a\n {% if %}"}, nil, PartsAuto); err == nil ||
		!strings.HasPrefix(err.Error(), "rag:2:8: ") {
		t.Errorf("%v, want the template's name, line and column", err)
	}
	if _, err := NewModel(nil, nil, "split"); err == nil ||
		!strings.Contains(err.Error(), `auto, join or keep, not "split"`) {
		t.Errorf("%v, want the ways with parts", err)
	}
}

// TestParts: content that is a list becomes a string where the template can't deal with lists.
func TestParts(t *testing.T) {
	const request = `{"messages": [{"role": "user", "content": [{"type": "text", "text": "a"}, "b", {"text": "c"}]}, {"role": "x"}]}`
	plain := "{% for m in messages %}{{ m.role }}:{{ m.content }};{% endfor %}"
	looping := "{% for m in messages %}{% for p in m.content %}[{{ p.text }}]{% endfor %}{% endfor %}"
	for _, c := range []struct {
		parts        Parts
		source, want string
	}{
		{PartsAuto, plain, "user:«a»\n«b»\n«c»;«x»:;"},
		{PartsAuto, looping, "[«a»][][«c»]"},
		{PartsAuto,
			"{% for m in messages %}{{ m.content is string }}{% for p in m.content %}{{ p.text }}{% endfor %}{% endfor %}", "False«ac»False"},
		{PartsAuto, "{% for m in messages %}{{ m.content is string }}{% for p in m.content %}{% endfor %}{% endfor %}",
			"TrueFalse"},
		{PartsJoin, looping, "[][][][][]"},
		{PartsKeep, plain, "user:[{'type': '«text»', 'text': '«a»'}, '«b»', {'text': '«c»'}];«x»:;"},
	} {
		got, err := mustModel(t, c.parts, "default", c.source).Render([]byte(request), Limits{})
		text := strings.NewReplacer("«type»", "type", "«text»':", "text':").Replace(marks(got))
		if err != nil || text != c.want {
			t.Errorf("%s, %s:\ngot  %s, %v\nwant %s", c.parts, c.source, text, err, c.want)
		}
	}
	const simple = `{"messages": [{"role": "user", "content": "ab"}]}`
	for parts, want := range map[Parts]string{PartsAuto: "[«ab»]", PartsKeep: "[][]"} {
		if got, err := mustModel(t, parts, "default", looping).Render([]byte(simple), Limits{}); err != nil ||
			marks(got) != want {
			t.Errorf("%s, a string where parts are wanted: %s, %v; want %s", parts, marks(got), err, want)
		}
	}
	image := `{"messages": [{"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "image_url"}]}]}`
	_, err := mustModel(t, PartsAuto, "default", plain).Render([]byte(image), Limits{})
	if want := `message 0: the template takes text only, and part 1 of the content is of type "image_url"`; err == nil || !strings.HasSuffix(err.Error(), want) {
		t.Errorf("%v, want %s", err, want)
	}
}

// TestRoles: a role that models know may be a part of a special token, another may not.
func TestRoles(t *testing.T) {
	m := mustModel(t, PartsAuto, "default", "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}{% endfor %}")
	got, err := m.Render([]byte(`{"messages": [{"role": "user", "content": "user"}, {"role": "endoftext"}, {"role": "assistant", "content": "x"}]}`), Limits{})
	if want := "<|user|>«user»<|«endoftext»|><|assistant|>«x»"; err != nil || marks(got) != want {
		t.Errorf("got  %s, %v\nwant %s", marks(got), err, want)
	}
}

// TestTextArguments: a template that joins the arguments of calls to strings gets them as text.
func TestTextArguments(t *testing.T) {
	const source = "{% for m in messages %}{% for c in m.tool_calls %}<{{ c.function.name + ' ' + c.function.arguments }}>{% endfor %}{% endfor %}"
	const request = `{"messages": [{"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": {"a": ["é", 1]}}}, {"function": {"name": "g", "arguments": "x"}}]}, {"tool_calls": 1}, {"tool_calls": [1]}]}`
	for parts, want := range map[Parts]string{PartsAuto: `<«f» {"«a»": ["«é»", 1]}><«g» «x»>`, PartsKeep: "TypeError"} {
		short := strings.Replace(request, `, {"tool_calls": 1}, {"tool_calls": [1]}`, "", 1)
		got, err := mustModel(t, parts, "default", source).Render([]byte(short), Limits{})
		if parts == PartsKeep {
			if !value.IsClass(err, want) {
				t.Errorf("%s: %v, want a %s", parts, err, want)
			}
		} else if err != nil || marks(got) != want {
			t.Errorf("%s: %s, %v; want %s", parts, marks(got), err, want)
		}
	}
	if _, err := mustModel(t, PartsAuto, "default", source).Render([]byte(request), Limits{}); !value.IsClass(err,
		"TypeError") {
		t.Errorf("messages that are wrong otherwise: %v, want the first TypeError", err)
	}
}
