package chat

import (
	"context"
	"errors"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"
)

// TestChatInside: what a handler does reaches a client as over a connection.
func TestChatInside(t *testing.T) {
	for name, h := range map[string]http.HandlerFunc{
		"nothing": func(http.ResponseWriter, *http.Request) {},
		"status": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("X-A", "1")
			w.WriteHeader(http.StatusTeapot)
			w.Header().Set("X-B", "late")
			w.WriteHeader(http.StatusOK)
		},
		"echo": func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "text/plain")
			io.WriteString(w, r.Method+" "+r.URL.Path+" "+r.Header.Get("X-C")+" ")
			io.Copy(w, r.Body)
		},
		"flush": func(w http.ResponseWriter, _ *http.Request) {
			if err := http.NewResponseController(w).Flush(); err != nil {
				t.Error(err)
			}
			w.WriteHeader(http.StatusTeapot)
		},
		"cut": func(w http.ResponseWriter, _ *http.Request) {
			io.WriteString(w, "half")
			w.(http.Flusher).Flush()
			panic(http.ErrAbortHandler)
		},
		"cut soon": func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
	} {
		t.Run(name, func(t *testing.T) {
			ts := httptest.NewUnstartedServer(h)
			ts.Config.ErrorLog = log.New(io.Discard, "", 0) // it complains of two statuses
			ts.Start()
			defer ts.Close()
			want, wantErr := exchange(t, ts.Client().Transport, ts.URL)
			got, gotErr := exchange(t, Inside(h), "http://inside")
			for _, given := range []string{"Date", "Content-Length", "Content-Type"} { // which net/http adds
				if given != "Content-Type" || name != "echo" {
					want.header.Del(given)
				}
			}
			if !reflect.DeepEqual(got, want) || (gotErr == nil) != (wantErr == nil) {
				t.Errorf("got %+v, %v, want %+v, %v", got, gotErr, want, wantErr)
			}
		})
	}
}

type response struct {
	status int
	header http.Header
	body   string
}

func exchange(t *testing.T, transport http.RoundTripper, url string) (out response, err error) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url+"/path", strings.NewReader("body"))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("X-C", "c")
	resp, err := (&http.Client{Transport: transport}).Do(req)
	if err != nil {
		return out, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	return response{resp.StatusCode, resp.Header, string(text)}, err
}

// TestChatInsideStreams: pieces come while the handler writes, and leaving ends
// the handler, which is waited for.
func TestChatInsideStreams(t *testing.T) {
	read, ended := make(chan struct{}), false
	h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, "one")
		<-read
		io.WriteString(w, "two")
		<-r.Context().Done()
		if _, err := io.WriteString(w, "three"); err == nil {
			t.Error("written to nobody")
		}
		ended = true
	})
	resp, err := (&http.Client{Transport: Inside(h)}).Get("http://inside")
	if err != nil {
		t.Fatal(err)
	}
	b := make([]byte, 3)
	for _, want := range []string{"one", "two"} {
		if _, err := io.ReadFull(resp.Body, b); err != nil || string(b) != want {
			t.Fatalf("got %q, %v, want %q", b, err, want)
		}
		if want == "one" {
			close(read)
		}
	}
	resp.Body.Close()
	if !ended {
		t.Error("the handler still runs")
	}
}

// TestChatInsideEnds: a request that ends before the handler said anything has
// the cause of its end.
func TestChatInsideEnds(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	ended := false
	h := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		cancel(ErrInterrupted)
		<-r.Context().Done()
		ended = true
	})
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://inside", nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := Inside(h).RoundTrip(req)
	if !errors.Is(err, ErrInterrupted) || resp != nil || !ended {
		t.Errorf("got %v, %v, ended %v", resp, err, ended)
	}
}
