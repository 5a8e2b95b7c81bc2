package responses

import (
	"bufio"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"tgi/server"
	"tgi/server/api/apitest"
	"tgi/server/api/responses/store"
	"tgi/server/config"
	"tgi/server/dispatch"
	"tgi/server/dispatch/dispatchtest"
	"tgi/server/generate"
	"tgi/server/generate/generatetest"
)

// limits of the store of tests.
var limits = store.Limits{TTL: time.Hour, MaxRecord: 64 << 10, MaxOwnerRecords: 100, MaxOwnerBytes: 1 << 20,
	MaxRecords: 1000, MaxBytes: 8 << 20}

// newServer returns a server with this API over e and chat, whose clock stands still and whose ids count.
func newServer(e *generatetest.Engine, chat *generatetest.Chat) (*server.Server, *API) {
	l := generatetest.Limits()
	l.MaxInput, l.MaxTotal = 100, 200
	m := dispatch.Model{ID: "demo", Limits: config.Limits{MaxInputTokens: 100, MaxTotalTokens: 200},
		Service: generatetest.UserCode{Chat: chat}.On(generate.New(e, generatetest.Words{}, l, nil))}
	api := New(Options{Models: dispatchtest.One(&m), Store: store.NewMemory(limits),
		Log: slog.New(slog.DiscardHandler)})
	n := 0
	api.owner = func(r *http.Request) store.Owner { return store.OwnerOf(server.Token(r)) }
	api.now = func() time.Time { return time.Unix(1_741_265_133, 0) }
	api.name = func() string {
		n++
		return "A" + strconv.Itoa(n)
	}
	return server.New(server.Options{
		Config: config.Default().Server, APIs: []server.API{api}, Healthy: e.Healthy,
		Log: slog.New(slog.DiscardHandler),
	}), api
}

// TestTranscripts plays testdata/*.txt: the script (generatetest.Script), a blank line, and one request after another
// with its reply: the request (line, headers, blank line, body line), a line "---", the reply (status, the headers to
// look
// at, a blank line and the exact body), and a line "===" before the next.
func TestTranscripts(t *testing.T) {
	apitest.Transcripts(t, func(t *testing.T, text string) string {
		script, rest, ok := strings.Cut(text, "\n\n")
		if !ok {
			t.Fatal("no blank line")
		}
		var s generatetest.Script
		for line := range strings.Lines(script) {
			if err := s.Read(strings.TrimSuffix(line, "\n")); err != nil {
				t.Fatal(err)
			}
		}
		e := &generatetest.Engine{Script: s.Play, Break: s.Broken}
		srv, api := newServer(e, &generatetest.Chat{Parse: s.Parse})
		var out []string
		for exchange := range strings.SplitSeq(rest, "\n===\n") {
			ask, want, ok := strings.Cut(exchange, "---\n")
			if !ok {
				t.Fatal("no --- line")
			}
			rec := httptest.NewRecorder()
			srv.ServeHTTP(rec, apitest.Request(bufio.NewScanner(strings.NewReader(ask))))
			api.settle()
			out = append(out, ask+"---\n"+apitest.Reply(rec, want))
		}
		return script + "\n\n" + strings.Join(out, "\n===\n")
	})
}

// settle waits until no job runs.
func (a *API) settle() {
	for {
		a.mu.Lock()
		var one *job
		for _, j := range a.jobs {
			one = j
		}
		a.mu.Unlock()
		if one == nil {
			return
		}
		<-one.done
	}
}
