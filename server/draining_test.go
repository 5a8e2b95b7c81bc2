package server_test

import (
	"fmt"
	"io"
	"net/http"
	"testing"

	"tgi/server"
)

// TestWhileDraining: a route that says so is served while the server waits for its last request, and not waited for.
func TestWhileDraining(t *testing.T) {
	entered, finish := make(chan struct{}), make(chan struct{})
	var s *server.Server
	s = newServer(nil, func(o *server.Options) {
		o.APIs = []server.API{list{
			{Method: http.MethodGet, Path: "/wait", Handle: func(http.ResponseWriter, *http.Request) error {
				close(entered)
				<-finish
				return nil
			}},
			{Method: http.MethodGet, Path: "/watch", WhileDraining: true,
				Handle: func(w http.ResponseWriter, _ *http.Request) error {
					running, draining := s.Load()
					_, err := fmt.Fprint(w, running, " ", draining)
					return err
				}},
		}}
	})
	url, stop, done := live(t, s)
	get := func(path string) string {
		r, err := http.Get(url + path)
		if err != nil {
			return err.Error()
		}
		defer r.Body.Close()
		body, _ := io.ReadAll(r.Body)
		return fmt.Sprint(r.StatusCode, " ", string(body))
	}
	if got := get("/watch"); got != "200 0 false" {
		t.Errorf("idle: %s", got)
	}
	over := make(chan string)
	go func() { over <- get("/wait") }()
	<-entered
	stop()
	for get("/health") == "200 " { // until the gate is closed
	}
	if got := get("/watch"); got != "200 1 true" {
		t.Errorf("draining: %s", got)
	}
	close(finish)
	if got := <-over; got != "200 " {
		t.Errorf("the last request: %s", got)
	}
	if err := <-done; err != nil {
		t.Errorf("Serve returned %v", err)
	}
}
