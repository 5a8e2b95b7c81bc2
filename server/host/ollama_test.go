package host

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"tgi/server/config"
)

// TestOllamaDigests: a model whose files are the same has the same digest after the next start.
func TestOllamaDigests(t *testing.T) {
	c := chatConfig()
	c.Server.Ollama = true
	c.Models.Folder = folderOf(t, "org/plain")
	c.ModelList = []config.Model{blockOf(config.DemoModel)}
	digests := func() (list []string) {
		rec := httptest.NewRecorder()
		openServer(t, c).ServeHTTP(rec, httptest.NewRequest("GET", "/api/tags", nil))
		var v struct {
			Models []struct{ Digest string }
		}
		if err := json.Unmarshal(rec.Body.Bytes(), &v); err != nil || len(v.Models) != 2 {
			t.Fatalf("%s: %v", rec.Body, err)
		}
		return []string{v.Models[0].Digest, v.Models[1].Digest}
	}
	if a, b := digests(), digests(); a[0] != b[0] || a[1] != b[1] || a[0] == a[1] {
		t.Errorf("%s, then %s", a, b)
	}
}

// TestOllama: the models of the server as Ollama's API shows them, one that is unloaded and loaded again, and one
// without a template.
func TestOllama(t *testing.T) {
	c := chatConfig()
	c.Server.Ollama = true
	c.Models.Folder = folderOf(t, "org/plain")
	c.ModelList = []config.Model{blockOf(config.DemoModel)}
	h := openServer(t, c)
	h.preloading()
	ask := func(method, path, body string) (status int, v map[string]any) {
		t.Helper()
		rec := httptest.NewRecorder()
		h.ServeHTTP(rec, httptest.NewRequest(method, path, strings.NewReader(body)))
		if err := json.Unmarshal(rec.Body.Bytes(), &v); err != nil {
			t.Fatalf("%s %s: %d %s", path, body, rec.Code, rec.Body)
		}
		return rec.Code, v
	}
	loaded := func() (names string) {
		_, v := ask("GET", "/api/ps", "")
		for _, m := range v["models"].([]any) {
			names += m.(map[string]any)["name"].(string) + " "
		}
		return names
	}
	_, v := ask("GET", "/api/tags", "")
	for i, want := range []string{config.DemoModel + ":latest", "org/plain:latest"} {
		m := v["models"].([]any)[i].(map[string]any)
		if m["name"] != want || m["details"].(map[string]any)["family"] != "llama" || m["size"].(float64) < 1000 {
			t.Errorf("model %d is %v", i, m)
		}
	}
	if got := loaded(); got != config.DemoModel+":latest " {
		t.Errorf("loaded are %s", got)
	}
	if _, v := ask("POST", "/api/generate", `{"model":"tgi-demo","keep_alive":0}`); v["done_reason"] != "unload" {
		t.Errorf("got %v", v)
	}
	for deadline := time.Now().Add(time.Minute); loaded() != ""; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the model stays loaded")
		}
	}
	status, v := ask("POST", "/api/generate",
		`{"model":"org/plain:latest","prompt":"Once","stream":false,"keep_alive":"1h","options":{"num_predict":3}}`)
	if status != http.StatusOK || v["eval_count"] != 3.0 || v["prompt_eval_count"].(float64) > 3 {
		t.Errorf("a model without a template: %d %v", status, v)
	}
	_, v = ask("GET", "/api/ps", "")
	m := v["models"].([]any)[0].(map[string]any)
	if at, err := time.Parse(time.RFC3339, m["expires_at"].(string)); err != nil || time.Until(at) > time.Hour ||
		time.Until(at) < 59*time.Minute {
		t.Errorf("it is kept until %v", m["expires_at"])
	}
	if status, v := ask("POST", "/api/chat", `{"model":"org/plain","messages":[{"role":"user","content":"a"}]}`); status !=
		http.StatusBadRequest || v["error"] != "Template error: template not found" {
		t.Errorf("a conversation without a template: %d %v", status, v)
	}
	if status, v := ask("POST", "/api/chat", `{"model":"none","messages":[]}`); status != http.StatusNotFound ||
		v["error"] != "model 'none' not found" {
		t.Errorf("no such model: %d %v", status, v)
	}
	c.Server.Ollama = false
	if h := openServer(t, c); true {
		rec := httptest.NewRecorder()
		if h.ServeHTTP(rec, httptest.NewRequest("GET", "/api/tags", nil)); rec.Code != http.StatusNotFound {
			t.Errorf("switched off: %d", rec.Code)
		}
	}
}
