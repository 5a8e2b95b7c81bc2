package plugins

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"tgi/runtime/llm"
)

// runTurn compiles for so long, asking every millisecond, and gives how long it took with all waiting.
func runTurn(s *Turns, ctx context.Context, client string, work time.Duration) (time.Duration, error) {
	start := time.Now()
	t, err := s.register(ctx, client)
	if err != nil {
		return 0, err
	}
	defer t.end()
	if !t.take(ctx) {
		return 0, context.Cause(ctx)
	}
	for range work / time.Millisecond {
		time.Sleep(time.Millisecond)
		if _, on := t.yield(ctx); !on {
			return 0, context.Cause(ctx)
		}
	}
	return time.Since(start), nil
}

// TestTurns: a short compilation beside long ones waits for about one slice of each that came at the same time, whoever
// sends them; the long ones share what is left by client.
func TestTurns(t *testing.T) {
	for name, client := range map[string]func(int) string{
		"one client":  func(int) string { return "same" },
		"six clients": func(i int) string { return fmt.Sprint(i) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := NewTurns()
				s.free = 2
				var all sync.WaitGroup
				for i := range 6 {
					all.Go(func() {
						for range 3 {
							if _, err := runTurn(s, t.Context(), client(i), 1500*time.Millisecond); err != nil {
								t.Error(err)
							}
						}
					})
				}
				for range 50 {
					time.Sleep(70 * time.Millisecond)
					if took, err := runTurn(s, t.Context(), "same", 5*time.Millisecond); err != nil ||
						took > 4*turnSlice {
						t.Errorf("a short compilation took %v, %v", took, err)
					}
				}
				all.Wait()
				if s.free != 2 || len(s.queue)+len(s.clients) != 0 {
					t.Errorf("left: %d processors, %d in the queue, %d clients", s.free, len(s.queue), len(s.clients))
				}
			})
		})
	}
}

// TestTurnsOfClients: however many compilations a client has, another's gets the same share.
func TestTurnsOfClients(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewTurns()
		s.free = 1
		var crowd sync.WaitGroup
		for range 3 * clientTurns {
			crowd.Go(func() { _, _ = runTurn(s, t.Context(), "crowd", time.Second) })
		}
		synctest.Wait()
		if c := s.clients["crowd"]; c.tickets != 3*clientTurns || c.slots != clientTurns {
			t.Errorf("%d, of them %d under way", c.tickets, c.slots)
		}
		took, err := runTurn(s, t.Context(), "other", time.Second)
		if err != nil || took > 2*time.Second+4*turnSlice {
			t.Errorf("took %v, %v", took, err)
		}
		crowd.Wait()
	})
}

// TestTurnsShort: short calls that keep coming, of the same client or another, leave a long one its share.
func TestTurnsShort(t *testing.T) {
	const short, long = 20 * time.Millisecond, 300 * time.Millisecond
	for _, processors := range []int{1, 7} {
		for _, loops := range []int{2, 8, 16} {
			for name, client := range map[string]func(i int) string{
				"one client":     func(int) string { return "long" },
				"two clients":    func(int) string { return "short" },
				"ever new ones":  func(i int) string { return fmt.Sprint(i) },
				"two that leave": func(i int) string { return fmt.Sprint(i % 2) },
			} {
				t.Run(fmt.Sprint(name, processors, loops), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						s := NewTurns()
						s.free = processors
						c, cancel := context.WithCancel(t.Context())
						var all sync.WaitGroup
						var calls atomic.Int64
						for range loops {
							all.Go(func() {
								for c.Err() == nil {
									_, _ = runTurn(s, c, client(int(calls.Add(1))), short)
								}
							})
						}
						time.Sleep(5 * time.Second)
						limited, end := context.WithTimeout(t.Context(), 10*time.Second)
						defer end()
						took, err := runTurn(s, limited, "long", long)
						// its share of the processors, and a slice of each of the others
						if most := long*time.Duration(loops+1)/time.Duration(processors) + long +
							time.Duration(loops)*turnSlice; err != nil || took > most {
							t.Errorf("a long call took %v, the bound is %v: %v", took, most, err)
						}
						cancel()
						all.Wait()
						if s.free != processors || len(s.queue)+len(s.clients)+s.clock.active != 0 || s.clock.now != 0 {
							t.Errorf("left: %+v", s)
						}
					})
				})
			}
		}
	}
}

// TestTurnsIdle: who runs while nobody wants the processors owes nothing to those who come later, and who took less
// than its share without waiting has no more coming than others.
func TestTurnsIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewTurns()
		s.free = 7
		var all sync.WaitGroup
		calls := func(client string, n int, work time.Duration) {
			for range n {
				all.Go(func() { _, _ = runTurn(s, t.Context(), client, work) })
			}
		}
		calls("modest", 1, 100*time.Second)
		calls("greedy", clientTurns, 20*time.Second)
		time.Sleep(30 * time.Second)
		calls("modest", clientTurns-1, 10*time.Second)
		calls("new", clientTurns, 10*time.Second)
		before := map[string]time.Duration{}
		s.mu.Lock()
		for name, c := range s.clients {
			before[name] = c.spent
		}
		s.mu.Unlock()
		time.Sleep(10 * time.Second)
		s.mu.Lock()
		for name, c := range s.clients {
			if got := c.spent - max(before[name], before["greedy"]); got < 20*time.Second || got > 26*time.Second {
				t.Errorf("%s got %v in 10 s of 7 processors, want a third", name, got)
			}
		}
		s.mu.Unlock()
		all.Wait()
	})
}

// TestTurnsAhead: where processors come free at once, one client does not get all of them; and a client that got more
// than others who wait still did when its calls have ended.
func TestTurnsAhead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewTurns()
		s.free = 2
		var all sync.WaitGroup
		call := func(client string, work time.Duration) {
			all.Go(func() { _, _ = runTurn(s, t.Context(), client, work) })
			synctest.Wait()
		}
		call("first", 10*time.Millisecond)
		call("first", 10*time.Millisecond)
		for range 3 {
			call("few", 40*time.Millisecond)
			call("many", 40*time.Millisecond)
			call("many", 40*time.Millisecond)
		}
		s.mu.Lock()
		s.clients["few"].spent += time.Millisecond
		s.mu.Unlock()
		time.Sleep(15 * time.Millisecond)
		s.mu.Lock()
		if few, many := s.clients["few"].running, s.clients["many"].running; few != 1 || many != 1 {
			t.Errorf("%d and %d run, want one of each", few, many)
		}
		if c := s.clients["first"]; c == nil || c.tickets != 0 || c.spent != 20*time.Millisecond {
			t.Errorf("of one that ended, while others wait, is known %+v", c)
		}
		s.mu.Unlock()
		all.Wait()
		if len(s.clients) != 0 {
			t.Errorf("%d clients are kept", len(s.clients))
		}
	})
}

// TestTurnsJoined: a call that two clients wait for has the better of their slots and priorities at any time, and the
// one by whose it runs pays.
func TestTurnsJoined(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewTurns()
		s.free = 1
		c, cancel := context.WithCancel(t.Context())
		var all sync.WaitGroup
		for range clientTurns {
			all.Go(func() { _, _ = runTurn(s, c, "crowd", time.Hour) })
		}
		time.Sleep(time.Second)
		shared := s.newTurn()
		shared.join("crowd")
		done := make(chan struct{})
		go func() {
			defer close(done)
			defer shared.end()
			if !shared.start(t.Context()) || !shared.take(t.Context()) {
				t.Error("cancelled")
			}
			for range 500 {
				time.Sleep(time.Millisecond)
				_, _ = shared.yield(t.Context())
			}
		}()
		time.Sleep(time.Second)
		s.mu.Lock()
		if shared.begun {
			t.Error("began beside as many of the client as there may be")
		}
		s.mu.Unlock()
		began := time.Now()
		shared.join("other")
		shared.join("other") // twice is once
		<-done
		if took := time.Since(began); took > time.Second+4*turnSlice {
			t.Errorf("half a second of work, by another client, took %v", took)
		}
		shared.join("late")
		cancel()
		all.Wait()
		if s.free != 1 || len(s.queue)+len(s.clients) != 0 {
			t.Errorf("left: %d processors, %d in the queue, %d clients", s.free, len(s.queue), len(s.clients))
		}
	})
}

// TestTurnsLeft: those that are cancelled at any time leave nothing behind.
func TestTurnsLeft(t *testing.T) {
	gone := errors.New("gone")
	synctest.Test(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(1, 2))
		s := NewTurns()
		var all sync.WaitGroup
		for i := range 300 {
			ctx, leave := context.WithCancelCause(t.Context())
			work := time.Duration(r.IntN(300)) * time.Millisecond
			time.AfterFunc(time.Duration(r.IntN(5000))*time.Millisecond, func() { leave(gone) })
			all.Go(func() {
				if _, err := runTurn(s, ctx, fmt.Sprint(i%3), work); err != nil && err != gone {
					t.Error(err)
				}
			})
		}
		all.Wait()
		if s.free != turnProcessors() || len(s.queue)+len(s.clients) != 0 {
			t.Errorf("left: %d processors, %d in the queue, %d clients", s.free, len(s.queue), len(s.clients))
		}
	})
}

// TestWork: the host's own work takes turns with guests' calls, and tells its request how long it waited.
func TestWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewTurns()
		s.free = 1
		var waited atomic.Int64
		ctx := llm.WithWaits(t.Context(), func(d time.Duration) { waited.Add(int64(d)) })
		var all sync.WaitGroup
		all.Go(func() {
			if _, err := runTurn(s, t.Context(), "guest", time.Second); err != nil {
				t.Error(err)
			}
		})
		synctest.Wait()
		began, w := time.Now(), s.Begin("host")
		if !w.Take(ctx) {
			t.Error("it got no processor")
		}
		worked := 0 * time.Millisecond
		for ; worked < 200*time.Millisecond; worked += time.Millisecond {
			time.Sleep(time.Millisecond)
			if !w.Yield(ctx) {
				t.Error("it lost its processor")
			}
		}
		w.End()
		took := time.Since(began)
		if took > 2*worked+turnSlice || time.Duration(waited.Load()) != took-worked {
			t.Errorf("it took %v, and told that it waited %v", took, time.Duration(waited.Load()))
		}
		all.Wait()
		gone, cancel := context.WithCancel(t.Context())
		cancel()
		other := s.Begin("guest")
		other.Take(t.Context())
		if w = s.Begin("host"); w.Take(gone) || w.Yield(gone) {
			t.Error("work whose request ended has a processor")
		}
		w.End()
		other.End()
		if s.free != 1 || len(s.queue)+len(s.clients) != 0 {
			t.Errorf("left: %d processors, %d in the queue, %d clients", s.free, len(s.queue), len(s.clients))
		}
	})
}
