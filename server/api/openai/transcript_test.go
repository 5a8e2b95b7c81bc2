package openai

import (
	"bufio"
	"flag"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"tgi/runtime/llm"
	"tgi/server"
	"tgi/server/config"
	"tgi/server/dispatch"
	"tgi/server/dispatch/dispatchtest"
	"tgi/server/generate"
	"tgi/server/generate/generatetest"
)

// update shows new transcripts; they are read before they are kept.
var update = flag.Bool("update", false, "write the replies into testdata")

// newServer returns a server with this API over e, whose ids and clock stand still.
func newServer(e *generatetest.Engine, change ...func(*generate.Limits, *dispatch.Model)) *server.Server {
	l := generatetest.Limits()
	m := demo()
	m.TokenBytes = tokenBytes
	for _, f := range change {
		f(&l, &m)
	}
	if m.Service == nil {
		m.Service = generate.New(e, generatetest.Words{}, l, nil).WithChat(&generatetest.Chat{})
	}
	api := New(Options{Models: dispatchtest.One(&m), Version: "1.2.3", ComputeType: "cpu+optimized"})
	api.now = func() time.Time { return time.Unix(1_741_265_133, 0) }
	api.name = func() string { return "A1" }
	return server.New(server.Options{
		Config: config.Default().Server, APIs: []server.API{api}, Healthy: e.Healthy,
		Log: slog.New(slog.DiscardHandler),
	})
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
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatal("no transcripts", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			ask, want, ok := strings.Cut(string(text), "---\n")
			if !ok {
				t.Fatal("no --- line")
			}
			got := show(replay(t, ask), want)
			if got != want {
				t.Errorf("got\n%s\nwant\n%s", got, want)
			}
			if *update {
				if err := os.WriteFile(file, []byte(ask+"---\n"+got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
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
	lines.Scan()
	method, path, _ := strings.Cut(lines.Text(), " ")
	header := http.Header{"Content-Type": {"application/json"}}
	for lines.Scan() && lines.Text() != "" {
		name, value, _ := strings.Cut(lines.Text(), ": ")
		header.Set(name, value)
	}
	lines.Scan()
	req := httptest.NewRequest(method, path, strings.NewReader(lines.Text()))
	req.Header = header
	rec := httptest.NewRecorder()
	e := &generatetest.Engine{Script: s.Play, Break: s.Broken}
	l := generatetest.Limits()
	l.MaxInput, l.MaxTotal = 100, 200
	service := generate.New(e, generatetest.Words{}, l, nil).WithChat(&generatetest.Chat{Parse: s.Parse})
	newServer(e, func(_ *generate.Limits, m *dispatch.Model) { m.Service = service }).ServeHTTP(rec, req)
	return rec
}

// show writes the reply with the headers that want names.
func show(rec *httptest.ResponseRecorder, want string) string {
	var b strings.Builder
	fmt.Fprintln(&b, rec.Code)
	head, _, _ := strings.Cut(want, "\n\n")
	for _, line := range strings.Split(head, "\n")[1:] {
		name, value, _ := strings.Cut(line, ": ")
		got := strings.Join(rec.Header().Values(name), ", ")
		switch {
		case value == "*" && got != "":
			got = "*"
		case value == "none" && got == "":
			got = "none"
		}
		fmt.Fprintf(&b, "%s: %s\n", name, got)
	}
	return b.String() + "\n" + rec.Body.String()
}
