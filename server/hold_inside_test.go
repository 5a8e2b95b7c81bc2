package server

import (
	"log/slog"
	"runtime"
	"strconv"
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

// TestLongestDebt: however much a client asked for, and however many share the processors later, it owes nothing after
// the longest debt.
func TestLongestDebt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(Options{Config: config.Default().Server, Log: slog.New(slog.DiscardHandler)})
		s.WatchDemand(func() bool { return true })
		s.holds.reserve("a", time.Hour, time.Now())
		for i := range 100 {
			s.holds.reserve(strconv.Itoa(i), refusalCost, time.Now())
		}
		s.holds.reserve("a", refusalCost, time.Now())
		if owed := s.holds.owes("a", time.Now()); owed > longestDebt || owed < longestDebt*9/10 {
			t.Errorf("it owes %v", owed)
		}
		time.Sleep(longestDebt)
		if owed := s.holds.owes("a", time.Now()); owed != 0 {
			t.Errorf("after the longest debt it owes %v", owed)
		}
	})
}

// TestCost: a request counts as what its handler works, without its waits for the client.
func TestCost(t *testing.T) {
	const took = 9 * time.Millisecond
	const waits = 3 * time.Millisecond
	for name, c := range map[string]struct {
		computed bool
		err      error
		waited   time.Duration
		out      reply
		want     time.Duration
	}{
		"works":         {out: reply{status: 200}, want: took},
		"waits":         {waited: waits, out: reply{status: 200}, want: took - waits},
		"reads, writes": {waited: waits, out: reply{status: 200, waited: took}, want: quickCost},
		"streams":       {out: reply{status: 200, flushed: true}, want: quickCost},
		"computes":      {computed: true, out: reply{status: 200}},
		"socket":        {out: reply{status: 101}},
		"refused":       {waited: took, out: reply{status: 422}, want: refusalCost},
		"refused late":  {waited: waits, out: reply{status: 422}, want: took - waits},
		"fails late":    {computed: true, err: llm.ErrPlugin, out: reply{status: 200}, want: refusalCost},
		"full":          {computed: true, out: reply{status: 429}, want: quickCost},
		"damaged":       {out: reply{status: 500}},
	} {
		v := requestLog{computed: c.computed, err: c.err}
		v.wait(c.waited)
		if got := v.cost(&c.out, took); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
	synctest.Test(t, func(t *testing.T) { // one that took long is paid for by the next ones
		var h holds
		cores := time.Duration(runtime.GOMAXPROCS(0))
		for range 2 {
			want := cores * 58 * time.Millisecond
			want = (want - cores*8*time.Millisecond) / cores * time.Duration(time.Second/clientPart)
			if got := h.reserve("a", cores*58*time.Millisecond, time.Now()); got.Round(time.Millisecond) != want {
				t.Errorf("held %v, want %v", got, want)
			}
			time.Sleep(2 * time.Second)
		}
	})
}
