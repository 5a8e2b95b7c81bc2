package main

import (
	"reflect"
	"strings"
	"testing"

	"tgi/plugins/std/toolcalls"
	"tgi/sdk/go/plugintest"
	"tgi/sdk/go/tools"
)

func TestConstraint(t *testing.T) {
	plugintest.New(t, "<tool_call>", "</tool_call>")
	p, err := open([]byte(`{"format": "hermes"}`))
	if err != nil {
		t.Fatal(err)
	}
	strict := strings.Replace(offered, `"name"`, `"strict": true, "name"`, 1)
	for _, c := range []struct {
		request      string
		held, insist bool
	}{
		{`{}`, false, false},
		{`{` + offered + `}`, false, false},
		{`{"tool_choice": "none", ` + strict + `}`, false, false},
		{`{"tool_choice": "required", ` + offered + `}`, true, false},
		{`{"tool_choice": {"name": "now"}, ` + offered + `}`, true, false},
		{`{"tool_choice": "required", ` + strict + `}`, true, true},
		{`{` + strict + `}`, true, true},
	} {
		got, err := plugintest.Constraint(p, c.request)
		if err != nil || (got.Source != "") != c.held || c.held && (got.Optional == c.insist ||
			got.Language != "structural_tag" ||
			len(got.Places) != 2 || got.Places[0].Pointer != "#/tools/0/function/parameters" ||
			got.Places[0].Tool != "now") {
			t.Errorf("%s: %+v, %v", c.request, got, err)
		}
		if c.held && !strings.Contains(got.Source, `{"type":"token","token":"<tool_call>"}`) {
			t.Errorf("%s: the marker is a special token, and %s takes it for text", c.request, got.Source)
		}
	}
	got, err := plugintest.Constraint(p, `{"params": {"format": "tgi"}, `+strict+`}`)
	if want := []tools.Dropped{{Pointer: "#/tools/0/function/strict", Keyword: "strict",
		Reason: "in the format tgi a call may begin without a marker, and is told from an answer when it is complete"}}; err != nil ||
		got.Source != "" || !reflect.DeepEqual(got.Dropped, want) {
		t.Errorf("a format without a marker: %+v, %v", got, err)
	}
	odd := `"tools": [{"function": {"name": "now", "strict": true, "parameters": {"anyOf": [{}]}}}]`
	if _, err := plugintest.Constraint(p, `{"params": {"format": "glm-4.5"}, "tool_choice": "required", `+odd+
		`}`); err == nil ||
		!strings.Contains(err.Error(), "tool `now`: #/tools/0/function/parameters/anyOf: anyOf: ") {
		t.Errorf("what the format can't say: %v", err)
	}
	for _, bad := range []string{`[]`, `{"params": {"format": "x"}, ` + strict + `}`} {
		if _, err := plugintest.Constraint(p, bad); err == nil {
			t.Errorf("%s is accepted", bad)
		}
	}
}

// TestAnswer: an answer of a JSON schema stands beside calls, unless calls begin without a marker.
func TestAnswer(t *testing.T) {
	plugintest.New(t)
	p, err := open([]byte(`{}`))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		format, answer string
		held           bool
	}{
		{"hermes", `{"language": "json_schema", "source": "{\"type\": \"null\"}"}`, true},
		{"hermes", `{"language": "json_schema", "source": "{\"type\": \"null\"}", "params": {"lenient": true}}`, true},
		{"gpt-oss", `{"language": "json_object", "source": ""}`, true},
		{"hermes", `{"language": "regex", "source": "^a$"}`, true},
		{"gpt-oss", `{"language": "gbnf", "source": "root ::= \"a\""}`, true},
		{"hermes", `{"language": "lark", "source": "start: \"a\""}`, true},
		{"hermes", `{"language": "choice", "source": "[\"a\"]"}`, true},
		{"hermes", `{"language": "choice", "source": "[1]"}`, false},
		{"hermes", `{"language": "structural_tag", "source": "{}"}`, false},
		{"hermes", `{"language": "regex", "source": "a", "params": {"x": 1}}`, false},
		{"hermes", `{"language": "json_schema", "source": "{"}`, false},
		{"hermes", `{"language": "json_schema", "source": "{}", "params": {"whitespace": "compact"}}`, false},
		{"tgi", `{"language": "json_schema", "source": "{}"}`, false},
	} {
		got, err := plugintest.Constraint(p, `{"params": {"format": "`+c.format+`"}, "answer": `+c.answer+`, `+offered+
			`}`)
		n := len(got.Places)
		if strings.Contains(c.answer, "choice") && c.held { // texts, in which no place can be wrong
			if !got.Answer || got.Optional || !strings.Contains(got.Source, `{"type":"const_string","value":"a"}`) {
				t.Errorf("%s: %+v, %v", c.answer, got, err)
			}
			continue
		}
		if err != nil || got.Answer != c.held || c.held && (got.Optional || got.Places[n-1].Pointer != "#/answer" ||
			got.Places[n-1].Tool != "") {
			t.Errorf("%s, %s: %+v, %v", c.format, c.answer, got, err)
		}
		if loose := strings.Contains(got.Source, `{"type": "null"},"lenient":true`); loose != strings.Contains(c.answer,
			"lenient") {
			t.Errorf("%s: %s", c.answer, got.Source)
		}
	}
	got, err := plugintest.Constraint(p,
		`{"params": {"format": "hermes"}, "tool_choice": "required", "answer": {"language": "json_schema", "source": "{}"}, `+offered+`}`)
	if err != nil || !got.Answer || strings.Contains(got.Source, `"json_schema":{}`) {
		t.Errorf("a call is demanded: %+v, %v", got, err)
	}
}

func TestSplit(t *testing.T) {
	plugintest.New(t, "<a>", "</s>", "t", "e", "x", "<", ">")
	special := func(s string) toolcalls.Piece { return toolcalls.Piece{Text: s, Special: true} }
	text := func(s string) toolcalls.Piece { return toolcalls.Piece{Text: s} }
	for marker, want := range map[string][]toolcalls.Piece{
		"text":         {text("text")},
		"<a>":          {special("<a>")},
		"te<a>xt<a>":   {text("te"), special("<a>"), text("xt"), special("<a>")},
		"<a></s>":      {special("<a>"), {Text: "</s>", Special: true, End: true}},
		"<x>":          {text("<x>")},
		"no such byte": {text("no such byte")},
	} {
		if got := split(marker); !reflect.DeepEqual(got, want) {
			t.Errorf("%q gives %+v", marker, got)
		}
	}
}
