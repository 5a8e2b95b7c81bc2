package engine

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"tgi/runtime/llm"
	"tgi/runtime/sample"
)

// TestGuardsOfOneHoldNobody: where a sequence is all that an engine has, its guards are asked on the step goroutine.
// While they are, others are submitted, given up and closed as ever, and the sequence has its text in the end.
func TestGuardsOfOneHoldNobody(t *testing.T) {
	for _, order := range []string{"goes on", "given up", "given up at once", "closed", "closed at once", "alone"} {
		synctest.Test(t, func(t *testing.T) {
			m := newFake(64, 16, 256)
			m.before = func(llm.Step) { time.Sleep(2 * time.Millisecond) }
			e := start(t, m, Config{})
			h := newHeld()
			closed := 0
			r := endless(5)
			r.Plugins = func(int) sample.Plugins {
				return sample.Plugins{Guests: []string{"held"}, Guards: []sample.Guard{heldGuard{h}},
					Close: func() { closed++ }}
			}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			slow := submit(t, e, ctx, r)
			<-h.entered
			time.Sleep(time.Second) // nobody else wants anything
			e.mu.Lock()
			if e.handover == nil || e.handover.timer != nil {
				t.Errorf("%s: the guard is not asked on the step goroutine, or somebody waits for it", order)
			}
			e.mu.Unlock()
			began := time.Now()
			if order != "alone" && !strings.HasSuffix(order, "at once") {
				got, err := collect(submit(t, e, t.Context(), endless(50)), 1)
				if err != nil || len(got.tokens[0]) != 50 {
					t.Errorf("%s: the neighbour got %d tokens, %v", order, len(got.tokens[0]), err)
				}
				if d := time.Since(began); d > 51*2*time.Millisecond+minGuestTimeout {
					t.Errorf("%s: 50 steps of 2 ms took %v", order, d)
				}
			}
			switch strings.TrimSuffix(order, " at once") {
			case "given up":
				cancel()
				if _, err := slow.Next(context.Background()); !errors.Is(err, context.Canceled) {
					t.Errorf("%s: %v", order, err)
				}
				if used, _, _ := e.sched.Cache(); used != 0 || closed != 0 {
					t.Errorf("%s: %d blocks are used, closed %d times", order, used, closed)
				}
				next := endless(5) // beside the call that runs on
				next.Plugins = func(int) sample.Plugins {
					return sample.Plugins{Guests: []string{"next"}, Guards: []sample.Guard{spinning{}}}
				}
				if got, err := generate(e, next); err != nil || len(got.tokens[0]) != 5 {
					t.Errorf("%s: the next one got %d tokens, %v", order, len(got.tokens[0]), err)
				}
				close(h.leave)
			case "closed":
				time.AfterFunc(time.Minute, func() { close(h.leave) })
				e.Close()
				if d := time.Since(began); d < time.Minute || closed != 1 {
					t.Errorf("%s after %v, the user code %d times", order, d, closed)
				}
			default:
				close(h.leave)
				if got, err := collect(slow, 1); err != nil || len(got.tokens[0]) != 5 {
					t.Errorf("%s: the slow one got %d tokens, %v", order, len(got.tokens[0]), err)
				}
			}
			synctest.Wait()
			if closed != 1 {
				t.Errorf("%s: closed %d times", order, closed)
			}
		})
	}
}

// TestHandoversAtRandom: few requests with slow guards, which come, are given up and end with the engine at any time,
// get what they get without haste, or a beginning of it.
func TestHandoversAtRandom(t *testing.T) {
	reqs := guarded(12)
	want := alone(t, reqs)
	taken := 0
	for seed := range uint64(20) {
		synctest.Test(t, func(t *testing.T) {
			var seen pacing
			m := newFake(30, 8, 256)
			m.before = func(llm.Step) { time.Sleep(2 * time.Millisecond) }
			e := start(t, m, Config{Observer: &seen})
			closes := seed%4 == 3
			var clients sync.WaitGroup
			for client := range 2 {
				rnd := rand.New(rand.NewPCG(seed, uint64(client)))
				clients.Go(func() {
					for range 12 {
						time.Sleep(time.Duration(rnd.IntN(400)) * time.Millisecond)
						i := rnd.IntN(len(reqs))
						ctx, cancel := context.WithCancel(t.Context())
						if rnd.IntN(3) == 0 {
							time.AfterFunc(time.Duration(rnd.IntN(60))*time.Millisecond, cancel)
						}
						st, err := e.Submit(ctx, tardy(reqs[i], i))
						if err != nil {
							cancel()
							continue
						}
						got, err := collect(st, max(reqs[i].N, 1))
						switch {
						case err == nil:
							err = same(got, want[i])
						case errors.Is(err, context.Canceled), closes && errors.Is(err, llm.ErrClosed):
							err = beginning(got, want[i])
						}
						if err != nil {
							t.Errorf("seed %d request %d: %v", seed, i, err)
						}
						cancel()
					}
				})
			}
			if closes {
				time.Sleep(time.Duration(seed) * 100 * time.Millisecond)
				e.Close()
			}
			clients.Wait()
			taken += int(seen.late.Load())
		})
	}
	if taken < 20 {
		t.Errorf("%d were late: little was tried", taken)
	}
}
