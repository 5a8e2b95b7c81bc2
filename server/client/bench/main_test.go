package bench

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
)

// listen starts a server on a socket, with the fake's tokenizer and a handler
// for the n-th request (from 0) to /generate_stream.
func listen(t *testing.T, generate func(w http.ResponseWriter, n int)) *httptest.Server {
	var n atomic.Int32
	mux := http.NewServeMux()
	mux.HandleFunc("POST /tokenize", func(w http.ResponseWriter, r *http.Request) {
		resp, err := (&fake{most: 99}).RoundTrip(r)
		if err != nil {
			t.Error(err)
			return
		}
		io.Copy(w, resp.Body)
	})
	mux.HandleFunc("POST /generate_stream", func(w http.ResponseWriter, r *http.Request) {
		if got := r.Header.Get("Authorization"); got != "Bearer s3cret" {
			t.Errorf("Authorization %q", got)
		}
		io.Copy(io.Discard, r.Body)
		generate(w, int(n.Add(1))-1)
	})
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	return server
}

// TestMainOverSockets has all that can happen to a request happen.
func TestMainOverSockets(t *testing.T) {
	var elsewhere atomic.Int32
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { elsewhere.Add(1) }))
	defer other.Close()
	server := listen(t, func(w http.ResponseWriter, n int) {
		switch n % 6 {
		case 0:
			w.WriteHeader(http.StatusTooManyRequests)
		case 1:
			http.Error(w, "down", http.StatusServiceUnavailable)
		case 2: // the server goes away in the middle
			fmt.Fprintf(w, "data: %s\n\n", token(0))
			w.(http.Flusher).Flush()
			panic(http.ErrAbortHandler)
		case 3:
			w.Header().Set("Location", other.URL)
			w.WriteHeader(http.StatusTemporaryRedirect)
		default:
			fmt.Fprintf(w, "data: %s\n\n:\n\ndata: %s\n\n", token(0), final(2, 5))
		}
	})
	var stdout, stderr strings.Builder
	args := []string{"--url", server.URL + "/", "--key=s3cret", "--requests", "24", "-concurrency", "1, 3", "--warmup", "0", "--json", "--prompt-tokens", "16"}
	if code := Main(args, &stdout, &stderr); code != exitOK {
		t.Fatalf("exit code %d: %s", code, stderr.String())
	}
	var r Report
	if err := json.Unmarshal([]byte(stdout.String()), &r); err != nil {
		t.Fatalf("%v in %s", err, stdout.String())
	}
	if len(r.Runs) != 2 {
		t.Fatalf("%d runs, want 2", len(r.Runs))
	}
	for _, m := range r.Runs {
		if m.Requests != 24 || m.Completed != 8 || m.Rejected != 4 || m.Errors["503"] != 4 || m.Errors["307"] != 4 || m.Errors[failConnection] != 4 {
			t.Errorf("counts %+v", m)
		}
		if m.OutputTokens != 16 || m.FirstToken.Count != 8 || m.InterToken.Count != 8 {
			t.Errorf("tokens %+v", m)
		}
	}
	if n := elsewhere.Load(); n > 0 {
		t.Errorf("%d requests went to another server", n)
	}
	if !strings.Contains(stderr.String(), "24 requests over 3 streams") {
		t.Errorf("progress %q", stderr.String())
	}
}

func TestMainTable(t *testing.T) {
	server := listen(t, func(w http.ResponseWriter, _ int) { fmt.Fprintf(w, "data: %s\n\n", final(1, 5)) })
	for _, c := range []struct{ flag, says string }{
		{"--concurrency=2", "2 streams     3    0       0"},
		{"--rate=1000", "1000/s     3    0       0"},
		{"--repeat", "repeated"},
	} {
		var stdout, stderr strings.Builder
		if code := Main([]string{"--url", server.URL, "--key", "s3cret", "--requests", "3", c.flag}, &stdout, &stderr); code != exitOK {
			t.Errorf("%s: exit code %d: %s", c.flag, code, stderr.String())
		}
		if !strings.Contains(stdout.String(), c.says) {
			t.Errorf("%s: %q is not in\n%s", c.flag, c.says, stdout.String())
		}
	}
}

func TestMainFails(t *testing.T) {
	none := httptest.NewServer(http.NotFoundHandler())
	defer none.Close()
	full := listen(t, func(w http.ResponseWriter, _ int) { w.WriteHeader(http.StatusTooManyRequests) })
	for _, c := range []struct {
		name string
		args []string
		code int
		says string
	}{
		{"unknown flag", []string{"--concurency", "4"}, exitUsage, "unknown flag --concurency; did you mean --concurrency?"},
		{"unknown flag after others", []string{"--json", "--rate", "-1", "--promt-tokens=4"}, exitUsage, "did you mean --prompt-tokens?"},
		{"no number", []string{"--concurrency", "1,x"}, exitUsage, `"x" is no number`},
		{"no value", []string{"--rate"}, exitUsage, "rate"},
		{"argument", []string{"--json", "http://x"}, exitUsage, `unexpected argument "http://x"`},
		{"bad url", []string{"--url", "ftp://x"}, exitUsage, "url must be"},
		{"no such route", []string{"--url", none.URL}, exitFailed, "POST /tokenize: status 404"},
		{"no server", []string{"--url", "http://127.0.0.1:1"}, exitFailed, "making prompts"},
		{"all refused", []string{"--url", full.URL, "--key", "s3cret", "--requests", "3"}, exitFailed, ""},
		{"help", []string{"--help"}, exitOK, "--repeat --prompt-tokens 1024"},
		{"help after others", []string{"--json", "-h"}, exitOK, "-concurrency list"},
	} {
		var stdout, stderr strings.Builder
		if code := Main(c.args, &stdout, &stderr); code != c.code || !strings.Contains(stderr.String(), c.says) {
			t.Errorf("%s: exit code %d and %q, want %d and %q", c.name, code, stderr.String(), c.code, c.says)
		}
	}
}
