package openai

import (
	"bufio"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"tgi/runtime/llm"
	"tgi/server"
	"tgi/server/api/apitest"
	"tgi/server/config"
	"tgi/server/dispatch"
	"tgi/server/dispatch/dispatchtest"
	"tgi/server/generate"
	"tgi/server/generate/generatetest"
)

// newServer returns a server with this API over e, whose ids and clock stand still.
func newServer(e *generatetest.Engine, change ...func(*generate.Limits, *dispatch.Model)) *server.Server {
	l := generatetest.Limits()
	m := demo()
	m.TokenBytes = tokenBytes
	for _, f := range change {
		f(&l, &m)
	}
	if m.Service == nil {
		m.Service = generatetest.UserCode{Chat: &generatetest.Chat{}}.On(
			generate.New(e, generatetest.Words{}, l, nil))
	}
	api := New(Options{Models: dispatchtest.One(&m), Version: "1.2.3", ComputeType: "cpu+optimized"})
	api.now = func() time.Time { return time.Unix(1_741_265_133, 0) }
	api.name = func() string { return "A1" }
	return server.New(server.Options{
		Config: config.Default().Server, APIs: []server.API{api}, Healthy: e.Healthy,
		Log: slog.New(slog.DiscardHandler),
	})
}

// TestWrongKey: the words by which clients of OpenAI, LiteLLM among them, tell a wrong key from a bad request.
func TestWrongKey(t *testing.T) {
	c := config.Default().Server
	c.APIKeys = []string{"secret"}
	m := demo()
	s := server.New(server.Options{
		Config: c, APIs: []server.API{New(Options{Models: dispatchtest.One(&m)})}, Healthy: func() error { return nil },
		Log: slog.New(slog.DiscardHandler),
	})
	r := httptest.NewRequest(http.MethodPost, chatPath, strings.NewReader(`{`+hi+`}`))
	r.Header.Set("Authorization", "Bearer other")
	rec := httptest.NewRecorder()
	s.ServeHTTP(rec, r)
	got := rec.Body.String()
	if rec.Code != http.StatusUnauthorized || !strings.Contains(got, `"message":"Incorrect API key provided`) ||
		!strings.Contains(got, `"type":"invalid_request_error"`) || !strings.Contains(got, `"code":"invalid_api_key"`) {
		t.Errorf("%d %s", rec.Code, got)
	}
}

// tokenBytes knows the two halves of a euro sign.
func tokenBytes(t llm.Token) ([]byte, bool) {
	b, ok := map[llm.Token][]byte{900: {0xe2, 0x82}, 901: {0xac}}[t]
	return b, ok
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
		return ask + "---\n" + apitest.Reply(replay(t, ask), want)
	})
}

// replay plays what stands before the "---" of a transcript.
func replay(t *testing.T, ask string) *httptest.ResponseRecorder {
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
	l := generatetest.Limits()
	l.MaxInput, l.MaxTotal = 100, 200
	service := generatetest.UserCode{Chat: &generatetest.Chat{Parse: s.Parse}}.On(
		generate.New(e, generatetest.Words{}, l, nil))
	newServer(e, func(_ *generate.Limits, m *dispatch.Model) { m.Service = service }).ServeHTTP(rec, req)
	return rec
}
