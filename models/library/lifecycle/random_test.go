package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"tgi/models/library"
)

// TestRandomInterleavings lets many callers do what they like at random
// moments of a virtual clock. The world and the observer hold that no
// transition is outside the table, no model is loaded twice, nothing deleted
// that is in memory and the budget never exceeded; at the end nothing is left.
func TestRandomInterleavings(t *testing.T) {
	for _, policy := range []Policy{Refuse, Evict} {
		done := map[string]int{}
		for seed := range uint64(15) {
			t.Run(fmt.Sprint(policy, seed), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { interleave(t, policy, seed, done) })
			})
		}
		for _, what := range []string{"start", "stop", "pull", "delete", "use", "useOrStart"} {
			if done[what] < 20 {
				t.Errorf("%s: %s succeeded %d times only: the test does not try it", policy, what, done[what])
			}
		}
	}
}

// interleave adds to done what succeeded.
func interleave(t *testing.T, policy Policy, seed uint64, done map[string]int) {
	needs := map[library.ID]int64{"a": 4, "b": 3, "c": 6, "d": 1, "e": 10}
	ids := []library.ID{"a", "b", "c", "d", "e"}
	w := newWorld(t, Config{Budget: 10, Policy: policy, Drain: 3 * time.Second, Pulls: 2}, needs)
	var mu sync.Mutex
	rng := rand.New(rand.NewPCG(seed, 1))
	n := func(max int) int {
		mu.Lock()
		defer mu.Unlock()
		return rng.IntN(max)
	}
	some := func(library.ID) time.Duration { return time.Duration(n(2000)) * time.Millisecond }
	w.load, w.stop = some, some
	w.pause = func() time.Duration { return time.Duration(n(400)) * time.Millisecond }
	boom := errors.New("boom")
	w.loadErr = func(library.ID) error {
		if n(8) == 0 {
			return boom
		}
		return nil
	}
	for i, id := range ids {
		w.roster.Add(id, Options{KeepAlive: time.Duration(i) * time.Second, Declared: i%2 == 0})
	}
	c := &caller{w: w, n: n, done: done}
	var wg sync.WaitGroup
	for range 12 {
		wg.Go(func() {
			for range 60 {
				c.step(ids[n(len(ids))])
				time.Sleep(time.Duration(n(500)) * time.Millisecond)
				if err := w.roster.Check(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	w.end()
}

// caller does one random thing.
type caller struct {
	w    *world
	n    func(int) int
	mu   sync.Mutex
	done map[string]int
}

func (c *caller) step(id library.ID) {
	r := c.w.roster
	what, err := "", error(nil)
	switch c.n(9) {
	case 0, 1:
		what = "start"
		_, err = r.Start(id)
	case 2:
		what = "stop"
		_, err = r.Stop(id)
	case 3:
		what = "pull"
		err = c.pull(id)
	case 4:
		what = "delete"
		err = r.Delete(id)
	case 5:
		what = "use"
		err = c.use(r.Use(id))
	case 6:
		what = "useOrStart"
		ctx, cancel := context.WithTimeout(context.Background(), time.Duration(c.n(4000))*time.Millisecond)
		err = c.use(r.UseOrStart(ctx, id))
		cancel()
	case 7:
		_, err = r.CancelPull(id)
	case 8:
		c.w.mu.Lock()
		var found []library.ID
		for id := range c.w.present {
			found = append(found, id)
		}
		c.w.mu.Unlock()
		r.Sync(found)
	}
	for _, known := range []error{ErrUnknown, ErrState, ErrNotRunning, ErrMemory, ErrBusy, ErrStopped,
		library.ErrNotFound, context.DeadlineExceeded} {
		if errors.Is(err, known) {
			return
		}
	}
	if err != nil && what != "useOrStart" { // a load may fail
		c.w.t.Errorf("%s %s: %v", what, id, err)
	}
	if err == nil {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.done[what]++
	}
}

func (c *caller) pull(id library.ID) error {
	took := time.Duration(c.n(2000)) * time.Millisecond
	_, err := c.w.roster.Pull(id, func(ctx context.Context, report func(int64, int64)) error {
		select {
		case <-time.After(took):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		report(1, 1)
		c.w.mu.Lock()
		defer c.w.mu.Unlock()
		c.w.present[id] = true
		return nil
	})
	return err
}

// use holds a model for a while and sees that it is not stopped meanwhile, other than by
// the end of the drain.
func (c *caller) use(in Instance, release func(), _ Status, err error) error {
	if err != nil {
		return err
	}
	defer release()
	begin := time.Now()
	time.Sleep(time.Duration(c.n(4000)) * time.Millisecond)
	c.w.mu.Lock()
	defer c.w.mu.Unlock()
	if i := in.(*instance); i.stopping && !i.cut {
		c.w.t.Errorf("%s was stopped while it was used, after %s", i.id, time.Since(begin))
	}
	return nil
}
