package server

import (
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"tgi/server/config"
)

// TestHeldRefusals: what is held is sent when the server closes, and clients without refusals are forgotten.
func TestHeldRefusals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(Options{Config: config.Default().Server, Log: slog.New(slog.DiscardHandler)})
		s.WatchDemand(func() bool { return true })
		for range 10_000 { // more than there may be in the time that a reply is held
			if s.refusals.reserve("a", time.Now()) == longestHold {
				break
			}
		}
		for _, client := range []string{"b", "c", "d"} {
			s.hold(client)
		}
		if n := len(s.refusals.clients); n != 4 {
			t.Errorf("%d clients are known", n)
		}
		time.Sleep(2 * longestHold)
		s.hold("e")
		if n := len(s.refusals.clients); n != 1 {
			t.Errorf("%d clients are known after a rest", n)
		}
		for range 10_000 {
			s.refusals.reserve("a", time.Now())
		}
		began, sent := time.Now(), make(chan bool)
		go func() {
			s.hold("a")
			close(sent)
		}()
		synctest.Wait()
		s.gate.close()
		if <-sent; time.Since(began) != 0 {
			t.Errorf("it was held for %v", time.Since(began))
		}
	})
}
