package openapi

import (
	"encoding/json"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"tgi/conformance/long"
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
		// Null needs a flag in OpenAPI 3.0, which is not to let it pass where something else forbids it.
		{schema: `{"properties":{"a":{"enum":["x",null]},"b":{"type":["string","null"],"enum":["x"]},"c":{"const":null},
			"d":{"anyOf":[{"type":"null"},{"type":"integer"}]},"e":{"minLength":2},"f":{"items":{"enum":[null]}},
			"g":{"not":{"type":"null"}},"h":{"oneOf":[{"type":["null","string"]},{"type":["null","integer"]}]},
			"i":{"type":"null","const":"x"},"j":{"allOf":[{"type":["null","string"]},{"minLength":2}]},
			"k":{"anyOf":[{"type":"null"},{"type":"string"}],"enum":["x"]},"l":{"type":"array"}}}`,
			params: []string{`{"a":null}`, `{"a":"x"}`, `{"a":"y"}`, `{"b":null}`, `{"b":"x"}`, `{"c":null}`, `{"c":0}`,
				`{"d":null}`, `{"d":1}`, `{"d":"x"}`, `{"e":null}`, `{"e":"x"}`, `{"e":1}`, `{"f":[null]}`, `{"f":[1]}`,
				`{"f":null}`, `{"g":null}`, `{"g":1}`, `{"h":null}`, `{"h":1}`, `{"h":true}`, `{"i":null}`, `{"i":"x"}`,
				`{"j":null}`, `{"j":"x"}`, `{"j":"xy"}`, `{"k":null}`, `{"k":"x"}`, `{"k":"y"}`, `{"l":[null,1]}`,
				`{"z":null}`}},
		{schema: `{"properties":{"a":{"type":["string","null"]}},"additionalProperties":{"minimum":3}}`,
			params: []string{`null`, `{"a":null,"b":null}`, `{"b":2}`, `{"b":"x"}`}},
		// Plugins hold nothing to a format.
		{schema: `{"properties":{"a":{"type":"string","format":"date"},"b":{"type":"integer","format":"int32"},
			"c":{"format":"byte"}}}`,
			params: []string{`{"a":"x"}`, `{"a":1}`, `{"b":3000000000}`, `{"b":1.5}`, `{"c":"%"}`}},
		{schema: `{"properties":{"a":{"const":"x","enum":["x","y"]},"b":{"const":"z","enum":["x","y"]},
			"c":{"const":1,"enum":[1.0,null]},"d":{"const":null,"enum":[1,null]},"e":{"enum":[]},
			"f":{"const":"x","enum":["x","y"],"type":"string","anyOf":[{"minLength":1},{"type":"null"}]}}}`,
			params: []string{`{"a":"x"}`, `{"a":"y"}`, `{"b":"x"}`, `{"b":"z"}`, `{"c":1}`, `{"c":null}`, `{"d":1}`,
				`{"d":null}`, `{"e":1}`, `{"e":null}`, `{"f":"x"}`, `{"f":"y"}`, `{"f":null}`}},
		// Notes that do not fit, and numbers as JSON Schema has them, leave the document valid.
		{schema: `{"properties":{"a":{"type":"integer","default":"x"},"b":{"type":"string","minLength":2.0,
			"maxLength":1e30,"examples":[1,"ab"]},"c":{"default":null,"type":"string"}},"default":{"a":"x"}}`, loose: true,
			params: []string{`{"a":1}`, `{"a":"x"}`, `{"b":"a"}`, `{"b":"ab"}`, `{"c":null}`, `{}`}},
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

// TestExamples: the first example that fits is shown; of a long list only the first ones are tried.
func TestExamples(t *testing.T) {
	for list, want := range map[string]any{`[1,"ab"]`: "ab", `[1,2,3,4,5,6,7,"ab"]`: "ab",
		`[1,2,3,4,5,6,7,8,"ab"]`: nil} {
		all := read(t, []Plugin{{Name: "a", Params: []json.RawMessage{json.RawMessage(
			`{"properties":{"x":{"type":"string","examples":` + list + `}}}`)}}})
		if got := all[pluginParams+".a"].Value.Properties["x"].Value.Example; got != want {
			t.Errorf("%s: %v", list, got)
		}
	}
}

// anySchema makes a JSON Schema of some keywords, with parts so deep. It has one at least: the validator takes a schema
// of parts without any keyword for one that says nothing.
func anySchema(r *rand.Rand, depth int) any {
	s := map[string]any{"maxLength": json.Number("99")}
	if depth == 0 || r.IntN(8) == 0 {
		if r.IntN(3) == 0 {
			return false
		}
		return s
	}
	words := []any{nil, "a", "ab", json.Number("1"), json.Number("2"), true, []any{}, map[string]any{}}
	types := []any{"null", "string", "integer", "number", "boolean", "array", "object"}
	some := func(from []any) (list []any) {
		for _, i := range r.Perm(len(from))[:1+r.IntN(3)] {
			list = append(list, from[i])
		}
		return list
	}
	parts := func() (list []any) {
		for range 1 + r.IntN(3) {
			list = append(list, anySchema(r, depth-1))
		}
		return list
	}
	for range 1 + r.IntN(3) {
		switch r.IntN(14) {
		case 0:
			s["type"] = types[r.IntN(len(types))]
		case 1:
			s["type"] = some(types)
		case 2:
			s["enum"] = some(words)
		case 3:
			s["const"] = words[r.IntN(len(words))]
		case 4:
			s["not"] = anySchema(r, depth-1)
		case 5, 6, 7:
			s[[]string{"allOf", "anyOf", "oneOf"}[r.IntN(3)]] = parts()
		case 8:
			s["items"] = anySchema(r, depth-1)
		case 9:
			s["properties"] = map[string]any{"a": anySchema(r, depth-1)}
		case 10:
			s["additionalProperties"] = anySchema(r, depth-1)
		case 11:
			s["minLength"], s["maxItems"] = json.Number("2"), json.Number("0")
		case 12:
			s["minimum"], s["required"] = json.Number("2"), []any{"a"}
		case 13:
			s["if"], s["then"] = anySchema(r, depth-1), anySchema(r, depth-1)
		}
	}
	return s
}

// TestTranslate: of any schema the translation is valid, lets pass whatever that does, and where it says that it is
// exact nothing else.
func TestTranslate(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 11))
	values := []string{`null`, `"a"`, `"ab"`, `""`, `1`, `2`, `1.5`, `true`, `false`, `[]`, `[null]`, `["a"]`, `{}`,
		`{"a":null}`, `{"a":"ab"}`, `{"b":null}`, `{"b":1}`}
	passed, exactly, n := 0, 0, long.Count(2000, 20_000)
	for range n {
		schema, ok := anySchema(r, 3).(map[string]any)
		if !ok {
			continue
		}
		c := jsonschema.NewCompiler()
		if err := c.AddResource("any", schema); err != nil {
			t.Fatal(err)
		}
		declared := c.MustCompile("any")
		out, exact := translate(schema, true)
		text, err := json.Marshal(out)
		if err != nil {
			t.Fatal(err)
		}
		var said openapi3.Schema
		if err := json.Unmarshal(text, &said); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		if err := said.Validate(t.Context()); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		for _, v := range values {
			var value any
			if err := json.Unmarshal([]byte(v), &value); err != nil {
				t.Fatal(err)
			}
			want, got := declared.Validate(value), said.VisitJSON(value)
			if want == nil && got != nil || exact && want != nil && got == nil {
				declaredText, _ := json.Marshal(schema)
				t.Fatalf("%s\nbecomes %s, exact: %v\nof %s the one says %v, the other %v", declaredText, text, exact, v, want, got)
			}
			if want == nil {
				passed++
			}
		}
		if exact {
			exactly++
		}
	}
	if passed < n || exactly < n/4 {
		t.Errorf("%d values passed, %d schemas were exact", passed, exactly)
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
