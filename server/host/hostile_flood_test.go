package host

import (
	"bytes"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
)

// heard notes whether a text was written.
type heard struct {
	text []byte
	was  atomic.Bool
}

func (l *heard) Write(b []byte) (int, error) {
	if bytes.Contains(b, l.text) {
		l.was.Store(true)
	}
	return len(b), nil
}

// TestFloodOfFaults: a plugin that fails at once lets its client fail as often as it can ask. While others generate,
// its replies are held back, and nobody else's are.
func TestFloodOfFaults(t *testing.T) {
	held := &heard{text: []byte("replies are held back")}
	p := openPluggedLogged(t, slog.New(slog.NewTextHandler(held, nil)))
	p.upload(t, "huge", offences()["4 GiB of error text"].m.wasm())
	nb := p.watchNeighbours(t, 2)
	var all sync.WaitGroup
	var left atomic.Int64
	left.Store(4000) // a slow machine needs more to be too fast
	for range 8 {
		all.Go(func() {
			for !held.was.Load() && left.Add(-1) >= 0 {
				status, text := p.generate(t, 20, "huge", `{"harm":1}`)
				// its breaker opens, too
				if status != http.StatusFailedDependency && status != http.StatusServiceUnavailable {
					t.Errorf("%d %s", status, text)
				}
			}
		})
	}
	all.Wait()
	if left.Load() < 0 {
		t.Error("no reply was held back")
	}
	if _, _, ends := nb.end(); ends == 0 {
		t.Error("no neighbour came to its end")
	}
	p.quiet(t)
}
