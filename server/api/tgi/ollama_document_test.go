package tgi

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"tgi/server"
	"tgi/server/api/modelsapi"
	"tgi/server/api/ollama"
	"tgi/server/config"
	"tgi/server/dispatch"
	"tgi/server/dispatch/dispatchtest"
	"tgi/server/generate"
	"tgi/server/generate/generatetest"
)

// oneOfOllama is a library of one model.
type oneOfOllama struct{}

var oneModelInfo = ollama.Info{Model: modelsapi.Model{ID: "demo", State: modelsapi.Running, Created: time.Unix(9, 0)},
	Architecture: "LlamaForCausalLM"}

func (oneOfOllama) List(context.Context) ([]ollama.Info, error) {
	return []ollama.Info{oneModelInfo}, nil
}
func (oneOfOllama) Get(context.Context, string) (ollama.Info, error) { return oneModelInfo, nil }
func (oneOfOllama) Pull(context.Context, modelsapi.Pull) (modelsapi.Model, error) {
	return oneModelInfo.Model, nil
}
func (oneOfOllama) Delete(context.Context, string) error             { return modelsapi.ErrConflict }
func (oneOfOllama) Keep(context.Context, string, time.Duration) bool { return true }

// TestOllamaFitsDocument: what Ollama's routes read and reply, line by line, is what the document says.
func TestOllamaFitsDocument(t *testing.T) {
	_, a := wholeServer(nil)
	d := document(t, a)
	c := checker{schemas: d.Components.Schemas}
	service := generatetest.UserCode{Chat: &generatetest.Chat{Parse: true}}.On(
		generate.New(&generatetest.Engine{}, generatetest.Words{}, generatetest.Limits(), nil))
	settings := config.Default().Server
	settings.AdminKeys = []string{adminKey}
	api := ollama.New(ollama.Options{Models: dispatchtest.One(&dispatch.Model{ID: "demo", Service: service}),
		Library: oneOfOllama{}, Keyless: true})
	s := server.New(server.Options{Config: settings, APIs: []server.API{api},
		Log: slog.New(slog.DiscardHandler)})
	const user = `"messages":[{"role":"user","content":"Hi"}]`
	for _, ask := range []struct{ method, path, body string }{
		{"POST", "/api/chat", `{"model":"demo",` + user + `,"options":{"num_predict":3,"temperature":0,"num_ctx":5}}`},
		{"POST", "/api/chat", `{"model":"demo",` + user + `,"stream":false,"logprobs":true,"top_logprobs":2,"think":null,` +
			`"tools":[{"type":"function","function":{"name":"f","parameters":{}}}],"keep_alive":"5m","format":""}`},
		{"POST", "/api/chat", `{"model":"demo","keep_alive":0}`},
		{"POST", "/api/chat", `{"model":"demo",` + user + `,"options":{"top_p":7}}`},
		{"POST", "/api/generate", `{"model":"demo","prompt":"Hi","context":[1],"stream":false,"options":{"num_predict":2}}`},
		{"POST", "/api/generate", `{"model":"demo","prompt":"Hi","raw":true,"keep_alive":5}`},
		{"GET", "/api/tags", ""}, {"GET", "/api/ps", ""}, {"GET", "/api/version", ""},
		{"POST", "/api/show", `{"model":"demo"}`}, {"POST", "/api/pull", `{"model":"demo"}`},
		{"DELETE", "/api/delete", `{"name":"demo"}`}, {"POST", "/api/copy", `{}`},
	} {
		r := httptest.NewRequest(ask.method, ask.path, strings.NewReader(ask.body))
		r.Header.Set("Authorization", "Bearer "+adminKey)
		rec := httptest.NewRecorder()
		s.ServeHTTP(rec, r)
		o := operation(d, ask.method, ask.path)
		kind := rec.Header().Get("Content-Type")
		for line := range bytes.Lines(rec.Body.Bytes()) {
			for _, wrong := range replyFits(c, o, rec.Code, kind, bytes.TrimSpace(line)) {
				t.Errorf("%s %s: %s\n%s", ask.path, ask.body, wrong, line)
			}
		}
		if o.RequestBody == nil || ask.body == "" || rec.Code != 200 {
			continue
		}
		var v any
		if err := json.Unmarshal([]byte(ask.body), &v); err != nil {
			t.Fatal(err)
		}
		for _, wrong := range c.check("request", o.RequestBody.Content["application/json"].Schema, v) {
			t.Errorf("%s: %s", ask.body, wrong)
		}
	}
}
