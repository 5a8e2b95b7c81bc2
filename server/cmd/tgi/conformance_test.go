package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestConformanceCommand: what the command prints and how it ends.
func TestConformanceCommand(t *testing.T) {
	ts := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == "/health":
		case r.URL.Path != "/info":
			w.WriteHeader(http.StatusTeapot)
		case r.Header.Get("X-TGI-Dialect") == "none":
			w.WriteHeader(http.StatusUnprocessableEntity)
		default:
			fmt.Fprint(w, `{"model_id":"m"}`)
		}
	}))
	defer ts.Close()
	broken := filepath.Join(t.TempDir(), "broken.json")
	if err := os.WriteFile(broken, []byte(`{}`), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args string
		code int
		out  string
		err  string
	}{
		{"", 2, "", "conformance needs --url"},
		{"--url nonsense", 2, "", `conformance needs --url, such as http://127.0.0.1:3000, given "nonsense"`},
		{"--url x --onli y", 2, "", "did you mean --only"},
		{"--only no-such-case", 2, "", "--only no-such-case fits no case; --list shows them"},
		{"--only [", 2, "", "syntax error in pattern"},
		{"--list --only health", 0,
			"health                     GET /health without a key replies 200 with no body (TGI 3.3, router/src/server.rs, routes)\n", ""},
		{"--help", 0, "tgi conformance --url URL [flags]", ""},
		{"--only health --url " + ts.URL, 0,
			ts.URL + ", this server in the dialect tgi-3: 1 case, 0 left out, 0 violations\n", ""},
		{"--only health,p?ng --url " + ts.URL, 1,
			"ping: status 418, want 200\n  rule    GET /ping is /health\n  source  TGI 3.3, router/src/server.rs, routes\n  > GET /ping\n  < 418\n", ""},
		{"--only key-wrong --url " + ts.URL, 0, "left out key-wrong: no key is given\n", ""},
		{"--json --only health,ping --url " + ts.URL, 1, `"dialect":"tgi-3","violations":1,"cases":[{"id":"health",`,
			""},
		{"--dialect tgi-1 --url " + ts.URL, 1, "", `there is no dialect "tgi-1"`},
		{"--url http://127.0.0.1:1", 1, "", "the server was not reached"},
		{"--only info --url http://USER:PASS@127.0.0.1:1", 1, "", `"http://***@127.0.0.1:1/info": `},
		{"--only info --url http://USER:PASS@127.0.0.1:bad", 1, "", `"http://***@127.0.0.1:bad" is no URL of a server`},
		{"--openapi " + broken + " --url " + ts.URL, 1, "", `openapi is "", want 3.x`},
	} {
		var out, errs strings.Builder
		code := run(append([]string{"conformance"}, strings.Fields(c.args)...), &out, &errs)
		if code != c.code || !strings.Contains(out.String(), c.out) || !strings.Contains(errs.String(),
			c.err) || (c.err == "") != (errs.Len() == 0) ||
			strings.Contains(errs.String(), "PASS") {
			t.Errorf("conformance %s: exit %d, want %d\nout %s\nerr %s", c.args, code, c.code, out.String(),
				errs.String())
		}
	}
}
