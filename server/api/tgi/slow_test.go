package tgi

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"tgi/runtime/engine"
	"tgi/server/config"
	"tgi/server/generate"
	"tgi/server/generate/generatetest"
)

// impatient is a server with 64 KiB of text in each token, which no socket buffers.
func impatient(t *testing.T) (e *generatetest.Engine, address string) {
	big := strings.Repeat("x", 1<<16)
	e = &generatetest.Engine{Script: func(r engine.Request) []engine.Event {
		events := generatetest.Echo(r)
		for i := range events {
			events[i].Text = big
		}
		return events
	}}
	s := newServer(e, func(l *generate.Limits, c *config.Config) {
		l.MaxTotal, l.MaxConcurrent = 1000, 4
		c.Server.WriteTimeout, c.Server.ReadTimeout = config.Duration(200*time.Millisecond),
			config.Duration(200*time.Millisecond)
	})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- s.Serve(t.Context(), l) }()
	t.Cleanup(func() { <-done }) // after the context has ended
	return e, l.Addr().String()
}

func begin(t *testing.T, address, path string, length int, body string) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s",
		path, length, body)
	return conn
}

// served reports whether all four places are free: as many requests at once are served.
func served(address string) bool {
	done := make(chan bool, 4)
	for range cap(done) {
		go func() {
			r, err := http.Post("http://"+address+"/generate", "application/json",
				strings.NewReader(`{"inputs":"Hi","parameters":{"max_new_tokens":1}}`))
			if err == nil {
				_, _ = io.Copy(io.Discard, r.Body)
				r.Body.Close()
			}
			done <- err == nil && r.StatusCode == http.StatusOK
		}()
	}
	all := true
	for range cap(done) {
		all = <-done && all
	}
	return all
}

// TestNobodyReads: on every route whose reply is long, a client that reads nothing
// keeps neither its sequence nor its place.
func TestNobodyReads(t *testing.T) {
	const parameters = `"parameters":{"max_new_tokens":300,"details":true}`
	text := strings.Repeat("a ", 400_000) // its tokens are tens of megabytes of JSON
	for path, body := range map[string]string{
		"/generate":                       `{"inputs":"Hi",` + parameters + `}`,
		"/generate_stream":                `{"inputs":"Hi",` + parameters + `}`,
		"/":                               `{"inputs":"Hi","stream":true,` + parameters + `}`,
		"/v1/completions/generate_stream": `{"inputs":"Hi",` + parameters + `}`,
		"/invocations":                    `{"inputs":"Hi","stream":true,` + parameters + `}`,
		"/vertex":                         `{"instances":[{"inputs":"Hi",` + parameters + `}]}`,
		"/v2/models/m/versions/1/infer": `{"id":"x","parameters":{"max_new_tokens":300},"inputs":[{"name":"a","shape":[1],"datatype":"BYTES","data":[120]}],
			"outputs":[{"name":"a"}]}`,
		"/tokenize": `{"inputs":"` + text + `"}`,
	} {
		e, address := impatient(t)
		for range 3 {
			begin(t, address, path, len(body), body)
		}
		eventually(t, path+" is asked for", func() bool { return path == "/tokenize" || len(e.Requests()) > 0 })
		eventually(t, "the neighbours of "+path+" are served", func() bool { return served(address) })
		eventually(t, path+" ends", func() bool { return e.Running() == 0 })
	}
}

// TestSlowBodies: a body that does not end in time takes no place, and its client is
// told.
func TestSlowBodies(t *testing.T) {
	e, address := impatient(t)
	for _, path := range []string{"/generate", "/generate_stream", "/", "/tokenize", "/invocations", "/vertex"} {
		var conns []net.Conn
		for range 10 { // more than there are places
			conns = append(conns, begin(t, address, path, 1000, `{"inputs":"H`))
		}
		if !served(address) {
			t.Errorf("%s: half bodies keep others out", path)
		}
		for _, conn := range conns {
			_ = conn.SetReadDeadline(time.Now().Add(20 * time.Second))
			b, err := io.ReadAll(conn)
			if err != nil || !strings.HasPrefix(string(b), "HTTP/1.1 400 ") ||
				!strings.Contains(string(b), "Failed to buffer the request body") {
				t.Fatalf("%s: %v %q", path, err, b)
			}
		}
	}
	if e.Running() != 0 {
		t.Error("something runs")
	}
}
