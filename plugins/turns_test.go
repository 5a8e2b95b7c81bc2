package plugins

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// runTurn compiles for so long, asking every millisecond, and gives how long it took with all waiting.
func runTurn(s *turns, ctx context.Context, client string, work time.Duration) (time.Duration, error) {
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
		if !t.yield(ctx) {
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
				s := newTurns(turnSlice)
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
		s := newTurns(turnSlice)
		s.free = 1
		var crowd sync.WaitGroup
		for range 3 * clientTurns {
			crowd.Go(func() { _, _ = runTurn(s, t.Context(), "crowd", time.Second) })
		}
		synctest.Wait()
		if n := s.clients["crowd"].turns; n != 3*clientTurns || len(s.clients["crowd"].slots) != clientTurns {
			t.Errorf("%d, of them %d under way", n, len(s.clients["crowd"].slots))
		}
		took, err := runTurn(s, t.Context(), "other", time.Second)
		if err != nil || took > 2*time.Second+4*turnSlice {
			t.Errorf("took %v, %v", took, err)
		}
		crowd.Wait()
	})
}

// TestTurnsLeft: those that are cancelled at any time leave nothing behind.
func TestTurnsLeft(t *testing.T) {
	gone := errors.New("gone")
	synctest.Test(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(1, 2))
		s := newTurns(turnSlice)
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
