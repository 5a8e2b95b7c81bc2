package main

import (
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tgi/conformance/api"
	"tgi/server/config"
)

// TestConformance holds a server of two models, in each dialect and with keys, to
// every rule of the kit.
func TestConformance(t *testing.T) {
	const key = "conformance-key"
	c := testConfig()
	c.Server.APIKeys, c.Server.AdminKeys = []string{key}, []string{adminKey}
	c.Models.Folder = folderOf(t, "org/second")
	c.ModelList = []config.Model{blockOf(config.DemoModel), blockOf("org/second")}
	h := openHouse(t, c)
	h.loading()
	ts := httptest.NewServer(h.server)
	defer ts.Close()
	for _, dialect := range []string{api.TGI06, api.TGI22, api.TGI3} {
		t.Run(dialect, func(t *testing.T) {
			report, err := api.Run(t.Context(), api.Target{URL: ts.URL, Dialect: dialect, Key: key, AdminKey: adminKey, Documents: documents(t)}, nil)
			if err != nil {
				t.Fatal(err)
			}
			if !report.This {
				t.Error("the server was taken for TGI itself, cases were left out")
			}
			for _, v := range report.Violations() {
				t.Errorf("%v\n%s", v, v.Transcript)
			}
			for _, r := range report.Results {
				if r.Skipped != "" && !strings.HasPrefix(r.Skipped, "does not hold in ") {
					t.Errorf("left out %s: %s", r.Case.ID, r.Skipped)
				}
			}
		})
	}
}

// documents returns TGI's own OpenAPI documents where they are at hand.
func documents(t *testing.T) (all []*api.Document) {
	for _, name := range []string{"tgi-0.6.0.openapi.json", "tgi-2.2.1-dev0.openapi.json"} {
		d, err := api.ReadDocument(filepath.Join("..", "..", "..", "..", "shared", "api", name))
		switch {
		case errors.Is(err, fs.ErrNotExist):
			t.Logf("replies are not held against %s, which is not here", name)
		case err != nil:
			t.Error(err)
		default:
			all = append(all, d)
		}
	}
	return all
}

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
		{"--url x --onli y", 2, "", "did you mean --only"},
		{"--only no-such-case", 2, "", "--only no-such-case fits no case; --list shows them"},
		{"--only [", 2, "", "syntax error in pattern"},
		{"--list --only health", 0, "health                     GET /health without a key replies 200 with no body (TGI 3.3, router/src/server.rs, routes)\n", ""},
		{"--help", 0, "tgi conformance --url URL [flags]", ""},
		{"--only health --url " + ts.URL, 0, ts.URL + ", this server in the dialect tgi-3: 1 case, 0 left out, 0 violations\n", ""},
		{"--only health,p?ng --url " + ts.URL, 1, "ping: status 418, want 200\n  rule    GET /ping is /health\n  source  TGI 3.3, router/src/server.rs, routes\n  > GET /ping\n  < 418\n", ""},
		{"--only key-wrong --url " + ts.URL, 0, "left out key-wrong: no key is given\n", ""},
		{"--json --only health,ping --url " + ts.URL, 1, `"dialect":"tgi-3","violations":1,"cases":[{"id":"health",`, ""},
		{"--dialect tgi-1 --url " + ts.URL, 1, "", `there is no dialect "tgi-1"`},
		{"--url http://127.0.0.1:1", 1, "", "the server was not reached"},
		{"--openapi " + broken + " --url " + ts.URL, 1, "", `openapi is "", want 3.x`},
	} {
		var out, errs strings.Builder
		code := run(append([]string{"conformance"}, strings.Fields(c.args)...), &out, &errs)
		if code != c.code || !strings.Contains(out.String(), c.out) || !strings.Contains(errs.String(), c.err) || (c.err == "") != (errs.Len() == 0) {
			t.Errorf("conformance %s: exit %d, want %d\nout %s\nerr %s", c.args, code, c.code, out.String(), errs.String())
		}
	}
}
