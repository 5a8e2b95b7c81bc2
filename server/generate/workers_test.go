package generate

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"tgi/runtime/llm"
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
					w.leave(client)
				}
			}()
			synctest.Wait()
		}
		w.leave("first")
		synctest.Wait()
		if got := strings.Join(order, " "); got != "a b c a b a a" {
			t.Errorf("they came in the order %s", got)
		}
		if w.free != 1 || len(w.waiting) != 0 {
			t.Errorf("%d free, %d clients wait", w.free, len(w.waiting))
		}
	})
}

// TestWorkersOfEach: with a bound for each client, one that has all that it may waits while another does not, and gets
// its next place when it gives one back.
func TestWorkersOfEach(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &workers{free: 3, each: 2}
		in, mu := map[string]int{}, sync.Mutex{}
		come := func(client string) {
			go func() {
				if w.enter(t.Context(), client) == nil {
					mu.Lock()
					defer mu.Unlock()
					in[client]++
				}
			}()
			synctest.Wait()
		}
		for range 5 {
			come("a")
		}
		come("b")
		come("b")
		if in["a"] != 2 || in["b"] != 1 {
			t.Errorf("inside are %v", in)
		}
		w.leave("b") // the next of b, for a has two
		synctest.Wait()
		if in["a"] != 2 || in["b"] != 2 {
			t.Errorf("then came %v", in)
		}
		w.leave("a")
		w.leave("a")
		w.leave("b")
		synctest.Wait()
		if in["a"] != 4 || w.free != 1 || w.held["a"] != 2 || len(w.held) != 1 {
			t.Errorf("then came %v, %d free, held %v", in, w.free, w.held)
		}
		w.leave("a")
		w.leave("a")
		synctest.Wait()
		w.leave("a")
		if in["a"] != 5 || w.free != 3 || len(w.held) != 0 || len(w.waiting) != 0 {
			t.Errorf("at the end came %v, %d free, held %v", in, w.free, w.held)
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
					w.leave("b")
				}
			}()
		}
		synctest.Wait()
		go leave()
		w.leave("a")
		synctest.Wait()
		if w.free != 1 || slices.ContainsFunc(w.waiting, func(*clientQueue) bool { return true }) {
			t.Errorf("%d free, %d clients wait", w.free, len(w.waiting))
		}
	})
}

// pausing is a tokenizer that pauses until that fails.
type pausing struct{ Tokenizer }

func (pausing) EncodePrompt(_ string, o llm.Encoding) (llm.Encoded, error) {
	for {
		if err := o.Pause(); err != nil {
			return llm.Encoded{}, err
		}
	}
}

// TestPausedWorker: whether a prompt whose request ends has a worker then or waits for one, as many are free behind it.
func TestPausedWorker(t *testing.T) {
	s := New(nil, pausing{}, Limits{MaxConcurrent: 4, Workers: 1}, nil)
	for range 100 {
		var group sync.WaitGroup
		ctx, cancel := context.WithCancel(t.Context())
		for range 3 {
			group.Go(func() {
				if _, err := s.Encode(ctx, ""); !errors.Is(err, context.Canceled) {
					t.Error(err)
				}
			})
		}
		runtime.Gosched()
		cancel()
		group.Wait()
		if n := s.workers.free; n != 1 {
			t.Fatalf("%d workers are free, want 1", n)
		}
	}
}

// oneTurn has one processor.
type oneTurn struct{ free chan bool }

func (o oneTurn) Begin(string) Turn { return &taken{o.free, false} }

type taken struct {
	free chan bool
	has  bool
}

func (o *taken) Take(ctx context.Context) bool {
	select {
	case <-o.free:
		o.has = true
	case <-ctx.Done():
	}
	return o.has
}

func (o *taken) Yield(ctx context.Context) bool {
	o.End()
	return o.Take(ctx)
}

func (o *taken) End() {
	if o.has {
		o.free <- true
		o.has = false
	}
}

// shortPause is a tokenizer that pauses some times.
type shortPause struct{ Tokenizer }

func (shortPause) EncodePrompt(_ string, o llm.Encoding) (llm.Encoded, error) {
	for range 20 {
		runtime.Gosched()
		if err := o.Pause(); err != nil {
			return llm.Encoded{}, err
		}
	}
	return llm.Encoded{}, nil
}

// TestEncodeInTurn: prompts that have workers and share a processor never wait for each other for good, and give all
// back, also those whose requests end meanwhile.
func TestEncodeInTurn(t *testing.T) {
	one := oneTurn{make(chan bool, 1)}
	one.free <- true
	s := New(nil, shortPause{}, Limits{MaxConcurrent: 4, Workers: 2}, nil).WithTurns(one)
	for range 50 {
		var group sync.WaitGroup
		ctx, cancel := context.WithCancel(t.Context())
		for i := range 8 {
			group.Go(func() {
				c := t.Context()
				if i%2 > 0 {
					c = ctx
				}
				if _, err := s.Encode(c, ""); err != nil && (i%2 == 0 || !errors.Is(err, context.Canceled)) {
					t.Error(err)
				}
			})
		}
		runtime.Gosched()
		cancel()
		group.Wait()
		if n := s.workers.free; n != 2 || len(one.free) != 1 {
			t.Fatalf("%d workers and %d processors are free", n, len(one.free))
		}
	}
}
