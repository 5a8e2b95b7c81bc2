package bench

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
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

// TestOverSockets has all that can happen to a request happen.
func TestOverSockets(t *testing.T) {
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
	var told []string
	r, err := Run(t.Context(), Options{
		URL: server.URL + "/", Key: "s3cret", Requests: 24, Concurrency: []int{1, 3}, PromptTokens: 16,
		Progress: func(s string) { told = append(told, s) },
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Runs) != 2 {
		t.Fatalf("%d runs, want 2", len(r.Runs))
	}
	for _, m := range r.Runs {
		if m.Requests != 24 || m.Completed != 8 || m.Rejected != 4 || m.Errors["503"] != 4 || m.Errors["307"] != 4 ||
			m.Errors[failConnection] != 4 {
			t.Errorf("counts %+v", m)
		}
		if m.OutputTokens != 16 || m.FirstToken.Count != 8 || m.InterToken.Count != 8 {
			t.Errorf("tokens %+v", m)
		}
	}
	if n := elsewhere.Load(); n > 0 {
		t.Errorf("%d requests went to another server", n)
	}
	if !slices.ContainsFunc(told, func(s string) bool { return strings.Contains(s, "24 requests over 3 streams") }) {
		t.Errorf("progress %q", told)
	}
}
