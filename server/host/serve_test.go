package host

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// TestServeKeepsNothing: a server that cannot be built leaves no address taken.
func TestServeKeepsNothing(t *testing.T) {
	l := sure(net.Listen("tcp", "127.0.0.1:0"))
	c := testConfig()
	c.Server.Hostname, c.Server.Port = "127.0.0.1", l.Addr().(*net.TCPAddr).Port
	c.Trace.OTLPEndpoint = "http://[::1"
	l.Close()
	err := Serve(t.Context(), Options{Config: c, Log: slog.New(slog.DiscardHandler)}, nil, nil)
	if err == nil || !strings.Contains(err.Error(), "traces: ") {
		t.Errorf("no URL was taken for a collector: %v", err)
	}
	l, err = net.Listen("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
}

// TestServeTellsOfItsEnd: what fails after the last request is in the log, and is no failure of the server.
func TestServeTellsOfItsEnd(t *testing.T) {
	defer func(usual time.Duration) { traceTimeout = usual }(traceTimeout)
	traceTimeout = 100 * time.Millisecond
	silent := make(chan struct{})
	collector := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-silent }))
	defer collector.Close()
	defer close(silent)
	c := testConfig()
	c.Server.Hostname, c.Server.Port = "127.0.0.1", 0
	c.Trace.OTLPEndpoint, c.Trace.SampleRatio = collector.URL, 1
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var log logBuffer
	err := Serve(ctx, Options{Config: c, Version: "dev", Log: slog.New(slog.NewTextHandler(&log, nil))}, nil,
		func(s *Server, a net.Addr) {
			defer stop()
			res, err := http.Post("http://"+a.String()+"/generate", "application/json",
				strings.NewReader(`{"inputs":"a","parameters":{"max_new_tokens":1}}`))
			if err != nil {
				t.Error(err)
				return
			}
			res.Body.Close()
		})
	if err != nil {
		t.Error(err)
	}
	if !strings.Contains(log.String(), "level=ERROR msg=\"stopping did not go to plan\"") {
		t.Errorf("the log: %s", log.String())
	}
}
