package fields

import (
	"reflect"
	"strings"
	"testing"

	"tgi/server/generate"
	"tgi/server/wire"
)

func TestGrammar(t *testing.T) {
	for _, c := range []struct {
		text string
		want *generate.Grammar
	}{
		{`null`, nil},
		{`{"type":"text"}`, nil},
		{`{"type":"json","value":{"a": 1}}`, &generate.Grammar{Language: "json_schema", Source: []byte(`{"a": 1}`)}},
		{`{"value":"{\"a\":\u0031}","type":"json"}`, &generate.Grammar{Language: "json_schema",
			Source: []byte(`{"a":1}`)}},
		{`{"type":"json_object","value":{}}`, &generate.Grammar{Language: "json_schema", Source: []byte(`{}`)}},
		{`{"type":"json_object"}`, &generate.Grammar{Language: "json_object"}},
		{`{"type":"json_object","schema":{"type": "object"}}`, &generate.Grammar{Language: "json_schema",
			Source: []byte(`{"type": "object"}`)}},
		{`{"type":"json_object","schema":"{\"a\":1}","value":null}`, &generate.Grammar{Language: "json_schema",
			Source: []byte(`{"a":1}`)}},
		{`{"type":"json_schema","schema":true}`, &generate.Grammar{Language: "json_schema", Source: []byte(`true`)}},
		{`{"type":"json_object","schema":null}`, &generate.Grammar{Language: "json_object"}},
		{`{"type":"json_object","value":null}`, &generate.Grammar{Language: "json_object"}},
		{`{"type":"regex","value":"a\\d"}`, &generate.Grammar{Language: "regex", Source: []byte(`a\d`)}},
		{`{"type":"json_schema","value":{"name":"n","schema":{"type":"object"}}}`,
			&generate.Grammar{Language: "json_schema", Source: []byte(`{"type":"object"}`)}},
		{`{"type":"json_schema","json_schema":{"schema":true,"strict":true,"description":"d"}}`,
			&generate.Grammar{Language: "json_schema", Source: []byte(`true`), Params: []byte(`{"lenient":false}`)}},
		{`{"type":"json_schema","json_schema":{"schema":true,"strict":false}}`,
			&generate.Grammar{Language: "json_schema", Source: []byte(`true`), Params: []byte(`{"lenient":true}`)}},
		{`{"type":"json_schema","json_schema":{"schema":true,"strict":true},"params":{"x":1},"plugin":"p"}`,
			&generate.Grammar{Plugin: "p", Language: "json_schema", Source: []byte(`true`), Params: []byte(`{"x":1}`)}},
		{`{"type":"choice","value":["a","b"]}`, &generate.Grammar{Language: "choice", Source: []byte(`["a","b"]`)}},
		{`{"type":"grammar","value":"root ::= \"a\""}`, &generate.Grammar{Language: "gbnf",
			Source: []byte(`root ::= "a"`)}},
		{`{"type":"grammar","value":"start: \"::=\" // ::=\n"}`, &generate.Grammar{Language: "gbnf",
			Source: []byte("start: \"::=\" // ::=\n")}},
		{`{"type":"grammar","value":"# a ::= b\nstart: \"a\""}`, &generate.Grammar{Language: "lark",
			Source: []byte("# a ::= b\nstart: \"a\"")}},
		{`{"type":"grammar","value":"x","language":"mine"}`, &generate.Grammar{Language: "mine", Source: []byte("x")}},
		{`{"type":"grammar","value":{"y":2},"plugin":"p","params":null}`, &generate.Grammar{Plugin: "p",
			Source: []byte(`{"y":2}`)}},
		{`{"type":"structural_tag","triggers":["<f"],"structures":[]}`, &generate.Grammar{Language: "structural_tag",
			Source: []byte(`{"type":"structural_tag","triggers":["<f"],"structures":[]}`)}},
		{`{"type":"structural_tag","value":{"a":[]}}`, &generate.Grammar{Language: "structural_tag",
			Source: []byte(`{"a":[]}`)}},
	} {
		var got *generate.Grammar
		if err := wire.Decode([]byte(c.text), Grammar(&got, "f")); err != nil {
			t.Errorf("%s: %v", c.text, err)
			continue
		}
		if c.want != nil {
			c.want.Field = "f"
		}
		if !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s\n got %+v\nwant %+v", c.text, got, c.want)
		}
	}
}

func TestGrammarRefused(t *testing.T) {
	for text, want := range map[string]string{
		`{}`:                                       "missing field `type` at line 1 column 2",
		`{"type":"ebnf","value":1}`:                "unknown variant `ebnf`, expected one of `json`, `json_object`, `regex`, `json_schema`, `text`, `choice`, `grammar` or `structural_tag` at line 1 column 25",
		`{"type":"regex"}`:                         "missing field `value` at line 1 column 16",
		`{"type":"json"}`:                          "missing field `value` at line 1 column 15",
		`{"type":"json_schema"}`:                   "missing field `json_schema` at line 1 column 22",
		`{"type":"json_schema","value":{}}`:        "missing field `schema` at line 1 column 32",
		`{"type":"regex","value":7}`:               "invalid type: integer `7`, expected a string at line 1 column 25",
		`{"type":"json_schema","value":true}`:      "invalid type: boolean `true`, expected struct JsonSchema at line 1 column 34",
		`{"type":"regex","value":"a","params":[]}`: "params: invalid type: sequence, expected a map at line 1 column 37",
		`[]`: "invalid type: sequence, expected struct GrammarType at line 1 column 0",
	} {
		var g *generate.Grammar
		if err := wire.Decode([]byte(text), Grammar(&g, "f")); err == nil || err.Error() != want {
			t.Errorf("%s\n got %v\nwant %s", text, err, want)
		}
	}
	g := &generate.Grammar{Field: "guided_regex"}
	err := wire.Decode([]byte(`{"type":"json_object"}`), Grammar(&g, "response_format"))
	if err == nil || !strings.Contains(err.Error(), "`guided_regex` and `response_format` are both given") {
		t.Errorf("a second grammar: %v", err)
	}
}
