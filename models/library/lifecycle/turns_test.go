package lifecycle

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"tgi/models/library"
)

// TestLoadsAreUsed: two models of which one fits, wanted by several at once, take turns, and none is evicted between
// its load and the use that it was loaded for.
func TestLoadsAreUsed(t *testing.T) {
	for seed := range 30 {
		synctest.Test(t, func(t *testing.T) { takeTurns(t, time.Duration(1+seed)*time.Millisecond) })
	}
}

// takeTurns lets clients, who come pause after one another, use two models.
func takeTurns(t *testing.T, pause time.Duration) {
	w := newWorld(t, Config{Budget: 10, Policy: Evict}, map[library.ID]int64{"a": 6, "b": 7})
	w.load = func(library.ID) time.Duration { return 10 * time.Millisecond }
	w.stop = w.load
	for _, id := range []library.ID{"a", "b"} {
		w.roster.Add(id, Options{Declared: true})
	}
	client := func(id library.ID) {
		for served := 0; served < 20; {
			_, release, _, err := w.roster.UseOrStart(t.Context(), id)
			switch {
			case err == nil:
				w.mu.Lock()
				w.changes = append(w.changes, fmt.Sprintf("%s used", id))
				w.mu.Unlock()
				release()
				served++
			case !errors.Is(err, ErrMemory):
				t.Error(err)
				return
			}
			time.Sleep(pause)
		}
	}
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() { client([]library.ID{"a", "b"}[i%2]) })
	}
	all.Wait()
	w.end()
	used := map[string]bool{}
	for _, c := range w.changes {
		switch id, what, _ := strings.Cut(c, " "); what {
		case "running":
			used[id] = false
		case "used":
			used[id] = true
		case "stopping":
			if !used[id] {
				t.Fatalf("%s was evicted before it was used", id)
			}
		}
	}
}
