package server_test

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"tgi/server"
)

// TestLong: a long reply is what a short one would be, whatever the parts; one
// that fails says so before it began, and never ends in an orderly way after.
func TestLong(t *testing.T) {
	odd := strings.Repeat("é—😀\"\\\n\x01x", 20_000)
	broken := errors.New("broken")
	s := newServer(routes{
		"/short": func(w http.ResponseWriter, _ *http.Request) error {
			l := server.NewLong(w)
			l.String("a")
			return l.Close()
		},
		"/long": func(w http.ResponseWriter, _ *http.Request) error {
			l := server.NewLong(w)
			l.Text("[")
			l.String(odd)
			l.Text(",")
			l.String("")
			l.Text("]")
			return l.Close()
		},
		"/early": func(w http.ResponseWriter, r *http.Request) error {
			l := server.NewLong(w)
			l.String("a")
			return l.Fail(r, broken)
		},
		"/late": func(w http.ResponseWriter, r *http.Request) error {
			l := server.NewLong(w)
			l.String(odd)
			return l.Fail(r, broken)
		},
	}, nil)
	url, _, _ := live(t, s)
	ask := func(path string) (*http.Response, []byte, error) {
		r, err := http.Post(url+path, "application/json", strings.NewReader("{}"))
		if err != nil {
			t.Fatal(err)
		}
		defer r.Body.Close()
		b, err := io.ReadAll(r.Body)
		return r, b, err
	}
	if r, b, err := ask("/short"); err != nil || r.ContentLength != 3 || string(b) != `"a"` {
		t.Errorf("short: %v %d %q", err, r.ContentLength, b)
	}
	var got []string
	if r, b, err := ask("/long"); err != nil || r.ContentLength != -1 || json.Unmarshal(b, &got) != nil ||
		len(got) != 2 || got[0] != odd {
		t.Errorf("long: %v, %d of %d bytes", err, len(b), r.ContentLength)
	}
	if r, _, err := ask("/early"); err != nil || r.StatusCode != 500 {
		t.Errorf("a failure before the first byte: %d, %v", r.StatusCode, err)
	}
	if r, _, err := ask("/late"); err == nil || r.StatusCode != 200 {
		t.Errorf("a failure behind the first bytes: %d and an orderly end", r.StatusCode)
	}
}
