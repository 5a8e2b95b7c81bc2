package toolcalls

import (
	"encoding/json"
	"os"
	"reflect"
	"strings"
	"testing"
)

// TestLiterals compares Python literals as JSON with what Python says (testdata/make_literals.py).
func TestLiterals(t *testing.T) {
	data, err := os.ReadFile("testdata/literals.json")
	if err != nil {
		t.Fatal(err)
	}
	var list []struct {
		Source string
		JSON   *string
	}
	if err := json.Unmarshal(data, &list); err != nil || len(list) < 300 {
		t.Fatalf("%d literals: %v", len(list), err)
	}
	// Python differs by design here: its own mistakes are taken as what they mean, and some of its notations are not
	// read.
	differs := map[string]string{
		"007": "7", "1__0": "10", "1e999": "1e999", `b'a'`: "", `f'a'`: "", `1+1`: "", "--1": "",
	}
	for _, l := range list {
		want, known := differs[l.Source]
		if !known && l.JSON != nil {
			want = *l.JSON
		}
		got, ok := pythonToJSON(l.Source, 100)
		if !ok {
			got = ""
		}
		if ok != (want != "") || ok && !reflect.DeepEqual(decoded(got), decoded(want)) {
			t.Errorf("%s: %s; want %s", l.Source, got, want)
		}
	}
}

// FuzzScan: what is JSON is what encoding/json says, but for control characters inside strings, which are mended.
func FuzzScan(f *testing.F) {
	for _, s := range []string{`{"a": [1, -0.5e+3, true, null, "x\u00e9\\"]}`, `{"a":1,}`, `[1,]`, `01`, `-`, `1.`,
		`1e`, `"\x"`, `nul`, `{"a" 1}`, `{1:2}`,
		`[[[[]]]]`, `{}}`, `{`, `1 2`, ` {"a": {"b": []}} `, "\"a\nb\"", `"\u12G4"`, `{"a":1 "b":2}`, `[1 2]`, `tru`,
		`-01`, `0.`, `1E+`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		text = strings.Trim(text, whiteSpace)
		p := &Parser{call: call{value: newScan(10000, nil)}}
		var mended strings.Builder
		n, d := p.pass(text+" ", func(s string) { mended.WriteString(s) })
		ok := d == done && n == len(text) || d == before && n == len(text)
		if ok && !json.Valid([]byte(mended.String())) {
			t.Errorf("%q: mended to %q, which is no JSON", text, mended.String())
		}
		if !strings.ContainsFunc(text, func(r rune) bool { return r < ' ' }) && ok != json.Valid([]byte(text)) {
			t.Errorf("%q: %v; encoding/json says %v", text, ok, !ok)
		}
	})
}

// TestConvert: values of tags by the types of the schema.
func TestConvert(t *testing.T) {
	s := (&Tool{Parameters: []byte(`{"type": ["object"], "additionalProperties": {"x": [1, {}]}, "properties": {
		"enum": {"enum": [1, 2.5, null]}, "words": {"enum": ["1", "2"]}, "const": {"const": true}, "list": {"enum": [[1], {"a": 1}]},
		"all": {"allOf": [{"type": "integer"}]}, "one": {"oneOf": [{"type": "boolean"}, {"type": "string"}]},
		"nullable": {"type": "string", "nullable": true}, "old": {"$ref": "#/definitions/o"}, "loop": {"$ref": "#/$defs/loop"},
		"any": {}, "true": true, "bool": {"type": "boolean"}, "null": {"type": "null"},
		"odd": {"type": 7, "enum": "x", "anyOf": {}, "nullable": 1, "properties": [], "const": {"a": ["b"]}}
	}, "definitions": {"o": {"type": "object"}}, "$defs": {"loop": {"$ref": "#/$defs/loop"}}}`)}).parameters()
	for _, c := range []struct{ key, text, want string }{
		{"enum", "1", "1"}, {"enum", "2.5", "2.5"}, {"enum", "null", "null"}, {"words", "1", `"1"`},
		{"const", "True", "true"},
		{"list", "[1]", "[1]"}, {"list", `{"a":1}`, `{"a":1}`}, {"all", " 7\n", "7"}, {"all", "+7", "7"},
		{"all", "1_000", "1000"}, {"all", "x", `"x"`},
		{"one", "false", "false"}, {"one", "1", `"1"`}, {"one", "null", `"null"`}, {"nullable", "null", "null"},
		{"nullable", "12", `"12"`},
		{"old", "{'a': None}", `{"a": null}`}, {"old", "{", `"{"`}, {"loop", "1", "1"}, {"any", "[1", `"[1"`},
		{"any", "12", "12"}, {"any", "a", `"a"`},
		{"true", "true", "true"}, {"bool", "yes", `"yes"`}, {"bool", "None", "null"}, {"null", "null", "null"},
		{"odd", "{}", "{}"}, {"odd", "7", `"7"`},
	} {
		types, known := s.typesOf(c.key)
		if got := convert(c.text, types, 100); got != c.want || !known {
			t.Errorf("%s: %q is %s; want %s", c.key, c.text, got, c.want)
		}
	}
	broken := &Tool{Parameters: []byte(`{`)}
	if _, known := broken.parameters().typesOf("a"); known {
		t.Error("a schema that can't be read says something")
	}
}

// TestSpecialTokens: markup of which a format knows nothing is left out, whatever its markers look like.
func TestSpecialTokens(t *testing.T) {
	for _, name := range Presets() {
		f, _ := Preset(name)
		p := New(f, Options{Tools: testTools(t), Seed: 1})
		events := append(p.Feed("Hello."), p.Special("<|im_end|>")...)
		if got := written(joined(append(events, p.Finish()...))); got != `content "Hello."` {
			t.Errorf("%s: %s", name, got)
		}
	}
}

// TestIDsOnce: an id that the model writes twice is another call's the second time.
func TestIDsOnce(t *testing.T) {
	f, _ := Preset("hermes")
	p := New(f, Options{Tools: testTools(t), Seed: 1})
	call := `<tool_call>{"id": "a", "name": "get_weather", "arguments": {}}</tool_call>`
	var ids []string
	for _, e := range append(p.Feed(call+call), p.Finish()...) {
		if e.Kind == CallBegin {
			ids = append(ids, e.ID)
		}
	}
	if len(ids) != 2 || ids[0] != "a" || ids[1] == "a" || ids[1] == "" {
		t.Errorf("ids %q", ids)
	}
}
