package tgi

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"time"

	"tgi/server"
	"tgi/server/api/modelsapi"
	"tgi/server/api/openapi"
)

// oneModel is a server's models: demo, to which anything may be done, and some
// that refuse it.
type oneModel struct{}

func (oneModel) model(id string) (modelsapi.Model, error) {
	m := modelsapi.Model{
		ID: id, Created: time.Unix(1, 0), State: modelsapi.Running, Local: true, Source: "https://example.com/x",
		Description: "d", Format: "safetensors", Quantization: "int4",
		Params: 5_000_000, MemoryBytes: 7, DiskBytes: 6, Context: 512, Parallel: 2, Threads: 2,
		Sampling: &modelsapi.Sampling{Temperature: 1, TopP: 1, MaxTokens: 9},
		Failure:  "f", Progress: &modelsapi.Progress{Done: 1},
	}
	switch id {
	case "demo", "tgi":
		m.ID = "demo"
		return m, nil
	case "big":
		return m, &modelsapi.Insufficient{Of: "memory", Need: 2, Free: 1}
	case "busy":
		return m, modelsapi.ErrBusy
	case "waits":
		return m, server.ErrUnhealthy
	}
	return m, modelsapi.ErrUnknown
}

func (o oneModel) as(id string, state modelsapi.State) (modelsapi.Model, error) {
	m, err := o.model(id)
	m.State = state
	return m, err
}

func (o oneModel) List(context.Context) ([]modelsapi.Model, error) {
	m, err := o.model("demo")
	return []modelsapi.Model{m}, err
}
func (o oneModel) Get(_ context.Context, id string) (modelsapi.Model, error) { return o.model(id) }
func (o oneModel) Start(_ context.Context, id string) (modelsapi.Model, error) {
	return o.as(id, modelsapi.Starting)
}
func (o oneModel) Stop(_ context.Context, id string) (modelsapi.Model, error) {
	return o.as(id, modelsapi.Stopped)
}
func (o oneModel) Pull(_ context.Context, p modelsapi.Pull) (modelsapi.Model, error) {
	return o.as(p.Source, modelsapi.Downloading)
}
func (o oneModel) CancelPull(_ context.Context, id string) (modelsapi.Model, error) {
	return o.as(id, modelsapi.NotDownloaded)
}
func (o oneModel) Import(_ context.Context, i modelsapi.Import) (modelsapi.Model, error) {
	return o.as(i.ID, modelsapi.Downloaded)
}
func (o oneModel) Delete(_ context.Context, id string) error {
	_, err := o.model(id)
	return err
}
func (oneModel) LoadAdapter(_ context.Context, a modelsapi.Adapter) error {
	if a.Name == "taken" {
		return modelsapi.ErrConflict
	}
	return nil
}
func (o oneModel) UnloadAdapter(_ context.Context, name string) error {
	_, err := o.model(name)
	return err
}

// TestModelsFitDocument does the same with the routes about models, in all their
// statuses.
func TestModelsFitDocument(t *testing.T) {
	s, a := wholeServer(nil)
	d := document(t, a)
	c := checker{schemas: d.Components.Schemas}
	seen := map[string]bool{}
	for _, ask := range []struct {
		method, path, body string
		status             int
	}{
		{"GET", "/v1/models", "", 200}, {"GET", "/v1/models?filter=running", "", 200}, {"GET", "/v1/models?filter=x",
			"", 422},
		{"GET", "/v1/models/demo", "", 200}, {"GET", "/v1/models/x", "", 404},
		{"POST", "/v1/models/start", `{"model":"demo"}`, 202}, {"POST", "/v1/models/start", `{"model":"x"}`, 404},
		{"POST", "/v1/models/start", `{`, 400},
		{"POST", "/v1/models/start", `{"model":"big"}`, 507}, {"POST", "/v1/models/start", `{"model":"waits"}`, 503},
		{"POST", "/v1/models/start", `{"model":"busy"}`, 409},
		{"POST", "/v1/models/stop", `{"model":"demo","ngl":1}`, 200}, {"POST", "/v1/models/stop", `{"model":5}`, 422},
		{"PUT", "/v1/models/demo/start", "", 202}, {"POST", "/v1/models/demo/start", `{}`, 202},
		{"PUT", "/v1/models/demo/stop", "", 200}, {"POST", "/v1/models/x/stop", "", 404},
		{"POST", "/v1/models/pull", `{"model":"demo","id":"a/b","name":"n"}`, 202}, {"POST", "/v1/models/pull",
			`{"model":"busy"}`, 409}, {"POST", "/v1/models/pull", `{}`, 422},
		{"DELETE", "/v1/models/pull", `{"taskId":"demo"}`, 200}, {"DELETE", "/v1/models/pull", `{"taskId":"x"}`, 404},
		{"GET", "/v1/models/download/demo", "", 202}, {"GET", "/v1/models/download/big", "", 507},
		{"GET", "/v1/models/download/a%20b", "", 422},
		{"POST", "/v1/models/import", `{"model":"demo","modelPath":"p","option":"symlink"}`, 200},
		{"POST", "/v1/models/import", `{"model":"busy","modelPath":"p"}`, 409},
		{"POST", "/v1/load_lora_adapter", `{"lora_name":"a","lora_path":"/p","load_inplace":false}`, 200},
		{"POST", "/v1/load_lora_adapter", `{"lora_name":"taken","lora_path":"/p"}`, 409},
		{"POST", "/v1/unload_lora_adapter", `{"lora_name":"demo"}`, 200},
		{"POST", "/v1/unload_lora_adapter", `{"lora_name":"x"}`, 404},
		{"DELETE", "/v1/models/demo", "", 200}, {"DELETE", "/v1/models/busy", "", 409}, {"DELETE", "/v1/models/x", "",
			404},
	} {
		for _, key := range []string{adminKey, "wrong", ""} {
			r := httptest.NewRequest(ask.method, ask.path, strings.NewReader(ask.body))
			if ask.body == "" {
				r = httptest.NewRequest(ask.method, ask.path, http.NoBody)
			}
			r.Header.Set("Content-Type", "application/json")
			if key != "" {
				r.Header.Set("Authorization", "Bearer "+key)
			}
			rec := httptest.NewRecorder()
			s.ServeHTTP(rec, r)
			if rec.Code == 401 {
				continue
			}
			if key == adminKey && rec.Code != ask.status {
				t.Errorf("%s %s %s: %d %s, want %d", ask.method, ask.path, ask.body, rec.Code, rec.Body, ask.status)
			}
			path, _, _ := strings.Cut(ask.path, "?")
			o := modelsOperation(d, ask.method, path)
			seen[o.OperationID] = true
			for _, wrong := range replyFits(c, o, rec.Code, rec.Header().Get("Content-Type"), rec.Body.Bytes()) {
				t.Errorf("%s %s %s: %s\n%s", ask.method, ask.path, ask.body, wrong, rec.Body)
			}
			if rec.Code >= 300 || ask.body == "" || strings.Contains(ask.body, "ngl") {
				continue
			}
			var v any
			if err := json.Unmarshal([]byte(ask.body), &v); err != nil {
				t.Fatal(err)
			}
			for _, wrong := range c.check("request", o.RequestBody.Content["application/json"].Schema, v) {
				t.Errorf("%s %s: %s", ask.path, ask.body, wrong)
			}
		}
	}
	for path, methods := range d.Paths {
		for _, o := range methods {
			if (strings.HasPrefix(path, "/v1/models") || strings.HasSuffix(path, "_adapter")) && !seen[o.OperationID] {
				t.Errorf("nobody asked for %s", o.OperationID)
			}
		}
	}
}

// modelsOperation is operation, but the path that says more counts.
func modelsOperation(d *openapi.Document, method, path string) *openapi.Operation {
	for _, at := range []string{path, regexp.MustCompile(`/download/.*`).ReplaceAllString(path, "/download/{id}"),
		regexp.MustCompile(`models/[^/]+`).ReplaceAllString(path, "models/{id}")} {
		if o := d.Paths[at][strings.ToLower(method)]; o != nil {
			return o
		}
	}
	return nil
}
