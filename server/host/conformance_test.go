package host

import (
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"tgi/conformance/api"
	"tgi/conformance/long"
	"tgi/server/config"
)

// TestConformance checks a server of two models, in each dialect (`make test`: in that of TGI 3) and with keys, against
// every rule of the kit.
func TestConformance(t *testing.T) {
	const key = "conformance-key"
	c := chatConfig()
	c.Server.APIKeys, c.Server.AdminKeys = []string{key}, []string{adminKey}
	c.Server.Ollama, c.Batches.Folder = true, t.TempDir()
	c.Models.Folder = chatFolderOf(t, "org/second")
	c.ModelList = []config.Model{blockOf(config.DemoModel), blockOf("org/second")}
	h := openServer(t, c)
	h.preloading()
	ts := httptest.NewServer(h)
	defer ts.Close()
	for _, dialect := range long.Every(3, []string{api.TGI3, api.TGI22, api.TGI06}) {
		t.Run(dialect, func(t *testing.T) {
			report, err := api.Run(t.Context(), api.Target{URL: ts.URL, Dialect: dialect, Key: key, AdminKey: adminKey,
				Documents: documents(t)}, nil)
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
				if r.Skipped != "" && !strings.HasPrefix(r.Skipped, "does not hold in ") &&
					!strings.HasPrefix(r.Case.ID, "texts-") { // TestConformanceOfTexts
					t.Errorf("left out %s: %s", r.Case.ID, r.Skipped)
				}
			}
		})
	}
}

// TestConformanceOfTexts checks a server with models for vectors and scores.
func TestConformanceOfTexts(t *testing.T) {
	ts := httptest.NewServer(openTexts(t, nil, "bert", "bert-rank"))
	defer ts.Close()
	report, err := api.Run(t.Context(), api.Target{URL: ts.URL}, func(id string) bool {
		return strings.HasPrefix(id, "texts-")
	})
	if err != nil || len(report.Results) < 4 {
		t.Fatalf("%d results, error %v", len(report.Results), err)
	}
	for _, r := range report.Results {
		if r.Skipped != "" {
			t.Errorf("left out %s: %s", r.Case.ID, r.Skipped)
		}
	}
	for _, v := range report.Violations() {
		t.Errorf("%v\n%s", v, v.Transcript)
	}
}

// documents returns TGI's own OpenAPI documents.
func documents(t *testing.T) (all []*api.Document) {
	for _, name := range []string{"tgi-0.6.0.openapi.json", "tgi-2.2.1-dev0.openapi.json"} {
		d, err := api.ReadDocument(filepath.Join("..", "api", "tgi", "testdata", "reference", name))
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, d)
	}
	return all
}
