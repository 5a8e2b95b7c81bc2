package main

import (
	"errors"
	"io/fs"
	"net/http/httptest"
	"path/filepath"
	"testing"

	"tgi/conformance/api"
)

// TestConformance holds the demo model's server, in each dialect and with a key,
// to every rule of the kit.
func TestConformance(t *testing.T) {
	const key = "conformance-key"
	c := testConfig()
	c.Server.APIKeys = []string{key}
	h := openHouse(t, c)
	ts := httptest.NewServer(h.server)
	defer ts.Close()
	for _, dialect := range []string{api.TGI06, api.TGI22, api.TGI3} {
		t.Run(dialect, func(t *testing.T) {
			report, err := api.Run(t.Context(), api.Target{URL: ts.URL, Dialect: dialect, Key: key, Documents: documents(t)}, nil)
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
				if r.Skipped != "" {
					t.Logf("left out %s: %s", r.Case.ID, r.Skipped)
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
