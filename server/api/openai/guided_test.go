package openai

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"tgi/server/dispatch"
	"tgi/server/generate"
	"tgi/server/generate/generatetest"
)

// held is a server whose grammars are noted.
func held(g *generatetest.Grammars) func(l *generate.Limits, m *dispatch.Model) {
	return func(l *generate.Limits, m *dispatch.Model) {
		m.Service = generatetest.UserCode{Grammars: g, Chat: &generatetest.Chat{}}.On(
			generate.New(&generatetest.Engine{}, generatetest.Words{}, *l, nil))
	}
}

// TestGrammars: every way to ask for a grammar, on both routes.
func TestGrammars(t *testing.T) {
	schema := `{"type": "object"}`
	for _, c := range []struct {
		member string
		want   generate.Grammar
	}{
		{`"response_format":{"type":"json_object"}`, generate.Grammar{Field: "response_format",
			Language: "json_object"}},
		{`"response_format":{"type":"json_schema","json_schema":{"name":"x","strict":true,"schema":` + schema + `}}`,
			generate.Grammar{Field: "response_format", Language: "json_schema", Source: []byte(schema),
				Params: []byte(`{"lenient":false}`)}},
		{`"response_format":{"type":"json_object","value":` + schema + `}`, generate.Grammar{Field: "response_format",
			Language: "json_schema", Source: []byte(schema)}},
		{`"grammar":{"type":"regex","value":"a"}`, generate.Grammar{Field: "grammar", Language: "regex",
			Source: []byte("a")}},
		{`"guided_json":` + schema, generate.Grammar{Field: "guided_json", Language: "json_schema",
			Source: []byte(schema)}},
		{`"guided_json":"{}"`, generate.Grammar{Field: "guided_json", Language: "json_schema", Source: []byte("{}")}},
		{`"guided_regex":"a+"`, generate.Grammar{Field: "guided_regex", Language: "regex", Source: []byte("a+")}},
		{`"guided_choice":["a", "b"]`, generate.Grammar{Field: "guided_choice", Language: "choice",
			Source: []byte(`["a", "b"]`)}},
		{`"guided_grammar":"root ::= \"a\""`, generate.Grammar{Field: "guided_grammar", Language: "gbnf",
			Source: []byte(`root ::= "a"`)}},
		{`"guided_grammar":"start: \"a\""`, generate.Grammar{Field: "guided_grammar", Language: "lark",
			Source: []byte(`start: "a"`)}},
		{`"guided_json_object":true,"guided_json":null`, generate.Grammar{Field: "guided_json_object",
			Language: "json_object"}},
		{`"guided_json_object":false,"guided_regex":"a"`, generate.Grammar{Field: "guided_regex", Language: "regex",
			Source: []byte("a")}},
		{`"structured_outputs":{"choice":["a"],"json":null,"json_object":false}`,
			generate.Grammar{Field: "structured_outputs", Language: "choice", Source: []byte(`["a"]`)}},
		{`"structured_outputs":{"json":{},"disable_any_whitespace":true}`,
			generate.Grammar{Field: "structured_outputs", Language: "json_schema", Source: []byte("{}"),
				Params: []byte(`{"whitespace":"compact"}`)}},
		{`"guided_grammar":"start: \"a\"","structured_outputs":{"grammar":"start: \"a\""}`,
			generate.Grammar{Field: "guided_grammar", Language: "lark", Source: []byte(`start: "a"`)}},
		{`"response_format":{"type":"json_object","schema":{"type": "object"}},"guided_json":{"type":"object"}`,
			generate.Grammar{Field: "response_format", Language: "json_schema", Source: []byte(schema)}},
		{`"structured_outputs":{"structural_tag":"{\"a\":1}"}`, generate.Grammar{Field: "structured_outputs",
			Language: "structural_tag", Source: []byte(`{"a":1}`)}},
	} {
		for path, body := range map[string]string{chatPath: hi, completionPath: `"prompt":"a"`} {
			g := &generatetest.Grammars{}
			if rec := ask(newServer(&generatetest.Engine{}, held(g)), path, `{`+body+`,"max_tokens":1,`+c.member+
				`}`); rec.Code != 200 {
				t.Errorf("%s: %d %s", c.member, rec.Code, rec.Body)
				continue
			}
			if got := g.Compiled(); len(got) != 1 || !reflect.DeepEqual(got[0], c.want) {
				t.Errorf("%s %s\n got %+v\nwant %+v", path, c.member, got, c.want)
			}
			if bound, _ := g.Open(); bound != 0 {
				t.Errorf("%s: %d grammars are left open", c.member, bound)
			}
		}
	}
}

// TestGrammarsRefused: the error names the field that the client wrote.
func TestGrammarsRefused(t *testing.T) {
	const tools = `"tools":[{"type":"function","function":{"name":"f"}}]`
	for _, c := range []struct{ member, text, param, code string }{
		{`"guided_regex":"a","response_format":{"type":"json_object"}`,
			"Input validation error: `guided_regex` and `response_format` are both given: a request has one grammar",
			"response_format", "validation"},
		{`"guided_json":{},"structured_outputs":{"json":{},"disable_any_whitespace":true}`,
			"Input validation error: `guided_json` and `structured_outputs` are both given: a request has one grammar",
			"structured_outputs", "validation"},
		{`"response_format":{"type":"json_object","schema":{},"value":{}}`,
			"Failed to deserialize the JSON body into the target type: response_format: `schema` is given beside another schema, expected one of them at line 1 column 123", "response_format", "validation"},
		{`"structured_outputs":{"regex":"a","json":{}}`,
			"Input validation error: `structured_outputs.regex` and `structured_outputs.json` are both given: a request has one grammar",
			"structured_outputs.json", "validation"},
		{`"structured_outputs":{"regex":"a","whitespace_pattern":"x"}`,
			"Input validation error: `structured_outputs.whitespace_pattern` is not supported",
			"structured_outputs.whitespace_pattern", "validation"},
		{`"response_format":{"type":"json_object"},` + tools, "Tool error: Grammar and tools are mutually exclusive",
			"response_format", "tool_error"},
		{`"guided_json":{},"ignore_eos":true`,
			"Input validation error: `ignore_eos` and `guided_json` exclude each other: a grammar says where its text ends", "ignore_eos", "validation"},
		{`"guided_json":{}`, "Input validation error: grammar is not valid: #", "guided_json", "validation"},
	} {
		g := &generatetest.Grammars{Refuse: &generate.Invalid{Msg: "grammar is not valid: #", Field: "guided_json"}}
		rec := ask(newServer(&generatetest.Engine{}, held(g)), chatPath, `{`+hi+`,"max_tokens":1,`+c.member+`}`)
		var reply struct {
			Error struct{ Message, Param string }
			Kind  string `json:"error_type"`
		}
		if err := json.Unmarshal(rec.Body.Bytes(), &reply); err != nil || rec.Code != 422 ||
			reply.Error.Message != c.text || reply.Error.Param != c.param || reply.Kind != c.code {
			t.Errorf("%s\n got %d %s\nwant %s, %s, %s", c.member, rec.Code, rec.Body, c.text, c.param, c.code)
		}
	}
	g := &generatetest.Grammars{}
	if rec := ask(newServer(&generatetest.Engine{}, held(g)), chatPath,
		`{`+hi+`,"max_tokens":1,"tool_choice":"none","response_format":{"type":"json_object"},`+tools+
			`}`); rec.Code != 200 {
		t.Errorf("a grammar beside tools that may not be called: %d %s", rec.Code, rec.Body)
	}
}

// TestDropped: a reply says what the grammar is not held to, a stream in the last
// chunk of the last choice.
func TestDropped(t *testing.T) {
	g := &generatetest.Grammars{Drops: []generate.Dropped{{Pointer: "#/a", Keyword: "format", Reason: "b\"c"},
		{Pointer: "#", Keyword: "not"}}}
	s := newServer(&generatetest.Engine{}, held(g))
	const told = `,"grammar_dropped":[{"pointer":"#/a","keyword":"format","reason":"b\"c"},{"pointer":"#","keyword":"not","reason":""}]}`
	rec := ask(s, chatPath, `{`+hi+`,"max_tokens":1,"guided_json":{}}`)
	if got := rec.Body.String(); !strings.HasSuffix(got, `}`+told) || rec.Header().Get("X-Grammar-Dropped") != "2" {
		t.Errorf("got %s %v", got, rec.Header())
	}
	rec = ask(s, chatPath, `{`+hi+`,"max_tokens":2,"n":2,"stream":true,"guided_json":{}}`)
	got := rec.Body.String()
	if !strings.HasSuffix(got, `"finish_reason":"length"}]`+told+"\n\ndata: [DONE]\n\n") ||
		strings.Count(got, "grammar_dropped") != 1 || rec.Header().Get("X-Grammar-Dropped") != "2" {
		t.Errorf("got %s", got)
	}
	if rec = ask(s, chatPath, `{`+hi+`,"max_tokens":1}`); strings.Contains(rec.Body.String(), "dropped") ||
		rec.Header().Get("X-Grammar-Dropped") != "" {
		t.Errorf("without a grammar: %s", rec.Body)
	}
}
