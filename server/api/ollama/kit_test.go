package ollama

import (
	"bufio"
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"tgi/server"
	"tgi/server/api/apitest"
	"tgi/server/api/modelsapi"
	"tgi/server/config"
	"tgi/server/dispatch"
	"tgi/server/dispatch/dispatchtest"
	"tgi/server/generate"
	"tgi/server/generate/generatetest"
)

// then is when tests run.
var then = time.Date(2026, 11, 24, 16, 0, 0, 5000, time.UTC)

// shelf is a Library of one model, whose downloads take a few looks.
type shelf struct {
	mu      sync.Mutex
	model   Info
	looks   []modelsapi.Model // what Get returns next; the last one stays
	err     error
	kept    []time.Duration
	pulls   []modelsapi.Pull
	deleted []string
}

func (s *shelf) List(context.Context) ([]Info, error) { return []Info{s.model}, s.err }

func (s *shelf) Get(_ context.Context, name string) (Info, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.looks) > 0 {
		m := s.looks[0]
		if len(s.looks) > 1 {
			s.looks = s.looks[1:]
		}
		return Info{Model: m}, nil
	}
	if name != s.model.ID {
		return Info{}, modelsapi.ErrUnknown
	}
	return s.model, s.err
}

func (s *shelf) Pull(_ context.Context, p modelsapi.Pull) (modelsapi.Model, error) {
	s.pulls = append(s.pulls, p)
	if s.err != nil {
		return modelsapi.Model{}, s.err
	}
	return s.looks[0], nil
}

func (s *shelf) Delete(_ context.Context, id string) error {
	s.deleted = append(s.deleted, id)
	if id != s.model.ID {
		return modelsapi.ErrUnknown
	}
	return s.err
}

func (s *shelf) Keep(_ context.Context, _ string, d time.Duration) bool {
	s.kept = append(s.kept, d)
	return true
}

// newShelf has the model demo.
func newShelf() *shelf {
	return &shelf{model: Info{Model: modelsapi.Model{ID: "demo", Created: then, State: modelsapi.Running,
		Format: "gguf", Params: 494_032_768, Quantization: "int4", MemoryBytes: 7, DiskBytes: 5, Context: 200},
		Architecture: "Qwen2ForCausalLM", Layers: 2, Hidden: 64, Template: "{{ tools }}", Tools: true}}
}

// newServer returns a server with this API over e, chat and s, whose ids and time stand still.
func newServer(e *generatetest.Engine, chat *generatetest.Chat, s *shelf) *server.Server {
	l := generatetest.Limits()
	l.MaxInput, l.MaxTotal = 100, 200
	m := dispatch.Model{ID: "demo", Limits: config.Limits{MaxInputTokens: 100, MaxTotalTokens: 200},
		Service: generatetest.UserCode{Chat: chat, Grammars: &generatetest.Grammars{}}.On(
			generate.New(e, generatetest.Words{}, l, nil))}
	api := New(Options{Models: dispatchtest.One(&m), Library: s, Version: "1.0.0", Keyless: true})
	api.name, api.now, api.poll = func() string { return "a1" }, func() time.Time { return then }, time.Millisecond
	settings := config.Default().Server
	settings.AdminKeys = []string{"admin"}
	return server.New(server.Options{Config: settings, APIs: []server.API{api}, Healthy: e.Healthy,
		Log: slog.New(slog.DiscardHandler)})
}

// post sends a body, as curl does, and returns the reply.
func post(s http.Handler, path, body string) *httptest.ResponseRecorder {
	return ask(s, http.MethodPost, path, body)
}

func ask(s http.Handler, method, path, body string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	r.Header.Set("Authorization", "Bearer admin")
	rec := httptest.NewRecorder()
	s.ServeHTTP(rec, r)
	return rec
}

// TestTranscripts plays testdata/*.txt: the script (generatetest.Script), a blank line, the request (line, headers,
// blank line, body line), a line "---", and the reply: status, the headers to look at (* is any value, none is none), a
// blank line and the exact body.
func TestTranscripts(t *testing.T) {
	apitest.Transcripts(t, func(t *testing.T, text string) string {
		question, want, ok := strings.Cut(text, "---\n")
		if !ok {
			t.Fatal("no --- line")
		}
		var s generatetest.Script
		lines := bufio.NewScanner(strings.NewReader(question))
		for lines.Scan() && lines.Text() != "" {
			if err := s.Read(lines.Text()); err != nil {
				t.Fatal(err)
			}
		}
		req := apitest.Request(lines)
		rec := httptest.NewRecorder()
		e := &generatetest.Engine{Script: s.Play, Break: s.Broken}
		newServer(e, &generatetest.Chat{Parse: s.Parse}, newShelf()).ServeHTTP(rec, req)
		return question + "---\n" + apitest.Reply(rec, want)
	})
}
