package server_test

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"
)

// zeros writes n bytes of a body to w, in chunks or as they are, as fast as it takes them.
func zeros(w io.Writer, n int, chunked bool) (err error) {
	part := make([]byte, 64<<10)
	for ; n > 0 && err == nil; n -= len(part) {
		part = part[:min(n, len(part))]
		if chunked {
			_, err = fmt.Fprintf(w, "%x\r\n%s\r\n", len(part), part)
		} else {
			_, err = w.Write(part)
		}
	}
	if chunked && err == nil {
		_, err = io.WriteString(w, "0\r\n\r\n")
	}
	return err
}

// TestRefusalIsRead: a client that sends all of a long body before it reads gets the refusal, whatever that is.
func TestRefusalIsRead(t *testing.T) {
	const length = 19_000_000
	address, _ := attacked(t, nil)
	for _, c := range []struct {
		path    string
		chunked bool
		want    int
	}{
		{"/echo", false, 413}, {"/echo", true, 413}, {"/nowhere", false, 404}, {"/nowhere", true, 404},
	} {
		for range 3 {
			conn := dial(t, address)
			head := fmt.Sprintf("Content-Length: %d", length)
			if c.chunked {
				head = "Transfer-Encoding: chunked"
			}
			fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n%s\r\n\r\n", c.path, head)
			if err := zeros(conn, length, c.chunked); err != nil {
				t.Fatalf("%s, %s: sending: %v", c.path, head, err)
			}
			reply, err := http.ReadResponse(bufio.NewReader(conn), nil)
			if err != nil {
				t.Fatalf("%s, %s: reading: %v", c.path, head, err)
			}
			text, err := io.ReadAll(reply.Body)
			if err != nil || reply.StatusCode != c.want || !strings.Contains(string(text), `"error"`) {
				t.Errorf("%s, %s: %d %s, %v", c.path, head, reply.StatusCode, text, err)
			}
			conn.Close()
		}
	}
}

// TestDiscardIsBounded: the rest of a refused body is read for a while and not for ever, and not where a client waits
// to be asked for it.
func TestDiscardIsBounded(t *testing.T) {
	address, _ := attacked(t, nil)
	ask := func(more string) (conn io.ReadWriter, ended func() time.Duration) {
		c := dial(t, address)
		began := time.Now()
		fmt.Fprintf(c, "POST /echo HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n%s\r\n\r\n", more)
		return c, func() time.Duration {
			_, _ = io.Copy(io.Discard, c)
			return time.Since(began)
		}
	}
	endless, ended := ask("Content-Length: 1000000000000")
	sent := 0
	for part := make([]byte, 64<<10); ; sent += len(part) {
		if _, err := endless.Write(part); err != nil {
			break
		}
	}
	if took := ended(); sent < 60<<20 || sent > 90<<20 || took > 15*time.Second {
		t.Errorf("an endless body: %d bytes were taken in %s", sent, took)
	}
	if _, ended = ask("Content-Length: 19000000"); ended() > 6*time.Second {
		t.Error("a silent client keeps its connection")
	}
	if _, ended = ask("Content-Length: 19000000\r\nExpect: 100-continue"); ended() > 1500*time.Millisecond {
		t.Error("a client that waits to be asked is waited for")
	}
}
