package server

import (
	"log/slog"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"tgi/runtime/llm"
	"tgi/server/config"
)

// TestHeld: what is held is sent when the server closes, and clients that ask nothing are forgotten.
func TestHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(Options{Config: config.Default().Server, Log: slog.New(slog.DiscardHandler)})
		s.WatchDemand(func() bool { return true })
		for range 10_000 { // more than there may be in the time that a reply is held
			if s.holds.reserve("a", refusalCost, time.Now()) == longestHold {
				break
			}
		}
		for _, client := range []string{"b", "c", "d"} {
			s.hold(client, refusalCost)
		}
		if n := len(s.holds.clients); n != 4 {
			t.Errorf("%d clients are known", n)
		}
		time.Sleep(2 * longestHold)
		s.hold("e", refusalCost)
		if n := len(s.holds.clients); n != 1 {
			t.Errorf("%d clients are known after a rest", n)
		}
		for range 10_000 {
			s.holds.reserve("a", refusalCost, time.Now())
		}
		began, sent := time.Now(), make(chan bool)
		go func() {
			s.hold("a", refusalCost)
			close(sent)
		}()
		synctest.Wait()
		s.gate.close()
		if <-sent; time.Since(began) != 0 {
			t.Errorf("it was held for %v", time.Since(began))
		}
	})
}

// TestCost: a request counts as what its handler works, without its waits for the client.
func TestCost(t *testing.T) {
	const took = 9 * time.Millisecond
	for name, c := range map[string]struct {
		v    requestLog
		out  reply
		want time.Duration
	}{
		"works":         {requestLog{}, reply{status: 200}, took},
		"reads":         {requestLog{waited: 3 * time.Millisecond}, reply{status: 200}, 6 * time.Millisecond},
		"reads, writes": {requestLog{waited: 3 * time.Millisecond}, reply{status: 200, waited: took}, quickCost},
		"streams":       {requestLog{}, reply{status: 200, flushed: true}, quickCost},
		"computes":      {requestLog{computed: true}, reply{status: 200}, 0},
		"socket":        {requestLog{}, reply{status: 101}, 0},
		"refused":       {requestLog{waited: took}, reply{status: 422}, refusalCost},
		"refused late":  {requestLog{waited: 3 * time.Millisecond}, reply{status: 422}, 6 * time.Millisecond},
		"fails late":    {requestLog{computed: true, err: llm.ErrPlugin}, reply{status: 200}, refusalCost},
		"full":          {requestLog{computed: true}, reply{status: 429}, quickCost},
		"damaged":       {requestLog{}, reply{status: 500}, 0},
	} {
		if got := c.v.cost(&c.out, took); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
	synctest.Test(t, func(t *testing.T) { // one that took long is paid for by the next ones
		var h holds
		cores := time.Duration(runtime.GOMAXPROCS(0))
		for range 2 {
			want := cores * 58 * time.Millisecond
			want = (want - cores*restPart) / cores * time.Duration(time.Second/clientPart)
			if got := h.reserve("a", cores*58*time.Millisecond, time.Now()); got.Round(time.Millisecond) != want {
				t.Errorf("held %v, want %v", got, want)
			}
			time.Sleep(2 * time.Second)
		}
	})
}
