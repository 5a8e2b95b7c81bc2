package server

import (
	"bytes"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"tgi/server/config"
)

// replies is an API of one route.
type replies func(w http.ResponseWriter)

func (f replies) Routes() []Route {
	return []Route{{Method: http.MethodGet, Path: "/reply", Scope: Models,
		Handle: func(w http.ResponseWriter, _ *http.Request) error {
			f(w)
			return nil
		}}}
}

// TestLastByte: no client has all of a reply before the handler has returned and what it held is free.
func TestLastByte(t *testing.T) {
	for _, secure := range []bool{false, true} { // HTTP/1.1 and HTTP/2
		for _, size := range []int{100, 5000, 1 << 16} {
			release := make(chan struct{})
			api := replies(func(w http.ResponseWriter) {
				WriteJSON(w, bytes.Repeat([]byte("x"), size))
				<-release
			})
			h := New(Options{Config: config.Default().Server, Log: slog.New(slog.DiscardHandler), APIs: []API{api}})
			ts := httptest.NewUnstartedServer(h)
			if ts.EnableHTTP2 = secure; secure {
				ts.StartTLS()
			} else {
				ts.Start()
			}
			read := make(chan int, 1)
			go func() {
				r, err := ts.Client().Get(ts.URL + "/reply")
				if err != nil {
					t.Error(err)
					return
				}
				defer r.Body.Close()
				all, _ := io.ReadAll(r.Body)
				read <- len(all)
			}()
			select {
			case n := <-read:
				read <- n
				t.Errorf("%d bytes, HTTP/2 %v: the client has all %d before the handler returned", size, secure, n)
			case <-time.After(300 * time.Millisecond):
			}
			close(release)
			if n := <-read; n != size {
				t.Errorf("%d bytes, HTTP/2 %v: got %d", size, secure, n)
			}
			ts.Close()
		}
	}
}
