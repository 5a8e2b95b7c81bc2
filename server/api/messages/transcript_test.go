package messages

import (
	"bufio"
	"log/slog"
	"net/http/httptest"
	"strings"
	"testing"

	"tgi/server"
	"tgi/server/api/apitest"
	"tgi/server/config"
	"tgi/server/dispatch"
	"tgi/server/dispatch/dispatchtest"
	"tgi/server/generate"
	"tgi/server/generate/generatetest"
)

// newServer returns a server with this API over e and chat, whose ids stand still.
func newServer(e *generatetest.Engine, chat *generatetest.Chat) *server.Server {
	l := generatetest.Limits()
	l.MaxInput, l.MaxTotal = 100, 200
	m := dispatch.Model{ID: "demo", Service: generatetest.UserCode{Chat: chat}.On(
		generate.New(e, generatetest.Words{}, l, nil))}
	api := New(dispatchtest.One(&m), nil)
	api.name = func() string { return "A1" }
	return server.New(server.Options{
		Config: config.Default().Server, APIs: []server.API{api}, Healthy: e.Healthy,
		Log: slog.New(slog.DiscardHandler),
	})
}

// TestTranscripts plays testdata/*.txt: the script (generatetest.Script), a blank
// line, the request (line, headers, blank line, body line), a line "---", and the
// reply: status, the headers to look at (* is any value, none is none), a blank
// line and the exact body.
func TestTranscripts(t *testing.T) {
	apitest.Transcripts(t, func(t *testing.T, text string) string {
		ask, want, ok := strings.Cut(text, "---\n")
		if !ok {
			t.Fatal("no --- line")
		}
		var s generatetest.Script
		lines := bufio.NewScanner(strings.NewReader(ask))
		for lines.Scan() && lines.Text() != "" {
			if err := s.Read(lines.Text()); err != nil {
				t.Fatal(err)
			}
		}
		req := apitest.Request(lines)
		rec := httptest.NewRecorder()
		e := &generatetest.Engine{Script: s.Play, Break: s.Broken}
		newServer(e, &generatetest.Chat{Parse: s.Parse}).ServeHTTP(rec, req)
		return ask + "---\n" + apitest.Reply(rec, want)
	})
}
