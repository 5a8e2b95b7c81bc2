package engine

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// TestPoolIsFair: a guest with many jobs leaves another its half.
func TestPoolIsFair(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newGuestPool(2)
		var mu sync.Mutex
		var order []string
		job := func(guest string, d time.Duration) {
			p.submit([]string{guest}, func() {
				time.Sleep(d)
				mu.Lock()
				order = append(order, guest)
				mu.Unlock()
			})
		}
		for range 100 {
			job("many", time.Millisecond)
		}
		time.Sleep(10500 * time.Microsecond) // 20 are done, 2 run
		for range 10 {
			job("few", time.Millisecond)
		}
		p.wait()
		last := 0
		for i, g := range order {
			if g == "few" {
				last = i
			}
		}
		if len(order) != 110 || last > 45 {
			t.Errorf("of %d jobs the last of the few was number %d, want it among the first 45", len(order), last)
		}
	})
}

// TestPoolSharesByTime: who needs ten times as long for a job gets a tenth of the jobs.
func TestPoolSharesByTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newGuestPool(2)
		var long, short atomic.Int64
		for range 100 {
			p.submit([]string{"long"}, func() { time.Sleep(time.Millisecond); long.Add(1) })
			p.submit([]string{"short"}, func() { time.Sleep(time.Millisecond / 10); short.Add(1) })
		}
		time.Sleep(10 * time.Millisecond)
		if l, s := long.Load(), short.Load(); l > 14 || s < 80 {
			t.Errorf("%d long and %d short jobs in 2 x 10 ms", l, s)
		}
		p.wait()
	})
}

// TestPoolSurvivesPauses: jobs that hang are late, and others begin; of the guest whose
// jobs hang no more begin than there are workers.
func TestPoolSurvivesPauses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newGuestPool(2)
		leave := make(chan struct{})
		var hung, done atomic.Int64
		for range 10 {
			p.submit([]string{"stuck"}, func() { hung.Add(1); <-leave })
		}
		for range 10 {
			p.submit([]string{"other"}, func() { done.Add(1) })
		}
		time.Sleep(lateAfter)
		synctest.Wait()
		if hung.Load() != 2 || done.Load() != 10 {
			t.Errorf("%d hang, %d of 10 others are done; want 2 and all", hung.Load(), done.Load())
		}
		p.submit([]string{"other", "stuck"}, func() { done.Add(1) }) // in the name of both
		synctest.Wait()
		if done.Load() != 10 {
			t.Error("a job began beside as many of its guest's as there are workers")
		}
		close(leave)
		p.wait()
		if hung.Load() != 10 || done.Load() != 11 {
			t.Errorf("%d and %d jobs ran", hung.Load(), done.Load())
		}
	})
}

// TestPoolAtRandom: every job runs once, no more than the workers at a time but for the
// late ones, and the accounting is empty at the end.
func TestPoolAtRandom(t *testing.T) {
	for seed := range uint64(30) {
		synctest.Test(t, func(t *testing.T) {
			rnd := rand.New(rand.NewPCG(seed, 7))
			p := newGuestPool(1 + rnd.IntN(3))
			ran := make([]atomic.Int64, 200)
			var quick atomic.Int64
			for i := range ran {
				guests := []string{fmt.Sprint(rnd.IntN(4)), fmt.Sprint(4 + rnd.IntN(3))}[:1+rnd.IntN(2)]
				d := time.Duration(rnd.IntN(1500)) * time.Microsecond
				if rnd.IntN(10) == 0 {
					d = time.Duration(rnd.IntN(200)) * time.Millisecond
				}
				p.submit(guests, func() {
					ran[i].Add(1)
					if d >= lateAfter {
						time.Sleep(d)
						return
					}
					if n := quick.Add(1); n > int64(p.workers) {
						t.Errorf("seed %d: %d quick jobs at once on %d workers", seed, n, p.workers)
					}
					time.Sleep(d)
					quick.Add(-1)
				})
				if rnd.IntN(4) == 0 {
					time.Sleep(time.Duration(rnd.IntN(3)) * time.Millisecond)
				}
			}
			p.wait()
			for i := range ran {
				if n := ran[i].Load(); n != 1 {
					t.Errorf("seed %d: job %d ran %d times", seed, i, n)
				}
			}
			if p.busy != 0 || len(p.queue)+len(p.running)+len(p.shares) != 0 {
				t.Errorf("seed %d: left are %d busy, %d waiting, %d running, %d shares", seed, p.busy, len(p.queue),
					len(p.running), len(p.shares))
			}
		})
	}
}

// TestPoolPostponesItsTimer: jobs that are done soon start no timer while somebody is going to look after them; those
// that are not are late once somebody does; and no timer is left behind.
func TestPoolPostponesItsTimer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newGuestPool(2)
		leave := make(chan struct{})
		var hung, done atomic.Int64
		p.postpone()
		for range 10 {
			p.submit([]string{"quick"}, func() { done.Add(1) })
		}
		synctest.Wait()
		p.watch()
		if done.Load() != 10 || p.timer != nil {
			t.Errorf("%d of 10 are done, timer %v", done.Load(), p.timer)
		}
		p.postpone()
		for range 2 {
			p.submit([]string{"stuck"}, func() { hung.Add(1); <-leave })
		}
		p.submit([]string{"quick"}, func() { done.Add(1) })
		time.Sleep(2 * lateAfter)
		if hung.Load() != 2 || done.Load() != 10 {
			t.Errorf("%d hang, %d others are done beside them", hung.Load(), done.Load()-10)
		}
		p.watch()
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		if done.Load() != 11 {
			t.Error("those that hang hold up others")
		}
		for range 2 {
			p.submit([]string{"other"}, func() { <-leave })
		}
		p.submit([]string{"quick"}, func() { done.Add(1) })
		synctest.Wait()
		if armed := p.armed; !armed {
			t.Error("nobody looks after those that hang")
		}
		close(leave)
		p.wait()
		if done.Load() != 12 || p.armed {
			t.Errorf("%d of 12 are done, the timer runs: %v", done.Load(), p.armed)
		}
	})
}
