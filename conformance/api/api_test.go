package api

import (
	"net/http"
	"net/http/httptest"
	"testing"
)

// serve starts a fake and returns the target that it is.
func serve(t *testing.T, h http.Handler, dialect, key string) Target {
	t.Helper()
	ts := httptest.NewServer(h)
	t.Cleanup(ts.Close)
	return Target{URL: ts.URL, Dialect: dialect, Key: key, Client: ts.Client()}
}

func run(t *testing.T, target Target, only func(string) bool) Report {
	t.Helper()
	report, err := Run(t.Context(), target, only)
	if err != nil {
		t.Fatal(err)
	}
	return report
}

// TestSoundServers: a server that keeps the rules has no violation, this one and
// TGI itself, in every dialect.
func TestSoundServers(t *testing.T) {
	for _, dialect := range []string{TGI06, TGI22, TGI3} {
		for _, this := range []bool{true, false} {
			report := run(t, serve(t, &fake{ours: this, name: dialect, key: "k"}, dialect, "k"), nil)
			if report.This != this {
				t.Errorf("%s: this server: %v, want %v", dialect, report.This, this)
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
