package generate

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestWorkersTakeTurns: clients that wait come one after the other, whoever came first and however many requests each
// has.
func TestWorkersTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &workers{free: 1}
		if err := w.enter(t.Context(), "first"); err != nil {
			t.Fatal(err)
		}
		var order []string
		for _, client := range strings.Fields("a a a a b c b") {
			go func() {
				if w.enter(t.Context(), client) == nil {
					order = append(order, client) // only one is in at a time
					w.leave()
				}
			}()
			synctest.Wait()
		}
		w.leave()
		synctest.Wait()
		if got := strings.Join(order, " "); got != "a b c a b a a" {
			t.Errorf("they came in the order %s", got)
		}
		if w.free != 1 || len(w.waiting) != 0 {
			t.Errorf("%d free, %d clients wait", w.free, len(w.waiting))
		}
	})
}

// TestWorkersGiveUp: a request that gave up takes no turn, and one whose turn came while it gave up passes it on.
func TestWorkersGiveUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &workers{free: 1}
		if err := w.enter(t.Context(), "a"); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		ended := make(chan error, 3)
		for _, client := range []string{"b", "b", "c"} {
			go func() { ended <- w.enter(ctx, client) }()
		}
		synctest.Wait()
		time.Sleep(time.Second)
		synctest.Wait()
		for range 3 {
			if err := <-ended; !errors.Is(err, context.DeadlineExceeded) {
				t.Error(err)
			}
		}
		if len(w.waiting) != 0 || w.free != 0 {
			t.Errorf("%d clients wait, %d free", len(w.waiting), w.free)
		}
		gone, leave := context.WithCancel(t.Context())
		for range 100 { // which of the two comes first is the scheduler's choice
			go func() {
				if w.enter(gone, "b") == nil {
					w.leave()
				}
			}()
		}
		synctest.Wait()
		go leave()
		w.leave()
		synctest.Wait()
		if w.free != 1 || slices.ContainsFunc(w.waiting, func(*clientQueue) bool { return true }) {
			t.Errorf("%d free, %d clients wait", w.free, len(w.waiting))
		}
	})
}
