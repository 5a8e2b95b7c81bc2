package openapi

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/santhosh-tekuri/jsonschema/v6"
)

// read returns the document with some plugins as other software reads it, which must find it valid.
func read(t *testing.T, plugins []Plugin) openapi3.Schemas {
	t.Helper()
	text := New(Served{Version: "1", Plugins: plugins}).JSON()
	doc, err := openapi3.NewLoader().LoadFromData(text)
	if err == nil {
		err = doc.Validate(t.Context())
	}
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	return doc.Components.Schemas
}

// fits reports whether a call fits the schema of plugins.
func fits(t *testing.T, all openapi3.Schemas, call string) error {
	t.Helper()
	var value any
	if err := json.Unmarshal([]byte(call), &value); err != nil {
		t.Fatal(err)
	}
	return all[pluginCall].Value.VisitJSON(value)
}

// TestPluginParams: what fits the schema that a plugin declares fits the document's; what does not, does not, unless
// OpenAPI 3.0 cannot say it.
func TestPluginParams(t *testing.T) {
	for _, c := range []struct {
		schema string
		loose  bool // the document lets pass more
		params []string
	}{
		{schema: `{"type":"object","additionalProperties":false,"required":["a"],"properties":{"a":{"type":"integer",
			"minimum":1,"maximum":5,"default":2,"description":"of x","x-unit":"s"}}}`,
			params: []string{`{}`, `{"a":1}`, `{"a":0}`, `{"a":6}`, `{"a":1.5}`, `{"a":"1"}`, `{"a":1,"b":1}`,
				`{"a":null}`}},
		{schema: `{"properties":{"a":{"exclusiveMinimum":0,"type":"number","exclusiveMaximum":1}}}`,
			params: []string{`{"a":0}`, `{"a":0.5}`, `{"a":1}`, `{"b":1}`}},
		{schema: `{"properties":{"a":{"exclusiveMinimum":0,"minimum":1,"type":"number"},
			"b":{"exclusiveMinimum":1,"minimum":1,"type":"number"}}}`,
			params: []string{`{"a":0.5}`, `{"a":1}`, `{"b":1}`, `{"b":1.1}`}},
		{schema: `{"properties":{"a":{"type":["string","null"],"minLength":2},"b":{"type":["string","object","null"]},
			"c":{"type":"null"},"d":{"type":["array","integer"],"items":{"type":"boolean"}},"e":{"type":"array"}}}`,
			params: []string{`{"a":null}`, `{"a":"x"}`, `{"a":"xy"}`, `{"a":1}`, `{"b":null}`, `{"b":{}}`, `{"b":[]}`,
				`{"b":"x"}`, `{"c":null}`, `{"c":""}`, `{"d":[true]}`, `{"d":[1]}`, `{"d":1}`, `{"d":""}`, `{"e":[1]}`,
				`{"e":1}`}},
		{schema: `{"properties":{"a":{"const":"x"},"b":{"enum":[1,"y"]},"c":{"type":"string","pattern":"^a+$",
			"format":"made-up"},"d":true,"e":false,"f":{"not":{"type":"string"}}},"additionalProperties":{"type":"integer"}}`,
			params: []string{`{"a":"x"}`, `{"a":"y"}`, `{"b":"y"}`, `{"b":2}`, `{"c":"aa"}`, `{"c":"ab"}`, `{"d":[1]}`,
				`{"e":1}`, `{"f":1}`, `{"f":"x"}`, `{"g":1}`, `{"g":"x"}`}},
		{schema: `{"type":"object","anyOf":[{"required":["a"]},{"required":["b"]}],"oneOf":[{"required":["a"]},
			{"required":["c"]}]}`,
			params: []string{`{"a":1}`, `{"b":1}`, `{"b":1,"c":1}`, `{"a":1,"c":1}`, `{}`}},
		{schema: `{"properties":{"a":{"type":["string","integer"],"anyOf":[{"minLength":2},{"type":"integer"}]}}}`,
			params: []string{`{"a":"xy"}`, `{"a":3}`, `{"a":true}`}},
		{schema: `{"properties":{"a":{"oneOf":[{"prefixItems":[{"type":"string"}]},{"prefixItems":[{"type":"integer"}]}]},
			"b":{"not":{"contains":{"const":1}}},"c":{"if":{"type":"string"},"then":{"minLength":3}}},
			"patternProperties":{"^p":{"type":"string"}},"additionalProperties":false}`, loose: true,
			params: []string{`{"a":["x"]}`, `{"a":[1]}`, `{"b":[2]}`, `{"c":"xyz"}`, `{"c":1}`, `{"p1":"x"}`,
				`{"q":1}`}},
		{schema: `{"examples":[{"a":1}],"title":"A","$schema":"https://json-schema.org/draft/2020-12/schema",
			"$comment":"x","minProperties":1,"maxProperties":2}`,
			params: []string{`{}`, `{"a":1}`, `{"a":1,"b":1,"c":1}`}},
	} {
		all := read(t, []Plugin{{Name: "other", Params: []json.RawMessage{nil}},
			{Name: "a-plugin", About: "does it", Params: []json.RawMessage{json.RawMessage(c.schema)}}})
		declared, err := jsonschema.UnmarshalJSON(strings.NewReader(c.schema))
		if err != nil {
			t.Fatal(err)
		}
		compiler := jsonschema.NewCompiler()
		if err := compiler.AddResource("declared", declared); err != nil {
			t.Fatal(err)
		}
		holds := compiler.MustCompile("declared")
		for _, params := range c.params {
			value, err := jsonschema.UnmarshalJSON(strings.NewReader(params))
			if err != nil {
				t.Fatal(err)
			}
			want, got := holds.Validate(value), fits(t, all, `{"name":"a-plugin","params":`+params+`}`)
			if (want == nil) != (got == nil) && !(c.loose && got == nil) {
				t.Errorf("%s\n%s: the plugin says %v, the document %v", c.schema, params, want, got)
			}
		}
	}
}

// TestPluginCalls: a call names a plugin that there is, and has the parameters that it needs.
func TestPluginCalls(t *testing.T) {
	schema := func(text string) json.RawMessage { return json.RawMessage(text) }
	some := read(t, []Plugin{{Name: "free"}, {Name: "bound", Params: []json.RawMessage{
		schema(`{"required":["n"],"properties":{"n":{"type":"integer"}},"additionalProperties":false}`)}},
		{Name: "two", Params: []json.RawMessage{
			schema(`{"properties":{"n":{"type":"integer"}}}`), schema(`{"properties":{"n":{"type":"string"}}}`)}}})
	for call, want := range map[string]bool{
		`{"name":"free"}`:                         true,
		`{"name":"free","params":null}`:           true,
		`{"name":"free","params":{"x":[1]}}`:      true,
		`{"name":"free","params":[]}`:             false,
		`{"name":"free","other":1}`:               false,
		`{"name":"bound"}`:                        false,
		`{"name":"bound","params":null}`:          false,
		`{"name":"bound","params":{"n":1}}`:       true,
		`{"name":"bound","params":{"n":1,"m":1}}`: false,
		`{"name":"two"}`:                          true,
		`{"name":"two","params":null}`:            true,
		`{"name":"two","params":{"n":"x"}}`:       true,
		`{"name":"two","params":{"n":true}}`:      false,
		`{"name":"none"}`:                         false,
		`{}`:                                      false,
	} {
		if err := fits(t, some, call); (err == nil) != want {
			t.Errorf("%s: %v", call, err)
		}
	}
	for _, plugins := range [][]Plugin{nil, {}} {
		if err := fits(t, read(t, plugins), `{"name":"any","params":{"x":1}}`); err != nil {
			t.Errorf("without plugins: %v", err)
		}
	}
}
