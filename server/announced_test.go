package server

import (
	"bufio"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"tgi/server/config"
)

// TestAnnouncedLength: a body that says that it is too long is refused before it is there.
func TestAnnouncedLength(t *testing.T) {
	s := New(Options{Config: config.Default().Server, Log: slog.New(slog.DiscardHandler), APIs: []API{routesOf(Route{
		Method: http.MethodPost, Path: "/x", Handle: func(w http.ResponseWriter, r *http.Request) error {
			_, err := ReadAnyBody(r)
			return err
		}})}})
	ts := httptest.NewServer(s)
	defer ts.Close()
	c, err := net.Dial("tcp", ts.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(20 * time.Second)); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Write([]byte("POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 99999999999\r\n\r\n{")); err != nil {
		t.Fatal(err)
	}
	reply, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil || reply.StatusCode != http.StatusRequestEntityTooLarge {
		t.Fatalf("%v, error %v", reply, err)
	}
	_ = reply.Body.Close()
}

// routesOf is an API.
type routesOf Route

// Routes implements API.
func (r routesOf) Routes() []Route { return []Route{Route(r)} }
