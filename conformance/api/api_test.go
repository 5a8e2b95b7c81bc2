package api

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// serve starts a fake and returns the target that it is.
func serve(t *testing.T, h http.Handler, dialect, key string) Target {
	t.Helper()
	ts := httptest.NewServer(h)
	t.Cleanup(ts.Close)
	return Target{URL: ts.URL, Dialect: dialect, Key: key, AdminKey: fakeAdmin, Client: ts.Client()}
}

func run(t *testing.T, target Target, only func(string) bool) Report {
	t.Helper()
	report, err := Run(t.Context(), target, only)
	if err != nil {
		t.Fatal(err)
	}
	return report
}

// TestSoundServers: a server that keeps the rules has no violation, this one with one
// model and with two, and TGI itself, in every dialect.
func TestSoundServers(t *testing.T) {
	for _, dialect := range []string{TGI06, TGI22, TGI3} {
		for kind, f := range map[string]*fake{"one model": {ours: true}, "two models": {ours: true, plural: true},
			"TGI": {}} {
			this := f.ours
			f.name, f.key = dialect, "k"
			report := run(t, serve(t, f, dialect, "k"), nil)
			if report.This != this {
				t.Errorf("%s: this server: %v, want %v", dialect, report.This, this)
			}
			for _, r := range report.Results {
				if c := r.Case; kind == "two models" && r.Skipped != "" && c.Dialects == nil &&
					(strings.HasPrefix(c.ID, "shared") || strings.HasPrefix(c.ID, "models")) {
					t.Errorf("%s, two models: left out %s: %s", dialect, c.ID, r.Skipped)
				}
			}
			for _, v := range report.Violations() {
				t.Errorf("%s, this server %v: %v\n%s", dialect, this, v, v.Transcript)
			}
			for _, r := range report.Results {
				if r.Skipped != "" {
					t.Logf("%s, this server %v: left out %s: %s", dialect, this, r.Case.ID, r.Skipped)
				}
			}
		}
	}
}
