package openai

import (
	"fmt"
	"log/slog"
	"net"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"tgi/runtime/engine"
	"tgi/server"
	"tgi/server/config"
	"tgi/server/dispatch/dispatchtest"
	"tgi/server/generate"
	"tgi/server/generate/generatetest"
)

// TestNobodyReads: a client that asks for more than any socket buffers and reads
// nothing keeps its sequences no longer than it may take for one write.
func TestNobodyReads(t *testing.T) {
	big := strings.Repeat("x", 1<<16)
	for name, c := range map[string]struct{ path, body string }{
		"chat stream": {"/v1/chat/completions",
			`{"model":"m","messages":[{"role":"user","content":"Hi"}],"stream":true,"n":2,"max_tokens":300}`},
		"chat": {"/v1/chat/completions",
			`{"model":"m","messages":[{"role":"user","content":"Hi"}],"max_tokens":300,"logprobs":true}`},
		"completion stream": {"/v1/completions", `{"model":"m","prompt":["Hi","Ho"],"stream":true,"max_tokens":300}`},
		"completion": {"/v1/completions",
			`{"model":"m","prompt":"Hi","max_tokens":300,"echo":true,"logprobs":2}`},
	} {
		e := &generatetest.Engine{Script: func(r engine.Request) []engine.Event {
			events := generatetest.Echo(r)
			for i := range events {
				events[i].Text = big
			}
			return events
		}}
		l := generatetest.Limits()
		l.MaxTotal = 1000
		settings := config.Default().Server
		settings.WriteTimeout = config.Duration(200 * time.Millisecond)
		m := demo()
		m.Service = generatetest.UserCode{Chat: &generatetest.Chat{}}.On(
			generate.New(e, generatetest.Words{}, l, nil))
		api := New(Options{Models: dispatchtest.One(&m)})
		s := httptest.NewServer(server.New(server.Options{Config: settings, APIs: []server.API{api}, Healthy: e.Healthy,
			Log: slog.New(slog.DiscardHandler)}))
		conn, err := net.Dial("tcp", strings.TrimPrefix(s.URL, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(conn,
			"POST %s HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", c.path,
			len(c.body), c.body)
		eventually(t, name+" runs", func() bool { return len(e.Requests()) > 0 })
		eventually(t, name+" is given up", func() bool { return e.Running() == 0 })
		conn.Close()
		s.Close()
	}
}
