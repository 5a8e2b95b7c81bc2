package generateapi

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"tgi/runtime/llm"
	"tgi/server/config"
	"tgi/server/dispatch"
	"tgi/server/generate"
)

// loud says 64 KiB for each token.
type loud struct{}

func (loud) Next(llm.Token) string { return strings.Repeat("x", 1<<16) }
func (loud) Flush() string         { return "" }

// impatient is a kit that gives up soon on clients, with texts that no socket buffers.
func impatient(t *testing.T) *kit {
	k := newKit(t, func(o *Options, l *generate.Limits, c *config.Server) {
		l.MaxTotal = 9000
		o.WriteTimeout, o.ReadTimeout = 200*time.Millisecond, 300*time.Millisecond
		c.WriteTimeout, c.ReadTimeout = config.Duration(200*time.Millisecond), config.Duration(300*time.Millisecond)
	})
	k.model.Limits.MaxTotalTokens = 9000
	k.model.Decoder = func([]llm.Token) dispatch.Decoder { return loud{} }
	serve(t, k)
	return k
}

// TestGenerateAPINeverReads: a client that asks for much and reads nothing, by each
// way of asking, is given up; nothing runs for it, and others are served meanwhile.
func TestGenerateAPINeverReads(t *testing.T) {
	settings := `"generation_config":{"max_new_tokens":300}` // 20 MB
	for name, ask := range map[string]func(k *kit, conn net.Conn){
		"stream": func(_ *kit, conn net.Conn) {
			post(conn, "/api/generate-one", `{"request_id":"a","prompt":"length","stream":true,`+settings+`}`)
		},
		"whole": func(_ *kit, conn net.Conn) {
			post(conn, "/api/generate-one", `{"request_id":"a","prompt":"length",`+settings+`}`)
		},
		"batch": func(_ *kit, conn net.Conn) {
			post(conn, "/api/generate-batch", `{"prompts":[{"request_id":"a","prompt":"length"}],`+settings+`}`)
		},
	} {
		k := impatient(t)
		conn, err := net.Dial("tcp", strings.TrimPrefix(k.url, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		ask(k, conn)
		for late := time.Now().Add(10 * time.Second); len(k.engine.Requests()) == 0; time.Sleep(time.Millisecond) {
			if time.Now().After(late) {
				t.Fatalf("%s: it never ran", name)
			}
		}
		if a := k.ask(t, "b", "x", `"generation_config":{"max_new_tokens":1}`); a.StatusCode != http.StatusOK {
			t.Errorf("%s: the neighbour got %d %.100s", name, a.StatusCode, a.text)
		}
		k.idle(t)
	}
}

func post(conn net.Conn, path, body string) {
	fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s",
		path, len(body), body)
}

// TestGenerateAPISocketSlow: a message that begins and does not end in time closes
// its socket, and a socket that is not read ends what runs on it.
func TestGenerateAPISocketSlow(t *testing.T) {
	k := impatient(t)
	c := k.dial(t)
	w, err := c.Writer(t.Context(), websocket.MessageText)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(w, strings.Repeat(" ", 5000)); err != nil { // a frame of more, which never come
		t.Fatal(err)
	}
	closed := make(chan error, 1)
	go func() {
		_, _, err := c.Read(t.Context())
		closed <- err
	}()
	select {
	case err := <-closed:
		if err == nil {
			t.Error("half a message was answered")
		}
	case <-time.After(10 * time.Second):
		t.Error("half a message is waited for")
	}
	deaf := k.dial(t)
	say(t, deaf, `{"prompts":[{"request_id":"a","prompt":"length"}],"generation_config":{"max_new_tokens":300}}`)
	for late := time.Now().Add(10 * time.Second); len(k.engine.Requests()) == 0; time.Sleep(time.Millisecond) {
		if time.Now().After(late) {
			t.Fatal("it never ran")
		}
	}
	k.idle(t)
	// A socket that says nothing for longer stays.
	quiet := k.dial(t)
	time.Sleep(400 * time.Millisecond)
	say(t, quiet, `{"prompts":`)
	expect(t, quiet, `[{"error": "Invalid JSON received"}]`)
}
