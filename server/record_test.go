package server_test

import (
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tgi/server"
	"tgi/server/config"
	"tgi/server/record"
)

// generating are routes that want a text of a model, but for /files.
type generating struct{ routes }

func (g generating) Routes() []server.Route {
	all := g.routes.Routes()
	for i := range all {
		if all[i].Path != "/files" {
			all[i].Operation = server.TextCompletion
		}
	}
	return all
}

// TestRecorder: what a handler reads and writes is recorded, whatever becomes of the request, and counted, if it
// is a text's or a vector's. The key is named and never recorded.
func TestRecorder(t *testing.T) {
	folder := t.TempDir()
	r, err := record.Open(record.Config{Folder: folder, MaxFile: 1 << 20, MaxFiles: 2, MaxBody: 1 << 16,
		Memory: 1 << 20}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	metrics := server.NewMetrics()
	metrics.WatchRecorder(r)
	handlers := routes{
		"/echo": func(w http.ResponseWriter, r *http.Request) error {
			body, err := io.ReadAll(r.Body)
			if err != nil {
				return err
			}
			server.WriteJSON(w, body)
			return nil
		},
		"/fails": func(http.ResponseWriter, *http.Request) error { return server.ErrLoading },
		"/files": func(w http.ResponseWriter, _ *http.Request) error { server.WriteJSON(w, []byte("{}")); return nil },
	}
	s := newServer(nil, func(o *server.Options) {
		o.APIs = []server.API{generating{handlers}}
		o.Recorder, o.Metrics = r, metrics
		o.Keys = []config.Key{{Name: "school", Key: "sk-hush", Scopes: []string{config.ScopeGenerate}}}
	})
	ask(s, "POST", "/echo", `{"a":1}`, "X-Request-Id", "first", "Authorization", "Bearer sk-hush")
	ask(s, "POST", "/fails", `{}`, "X-Api-Key", "sk-hush")
	ask(s, "GET", "/readyz", "")
	ask(s, "POST", "/files", "what somebody keeps", "X-Api-Key", "sk-hush")
	r.Close()
	text, err := os.ReadFile(filepath.Join(folder, "requests.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	var all []record.Record
	for line := range strings.Lines(string(text)) {
		var one record.Record
		if err := json.Unmarshal([]byte(line), &one); err != nil {
			t.Fatal(err)
		}
		all = append(all, one)
	}
	if len(all) != 2 || all[0].ID != "first" || string(all[0].Body) != `{"a":1}` || string(all[0].Reply) != `{"a":1}` ||
		all[1].Status != 503 || !strings.Contains(string(all[1].Reply), "loading") {
		t.Errorf("recorded %s", text)
	}
	for _, one := range all {
		if one.Key != "school" {
			t.Errorf("%s: the key is called %q", one.Path, one.Key)
		}
	}
	if strings.Contains(string(text), "hush") {
		t.Errorf("the key is in %s", text)
	}
	if out := ask(s, "GET", "/metrics", "").Body.String(); !strings.Contains(out, "tgi_record_requests_total 2\n") {
		t.Error("two requests are not counted")
	}
}
