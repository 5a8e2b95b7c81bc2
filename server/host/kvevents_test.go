package host

import (
	"net"
	"net/http"
	"regexp"
	"testing"
	"time"

	"tgi/server/config"
)

// TestKVEventsMetrics: the metrics count what readers of events are told, and whom the server sends away.
func TestKVEventsMetrics(t *testing.T) {
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := free.Addr().String()
	if err := free.Close(); err != nil {
		t.Fatal(err)
	}
	p := openPlugged(t, func(c *config.Config) { c.KVEvents.Endpoint = "tcp://" + address })
	stranger, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer stranger.Close()
	if _, err := stranger.Write(make([]byte, 64)); err != nil {
		t.Fatal(err)
	}
	body := `{"inputs":"Once upon a time there was a mill that stood beside a river, and in it lived a miller."}`
	if status, text := p.call(t, http.MethodPost, "/generate", []byte(body)); status != http.StatusOK {
		t.Fatalf("%d %s", status, text)
	}
	// The events leave after the reply, and the stranger is sent away beside it.
	for end := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		_, text := p.call(t, http.MethodGet, "/metrics", nil)
		missing := ""
		for _, want := range []string{`subscribers 0`, `queued_bytes 0`, `batches_total [1-9]`, `skipped_total 0`,
			`replays_total 0`, `refused_total\{reason="broken"\} 1`, `refused_total\{reason="full"\} 0`} {
			if !regexp.MustCompile(`(?m)^tgi_kv_events_` + want).MatchString(text) {
				missing = want
			}
		}
		if missing == "" {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("/metrics never has %s", missing)
		}
	}
}
