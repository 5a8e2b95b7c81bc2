package api

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestSchema has a value that fits and one that does not for each keyword.
func TestSchema(t *testing.T) {
	all := schemas{"Name": {Type: "string"}}
	for _, c := range []struct{ schema, fits, not, why string }{
		{`{"type":"string"}`, `"a"`, `1`, "v: 1 is no string"},
		{`{"type":"boolean"}`, `true`, `"true"`, `v: "true" is no boolean`},
		{`{"type":"integer"}`, `1.0`, `1.5`, "v: 1.5 is no integer"},
		{`{"type":"number"}`, `1.5`, `null`, "v: null is no number"},
		{`{"type":"number","nullable":true}`, `null`, `"1"`, `v: "1" is no number`},
		{`{"type":"integer","minimum":0}`, `0`, `-1`, "v: -1 is out of bounds"},
		{`{"type":"number","minimum":0,"exclusiveMinimum":true}`, `0.5`, `0`, "v: 0 is out of bounds"},
		{`{"type":"number","exclusiveMinimum":0.5}`, `0.6`, `0.5`, "v: 0.5 is out of bounds"},
		{`{"type":"number","maximum":2}`, `2`, `2.5`, "v: 2.5 is out of bounds"},
		{`{"type":"number","maximum":2,"exclusiveMaximum":true}`, `1`, `2`, "v: 2 is out of bounds"},
		{`{"type":"number","exclusiveMaximum":2}`, `1`, `2`, "v: 2 is out of bounds"},
		{`{"type":"string","enum":["a","b"]}`, `"b"`, `"c"`, `v: "c" is none of [a b]`},
		{`{"type":"array","items":{"type":"string"}}`, `["a"]`, `["a",2]`, "v[1]: 2 is no string"},
		{`{"type":"array"}`, `[1]`, `{}`, "v: {} is no array"},
		{`{"type":"array","maxItems":1}`, `[1]`, `[1,2]`, "v: 2 items, at most 1"},
		{`{"type":"object","required":["a"],"properties":{"a":{"type":"string"}}}`, `{"a":"","b":1}`, `{"b":1}`,
			"v lacks a"},
		{`{"type":"object","properties":{"a":{"type":"string"}}}`, `{}`, `{"a":1}`, "v.a: 1 is no string"},
		{`{"type":"object"}`, `{}`, `[]`, "v: [] is no object"},
		{`{"type":"object","additionalProperties":false}`, `{}`, `{"a":1}`, "v.a: nothing may stand here, found 1"},
		{`{"type":"object","additionalProperties":{"type":"string"}}`, `{"a":"b"}`, `{"a":1}`, "v.a: 1 is no string"},
		{`{"$ref":"#/components/schemas/Name"}`, `"a"`, `1`, "v: 1 is no string"},
		{`{"allOf":[{"$ref":"#/components/schemas/Name"}],"nullable":true}`, `null`, `1`, "v: 1 is no string"},
		{`{"oneOf":[{"type":"string"},{"type":"integer"}]}`, `1`, `true`,
			"v: true fits 0 of oneOf: v: true is no string"},
		{`{"oneOf":[{"type":"number"},{"type":"integer"}]}`, `1.5`, `1`, "v: 1 fits 2 of oneOf"},
		{`{"anyOf":[{"type":"number"},{"type":"integer"}]}`, `1`, `"a"`,
			`v: "a" fits none of anyOf: v: "a" is no number`},
		{`{"type":"string","minLength":2,"x-note":1}`, `"aé"`, `"é"`, "v: 1 characters are out of bounds"},
		{`{"type":"string","maxLength":1}`, `"é"`, `"ab"`, "v: 2 characters are out of bounds"},
		{`{"type":"string","pattern":"^a+$"}`, `"aa"`, `"ab"`, `v: "ab" does not match ^a+$`},
		{`{"type":"number","multipleOf":0.1}`, `0.3`, `0.35`, "v: 0.35 is out of bounds"},
		{`{"type":"array","minItems":1}`, `[1]`, `[]`, "v: 0 items, at least 1"},
		{`{"type":"array","uniqueItems":true}`, `[1,"1"]`, `[{"a":1},{"a":1}]`,
			`v: [{"a":1},{"a":1}] has an item twice`},
		{`{"type":"object","minProperties":1,"maxProperties":2}`, `{"a":1}`, `{}`, "v: 0 members are out of bounds"},
		{`{"not":{"type":"string"}}`, `1`, `"a"`, `v: "a" is what it may not be`},
		// without a type keywords hold the values that they say something of
		{`{"required":["a"]}`, `1`, `{}`, "v lacks a"},
		{`{"properties":{"a":{"type":"string"}},"additionalProperties":false}`, `[1]`, `{"a":1}`, "v.a: 1 is no string"},
		{`{"minProperties":1}`, `null`, `{}`, "v: 0 members are out of bounds"},
		{`{"items":{"type":"string"}}`, `"a"`, `[1]`, "v[0]: 1 is no string"},
		{`{"minItems":1}`, `{}`, `[]`, "v: 0 items, at least 1"},
		{`{"minLength":2}`, `1`, `"a"`, "v: 1 characters are out of bounds"},
		{`{"pattern":"^a"}`, `true`, `"b"`, `v: "b" does not match ^a`},
		{`{"minimum":2}`, `"1"`, `1`, "v: 1 is out of bounds"},
		{`{"not":{"required":["a"]}}`, `{}`, `{"a":1}`, `v: {"a":1} is what it may not be`},
		{`{"oneOf":[{"required":["a"]},{"required":["b"]}]}`, `{"a":1}`, `{"a":1,"b":1}`,
			`v: {"a":1,"b":1} fits 2 of oneOf`},
		{`{"anyOf":[{"required":["a"]},{"required":["b"]}]}`, `{"b":1}`, `{}`,
			`v: {} fits none of anyOf: v lacks a`},
		{`{"enum":["1",2]}`, `2.0`, `1`, "v: 1 is none of [1 2]"},
		{`{}`, `[1,{}]`, ``, ""},
		{`true`, `1`, ``, ""},
	} {
		var s Schema
		if err := json.Unmarshal([]byte(c.schema), &s); err != nil {
			t.Errorf("%s: %v", c.schema, err)
			continue
		}
		check := func(text string) string {
			v, err := parse([]byte(text))
			if err != nil {
				t.Fatal(err)
			}
			return strings.Join(all.check("v", &s, v.any), "; ")
		}
		if got := check(c.fits); got != "" {
			t.Errorf("%s: %s is said not to fit: %s", c.schema, c.fits, got)
		}
		if c.not != "" {
			if got := check(c.not); got != c.why {
				t.Errorf("%s: of %s is said\n     %s\nwant %s", c.schema, c.not, got, c.why)
			}
		}
	}
}

// TestNotation: the description of types says what it seems to.
func TestNotation(t *testing.T) {
	all := readTypes("A = \"x\"|\"y\"\nB = {a A, b? [uint]|null, c string|bool}\nC = {d any, ...}")
	for text, want := range map[string]string{
		`{"a":"x","c":"z"}`:            "",
		`{"a":"y","b":null,"c":true}`:  "",
		`{"a":"y","b":[1],"c":1}`:      "B.c: 1 fits none of anyOf: B.c: 1 is no string",
		`{"a":"y","b":[-1],"c":""}`:    "B.b[0]: -1 is out of bounds",
		`{"a":"z","c":""}`:             `B.a: "z" is none of [x y]`,
		`{"a":"x","c":"","d":1}`:       "B.d: nothing may stand here, found 1",
		`{"b":[],"c":""}`:              "B lacks a",
		`{"a":null,"b":null,"c":null}`: "B.a: null is none of [x y]; B.c: null fits none of anyOf: B.c: null is no string",
	} {
		v, err := parse([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(all.check("B", all["B"], v.any), "; "); got != want {
			t.Errorf("%s\n got %s\nwant %s", text, got, want)
		}
	}
	if wrong := all.check("C", all["C"], map[string]any{"d": nil, "e": 1}); wrong != nil {
		t.Error(wrong)
	}
	for name := range types {
		if types[name] == nil {
			t.Errorf("type %s is nothing", name)
		}
	}
}

// TestDocument: replies are held to a document's operations, also those of
// templates, and known flaws of TGI's documents are passed over.
func TestDocument(t *testing.T) {
	const text = `{"openapi":"3.0.3","info":{"version":"2.2.1-dev0"},"paths":{
		"/":{"parameters":[],"post":{"responses":{"200":{"content":{"application/json":{"schema":{"$ref":"#/components/schemas/R"}},"text/event-stream":{"schema":{"$ref":"#/components/schemas/R"}}}}}}},
		"/m/{name}":{"get":{"responses":{"200":{"content":{"application/json":{"schema":{"$ref":"#/components/schemas/R"}}}}}}},
		"/metrics":{"get":{"responses":{"200":{"content":{"text/plain":{"schema":{"type":"string"}}}}}}}},
		"components":{"schemas":{"R":{"type":"object","required":["text"],"properties":{"text":{"type":"string"}}}}}}`
	d, err := NewDocument("doc", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	f, _ := formOf(TGI3, true)
	for _, c := range []struct {
		method, path, kind string
		status             int
		body, want         string
	}{
		{"POST", "/", "application/json", 200, `{"text":"a"}`, ""},
		{"POST", "/", "application/json", 200, `{"text":1}`, "reply.text: 1 is no string"},
		{"POST", "/", "application/json; charset=utf-8", 200, `{}`, "reply lacks text"},
		{"POST", "/", "application/json", 200, `[{"text":1}]`, ""}, // the document forgets the array
		{"POST", "/", "application/json", 500, `{}`, ""},
		{"POST", "/", "text/html", 200, `{}`, ""},
		{"POST", "/", "text/event-stream", 200,
			": hi\n\ndata: {\"text\":\"a\"}\n\ndata: {\"text\":null}\n\ndata: {\"error\":\"a\"}\n\ndata: [DONE]\n\n",
			"reply.text: null is no string"},
		{"GET", "/m/x", "application/json", 200, `{}`, "reply lacks text"},
		{"GET", "/m/x/y", "application/json", 200, `{}`, ""},
		{"POST", "/m/x", "application/json", 200, `{}`, ""},
		{"GET", "/metrics", "text/plain", 200, `x 1`, ""},
	} {
		r := &reply{request: request{method: c.method, path: c.path}, status: c.status,
			header: http.Header{"Content-Type": {c.kind}}, body: []byte(c.body)}
		if got := strings.Join(d.hold(f, r), "; "); got != c.want {
			t.Errorf("%s %s %s\n got %q\nwant %q", c.method, c.path, c.body, got, c.want)
		}
	}
}

// TestDocumentErrors: a document that would not be checked is refused.
func TestDocumentErrors(t *testing.T) {
	for text, want := range map[string]string{
		`{`:                 "doc: unexpected end of JSON input",
		`{"swagger":"2.0"}`: `doc: openapi is "", want 3.x`,
		`{"openapi":"3.0.3","components":{"schemas":{"A":{"properties":{"a":{"contains":{}}}}}}}`:                                `doc: the schema has "contains", which this kit cannot check`,
		`{"openapi":"3.0.3","paths":{"/a":{"get":{"responses":{"200":{"content":{"application/json":{"schema":{"if":{}}}}}}}}}}`: `doc: get /a: the schema has "if", which this kit cannot check`,
	} {
		if _, err := NewDocument("doc", []byte(text)); err == nil || err.Error() != want {
			t.Errorf("%s\n got %v\nwant %s", text, err, want)
		}
	}
	if _, err := ReadDocument(filepath.Join(t.TempDir(), "none")); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
}

// TestRunErrors: what is no server of this API is said to be none.
func TestRunErrors(t *testing.T) {
	closed := httptest.NewServer(http.NotFoundHandler())
	closed.Close()
	other := httptest.NewServer(http.NotFoundHandler())
	defer other.Close()
	sound := httptest.NewServer(&fake{ours: true})
	defer sound.Close()
	for name, c := range map[string]struct {
		target Target
		want   string
	}{
		"closed": {Target{URL: closed.URL}, "the server was not reached: "},
		"other":  {Target{URL: other.URL}, "GET /info: status 404, "},
		"dialect": {Target{URL: sound.URL, Dialect: "tgi-9"},
			`there is no dialect "tgi-9", only tgi-0.6, tgi-2.2 and tgi-3`},
	} {
		_, err := Run(t.Context(), c.target, nil)
		if err == nil || !strings.HasPrefix(err.Error(), c.want) && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %s", name, err, c.want)
		}
	}
	if r := run(t, Target{URL: sound.URL + "/"}, func(id string) bool {
		return id == "health" ||
			id == "key-wrong"
	}); len(r.Results) != 2 || r.Results[1].Skipped != "no key is given" {
		t.Errorf("without a key: %+v", r.Results)
	}
}

// TestTable: ids are unique, and every case says what it checks and why.
func TestTable(t *testing.T) {
	seen := map[string]bool{}
	for _, c := range Cases() {
		if seen[c.ID] || c.ID == "" || c.Rule == "" || c.Source == "" || c.run == nil {
			t.Errorf("the case %+v", c)
		}
		seen[c.ID] = true
	}
	if len(seen) < 100 {
		t.Errorf("%d cases", len(seen))
	}
}

// TestViolation: a line says what and why, and the transcript hides the key.
func TestViolation(t *testing.T) {
	ts := httptest.NewServer(&mutant{sound: &fake{ours: true, key: "secret-key"}, path: "/ping",
		old: regexp.MustCompile(`^200`), new: "503"})
	defer ts.Close()
	v := run(t, Target{URL: ts.URL, Key: "secret-key"}, func(id string) bool {
		return id == "ping" ||
			id == "key-wrong"
	}).Violations()
	if len(v) != 1 ||
		v[0].String() != "ping: status 503, want 200 (GET /ping is /health; TGI 3.3, router/src/server.rs, routes)" {
		t.Fatalf("violations: %v", v)
	}
	if !strings.HasPrefix(v[0].Transcript, "> GET /ping\n< 503\n") || strings.Contains(v[0].Transcript, "secret") {
		t.Errorf("transcript:\n%s", v[0].Transcript)
	}
}
