package server_test

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"tgi/server"
	"tgi/server/config"
)

// TestDrainDelay: probes fail before requests are refused. Those that come meanwhile are served, on connections that
// end behind them, and those that come later are told when to ask again.
func TestDrainDelay(t *testing.T) {
	const delay = 2 * time.Second
	s := newServer(routes{"/echo": echo}, func(o *server.Options) { o.Config.DrainDelay = config.Duration(delay) })
	url, stop, done := live(t, s)
	post := func() (int, bool, string, error) {
		r, err := http.Post(url+"/echo", "application/json", strings.NewReader("1"))
		if err != nil {
			return 0, false, "", err
		}
		defer r.Body.Close()
		body, _ := io.ReadAll(r.Body)
		return r.StatusCode, r.Close, string(body), nil
	}
	if status, ends, _, err := post(); status != 200 || ends || err != nil {
		t.Fatalf("before: %d, close %v, %v", status, ends, err)
	}
	began := time.Now()
	stop()
	for ready := true; ready; {
		r, err := http.Get(url + "/health")
		if err != nil {
			t.Fatal(err)
		}
		r.Body.Close()
		ready = r.StatusCode != 503
	}
	status, ends, body, err := post()
	if time.Since(began) < delay && (err != nil || status != 200 || !ends || body != "1") {
		t.Errorf("while probes fail: %d, close %v, %s, %v", status, ends, body, err)
	}
	if err := <-done; err != nil {
		t.Errorf("Serve returned %v", err)
	}
	if took := time.Since(began); took < delay {
		t.Errorf("it ended after %s, before the delay of %s", took, delay)
	}
}
