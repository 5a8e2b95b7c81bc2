package server_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"tgi/server"
)

// shaped is an API with a shape of its own for errors, and one without.
type shaped struct{}

func (shaped) Routes() []server.Route {
	refuse := func(w http.ResponseWriter, _ *http.Request, err error) {
		text, _ := json.Marshal(map[string]map[string]string{"error": {"message": err.Error()}})
		server.WriteStatus(w, server.Explain(err).Status, text)
	}
	ok := func(w http.ResponseWriter, r *http.Request) error {
		server.WriteJSON(w, []byte(`"`+r.PathValue("id")+`"`))
		return nil
	}
	return []server.Route{
		{Method: "POST", Path: "/", Handle: ok},
		{Method: "POST", Path: "/generate", Handle: ok},
		{Method: "POST", Path: "/v1/completions/generate", Handle: ok},
		{Method: "POST", Path: "/v1/chat/completions", Handle: ok, Refuse: refuse},
		{Method: "GET", Path: "/v1/models", Handle: ok, Refuse: refuse},
		{Method: "GET", Path: "/v1/models/{id:.+}", Handle: ok, Refuse: refuse},
		{Method: "DELETE", Path: "/v1/models/{id:.+}", Handle: ok, Refuse: refuse},
		{Method: "POST", Path: "/v1/models/{id:.+}/start", Handle: ok, Refuse: refuse},
		{Method: "POST", Path: "/api/generate-one", Handle: ok, Refuse: refuse},
	}
}

// TestAbsent: what is not there is a JSON error in the shape of the API that the
// path seems to belong to, and names the nearest route.
func TestAbsent(t *testing.T) {
	s := newServer(nil, func(o *server.Options) { o.APIs = []server.API{shaped{}} })
	object := func(text string) string { return `{"error":{"message":"` + text + `"}}` }
	plain := func(text, kind string) string { return `{"error":"` + text + `","error_type":"` + kind + `"}` }
	long := strings.Repeat("x", 300)
	for _, c := range []struct {
		method, path string
		status       int
		allow, body  string
	}{
		{"POST", "/generat", 404, "", plain("no such route: POST /generat; did you mean POST /generate?", "not_found")},
		{"POST", "/generate/", 404, "", plain("no such route: POST /generate/; did you mean POST /generate?",
			"not_found")},
		{"POST", "//generate", 404, "", plain("no such route: POST //generate; did you mean POST /generate?",
			"not_found")},
		{"GET", "/wholly/elsewhere", 404, "", plain("no such route: GET /wholly/elsewhere", "not_found")},
		{"GET", "/a%22%3Cb%3E%0a", 404, "", plain("no such route: GET /a%22%3Cb%3E%0a", "not_found")},
		{"GET", "/" + long, 404, "", plain("no such route: GET /"+long[:199], "not_found")},
		{"POST", "/v1/chat/completion", 404, "",
			object("no such route: POST /v1/chat/completion; did you mean POST /v1/chat/completions?")},
		{"POST", "/chat/completions", 404, "",
			object("no such route: POST /chat/completions; did you mean POST /v1/chat/completions?")},
		{"POST", "/v1/embeddings/of/some/kind", 404, "", object("no such route: POST /v1/embeddings/of/some/kind")},
		{"GET", "/v1/models/", 404, "", object("no such route: GET /v1/models/; did you mean GET /v1/models?")},
		{"GET", "/v1/models/../models", 404, "",
			object("no such route: GET /v1/models/../models; did you mean GET /v1/models?")},
		{"GET", "/v1/models/a/../../../etc/passwd", 404, "",
			plain("no such route: GET /v1/models/a/../../../etc/passwd", "not_found")},
		{"GET", "/v1/models/a/../b", 404, "",
			object("no such route: GET /v1/models/a/../b; did you mean GET or DELETE /v1/models/{id}?")},
		{"GET", "/api/tags", 404, "", plain("no such route: GET /api/tags; server.ollama = true serves Ollama's API",
			"not_found")},
		{"GET", "/favicon.ico", 404, "", plain("no such route: GET /favicon.ico", "not_found")},
		{"GET", "/v1/models/a/b", 200, "", `"a/b"`},
		{"GET", "/generate", 405, "POST", plain("method not allowed: GET /generate; use POST", "method_not_allowed")},
		{"PUT", "/v1/models/a", 405, "GET,HEAD,DELETE",
			object("method not allowed: PUT /v1/models/a; use GET or DELETE")},
		{"GET", "/v1/chat/completions", 405, "POST", object("method not allowed: GET /v1/chat/completions; use POST")},
		{"BREW" + long, "/generate", 405, "POST", plain("method not allowed: BREW"+long[:16]+" /generate; use POST",
			"method_not_allowed")},
	} {
		rec := ask(s, c.method, c.path, "")
		if got := rec.Body.String(); rec.Code != c.status || got != c.body || rec.Header().Get("Allow") != c.allow ||
			rec.Header().Get("Content-Type") != "application/json" {
			t.Errorf("%s %s: %d %v\n got %s\nwant %s", c.method, c.path, rec.Code, rec.Header(), got, c.body)
		}
	}
}
