package tgi

import (
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"

	"tgi/server/config"
	"tgi/server/dialect"
	"tgi/server/dispatch"
	"tgi/server/generate"
	"tgi/server/generate/generatetest"
)

func sendTo(s http.Handler, path, body string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodPost, path, strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	rec := httptest.NewRecorder()
	s.ServeHTTP(rec, r)
	return rec
}

// TestGrammar: TGI's forms reach the grammars, and a reply with details says what a
// grammar is not held to.
func TestGrammar(t *testing.T) {
	g := &generatetest.Grammars{Drops: []generate.Dropped{{Pointer: "#/a", Keyword: "format", Reason: "unknown"}}}
	var limits generate.Limits
	s := newChanged(&generatetest.Engine{}, nil, func(_ *Options, m *dispatch.Model) {
		m.Service = generatetest.UserCode{Grammars: g}.On(
			generate.New(&generatetest.Engine{}, generatetest.Words{}, limits, nil))
	}, func(l *generate.Limits, _ *config.Config) { limits = *l })
	ask := func(path, grammar, more string) *httptest.ResponseRecorder {
		t.Helper()
		rec := sendTo(s, path, `{"inputs":"a","parameters":{"max_new_tokens":1,"grammar":`+grammar+more+`}}`)
		if rec.Code != 200 {
			t.Fatalf("%s: %d %s", grammar, rec.Code, rec.Body)
		}
		return rec
	}
	for grammar, want := range map[string]generate.Grammar{
		`{"type":"json","value":{"properties":{}}}`: {Language: "json_schema",
			Source: []byte(`{"properties":{}}`)},
		`{"type":"json_object","value":"{\"properties\":{}}"}`: {Language: "json_schema",
			Source: []byte(`{"properties":{}}`)},
		`{"type":"json_schema","value":{"name":"n","schema":{},"strict":null}}`: {Language: "json_schema",
			Source: []byte(`{}`)},
		`{"type":"regex","value":"((25[0-5]|2[0-4]\\d|[01]?\\d\\d?)\\.){3}"}`: {Language: "regex",
			Source: []byte(`((25[0-5]|2[0-4]\d|[01]?\d\d?)\.){3}`)},
		`{"type":"choice","value":["a"]}`: {Language: "choice",
			Source: []byte(`["a"]`)},
		`{"type":"grammar","value":"x","plugin":"p","params":{"a":1}}`: {Plugin: "p", Source: []byte(`x`),
			Params: []byte(`{"a":1}`)},
	} {
		ask("/generate", grammar, "")
		all := g.Compiled()
		if want.Field = "grammar"; !reflect.DeepEqual(all[len(all)-1], want) {
			t.Errorf("%s\n got %+v\nwant %+v", grammar, all[len(all)-1], want)
		}
	}
	const told = `"grammar_dropped":[{"pointer":"#/a","keyword":"format","reason":"unknown"}]}`
	rec := ask("/generate", `{"type":"regex","value":"a"}`, `,"details":true`)
	if got := rec.Body.String(); !strings.HasSuffix(got, told+"}") || rec.Header().Get("X-Grammar-Dropped") != "1" {
		t.Errorf("got %s %v", got, rec.Header())
	}
	rec = ask("/generate_stream", `{"type":"regex","value":"a"}`, `,"details":true`)
	if got := rec.Body.String(); !strings.HasSuffix(got, told+"}\n\n") || rec.Header().Get("X-Grammar-Dropped") != "1" {
		t.Errorf("got %s %v", got, rec.Header())
	}
	if rec = ask("/generate", `{"type":"regex","value":"a"}`, ``); strings.Contains(rec.Body.String(), "dropped") ||
		rec.Header().Get("X-Grammar-Dropped") != "1" {
		t.Errorf("without details: got %s %v", rec.Body, rec.Header())
	}
	if bound, _ := g.Open(); bound != 0 {
		t.Errorf("%d grammars are left open", bound)
	}
}

// TestGrammarDialects: the text of a server without grammars is TGI's in all dialects.
func TestGrammarDialects(t *testing.T) {
	for _, d := range dialect.All {
		r := httptest.NewRequest(http.MethodPost, "/generate",
			strings.NewReader(`{"inputs":"x","parameters":{"grammar":{"type":"regex","value":"a"},"max_new_tokens":1}}`))
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set(dialect.Header, d.Name())
		rec := httptest.NewRecorder()
		newServer(&generatetest.Engine{}).ServeHTTP(rec, r)
		if got := rec.Body.String(); rec.Code != 422 ||
			got != `{"error":"Input validation error: grammar is not supported","error_type":"validation"}` {
			t.Errorf("%s: %d %s", d.Name(), rec.Code, got)
		}
	}
}
