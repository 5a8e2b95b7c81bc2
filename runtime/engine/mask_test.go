package engine

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"tgi/runtime/llm"
	"tgi/runtime/sample"
	"tgi/runtime/sched"
)

// dearMasker is a masker of which some masks take long. It notices calls at the same time.
type dearMasker struct {
	t      *testing.T
	inner  sample.Masker
	sleep  func() time.Duration // 0 for a mask that is there at once
	boomAt int                  // the mask that panics; 0 is none
	masks  int
	inside atomic.Bool
}

func (m *dearMasker) enter() (leave func()) {
	if !m.inside.CompareAndSwap(false, true) {
		m.t.Error("two calls at the same time")
	}
	return func() { m.inside.Store(false) }
}

func (m *dearMasker) TryMask(bits []uint32) (constrained, done bool, err error) {
	defer m.enter()()
	if m.masks++; m.masks == m.boomAt || m.sleep() > 0 {
		return false, false, nil
	}
	constrained, err = m.inner.Mask(bits)
	return constrained, true, err
}

func (m *dearMasker) Mask(bits []uint32) (bool, error) {
	defer m.enter()()
	if m.masks == m.boomAt {
		panic("no more")
	}
	time.Sleep(m.sleep())
	return m.inner.Mask(bits)
}

func (m *dearMasker) Accept(t llm.Token) error {
	defer m.enter()()
	return m.inner.Accept(t)
}

func (m *dearMasker) Fork() sample.Masker { return m.around(m.inner.(sample.ForkingMasker).Fork()) }

func (m *dearMasker) around(inner sample.Masker) *dearMasker {
	return &dearMasker{t: m.t, inner: inner, sleep: m.sleep}
}

// dear returns a request whose masks, if it has any, take up to pace.
func dear(t *testing.T, r Request, i int, pace time.Duration, boomAt int) Request {
	plugins := r.Plugins
	if plugins == nil {
		return r
	}
	var mu sync.Mutex
	rnd := rand.New(rand.NewPCG(uint64(i), 12))
	sleep := func() time.Duration {
		mu.Lock()
		defer mu.Unlock()
		return max(0, time.Duration(rnd.Int64N(int64(2*pace)+1))-pace)
	}
	r.Plugins = func(k int) sample.Plugins {
		p := plugins(k)
		m := &dearMasker{t: t, inner: p.Masker, sleep: sleep, boomAt: boomAt}
		if p.Masker = m; p.Fork != nil {
			p.Fork = forkAround(m, p.Fork)
		}
		return p
	}
	return r
}

// forkAround forks user code whose masks take long.
func forkAround(m *dearMasker, fork func() (sample.Plugins, error)) func() (sample.Plugins, error) {
	return func() (sample.Plugins, error) {
		p, err := fork()
		if err == nil {
			p.Masker, p.Fork = m.around(p.Masker), forkAround(m, p.Fork)
		}
		return p, err
	}
}

// maskedRequests returns requests of all kinds, most of them with masks: alone, beside processors, and of guests.
func maskedRequests(n int) (reqs []Request, pace []time.Duration) {
	reqs, pace = guestRequests(n)
	for i := range reqs {
		plugins := reqs[i].Plugins
		switch {
		case plugins == nil:
		case i%3 == 0:
			reqs[i].Plugins = func(int) sample.Plugins { return sample.Plugins{Masker: distinct{new([]llm.Token)}} }
		case i%3 == 1:
			reqs[i].Plugins = func(k int) sample.Plugins { return ofGuest(plugins(k)) }
		}
	}
	return reqs, pace
}

// ofGuest is user code as that of a guest.
func ofGuest(p sample.Plugins) sample.Plugins {
	fork := p.Fork
	p.Guests = []string{"guest"}
	p.Fork = func() (sample.Plugins, error) {
		twin, err := fork()
		if err != nil {
			return twin, err
		}
		return ofGuest(twin), nil
	}
	return p
}

// TestDearAsCheap: how long masks take changes nothing of what is generated, be it with
// stop strings, several sequences, beams, guests, a cache that preempts sequences, or
// prompts in chunks.
func TestDearAsCheap(t *testing.T) {
	reqs, pace := maskedRequests(40)
	want := alone(t, reqs)
	for _, s := range []struct {
		name              string
		blocks, blockSize int
		cfg               Config
	}{
		{"roomy", 512, 16, Config{}},
		{"no wait", 512, 16, Config{GuestWait: 1}},
		{"one worker", 64, 16, Config{Workers: 1}},
		{"tiny cache", 20, 8, Config{}},
		{"tiny cache, chunks of 3", 26, 5, Config{Settings: sched.Settings{MaxBatchPrefillTokens: 3}}},
		{"few rows", 64, 16, Config{Settings: sched.Settings{MaxBatchSize: 5}}},
	} {
		t.Run(s.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var seen pacing
				m := newFake(s.blocks, s.blockSize, 256)
				m.before = func(llm.Step) { time.Sleep(2 * time.Millisecond) }
				s.cfg.Observer = &seen
				e := start(t, m, s.cfg)
				var wg sync.WaitGroup
				for i, r := range reqs {
					wg.Go(func() {
						got, err := generate(e, dear(t, r, i, pace[i], 0))
						if err == nil {
							err = same(got, want[i])
						}
						if err != nil {
							t.Errorf("request %d: %v", i, err)
						}
					})
				}
				wg.Wait()
				if seen.late.Load() == 0 || seen.satOut.Load() == 0 {
					t.Errorf("%d were late, %d sat out: nothing was tried", seen.late.Load(), seen.satOut.Load())
				}
			})
		})
	}
}

// TestDearAndBroken has requests with dear masks panic, be given up and end with the
// engine at random. The others get what they get alone, and these a beginning of it.
func TestDearAndBroken(t *testing.T) {
	reqs, pace := maskedRequests(40)
	want := alone(t, reqs)
	for seed := range uint64(6) {
		synctest.Test(t, func(t *testing.T) {
			m := newFake(30, 8, 256)
			m.before = func(llm.Step) { time.Sleep(2 * time.Millisecond) }
			e := start(t, m, Config{})
			rnd := rand.New(rand.NewPCG(seed, 5))
			closes := seed%2 == 1
			var wg sync.WaitGroup
			for i, r := range reqs {
				boom := max(0, rnd.IntN(24)-12)
				quits := rnd.IntN(3) == 0
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				if quits {
					time.AfterFunc(time.Duration(rnd.IntN(400))*time.Millisecond, cancel)
				}
				wg.Go(func() {
					st, err := e.Submit(ctx, dear(t, r, i, pace[i], boom))
					if err != nil {
						return
					}
					got, err := collect(st, max(r.N, r.Params.NumReturn, 1))
					switch {
					case err == nil:
						err = same(got, want[i])
					case boom > 0 && errors.Is(err, llm.ErrPlugin), quits && errors.Is(err, context.Canceled), closes &&
						errors.Is(err, llm.ErrClosed):
						err = beginning(got, want[i])
					}
					if err != nil {
						t.Errorf("seed %d request %d: %v", seed, i, err)
					}
				})
			}
			if closes {
				time.Sleep(time.Duration(100+rnd.IntN(1000)) * time.Millisecond)
				e.Close()
			}
			wg.Wait()
		})
	}
}

// heldMask is a masker whose first mask takes until it is let go.
type heldMask struct{ *held }

func (h heldMask) TryMask([]uint32) (constrained, done bool, err error) {
	select {
	case <-h.entered:
		return false, true, nil
	default:
		return false, false, nil
	}
}

func (h heldMask) Mask([]uint32) (bool, error) { return false, h.stay() }
func (h heldMask) Accept(llm.Token) error      { return nil }

// TestDearMaskHoldsNobody: while a mask is not there, the neighbours of its sequence make
// step after step; its own text is whole in the end.
func TestDearMaskHoldsNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := byHand(t, newFake(64, 16, 256), Config{})
		h := newHeld()
		r := endless(5)
		r.Plugins = func(int) sample.Plugins { return sample.Plugins{Masker: heldMask{h}} }
		slow, neighbour := submit(t, e, t.Context(), r), submit(t, e, t.Context(), endless(50))
		for i := range 50 {
			if !e.step() {
				t.Fatalf("nothing to do at step %d", i)
			}
		}
		if got, err := collect(neighbour, 1); err != nil || len(got.tokens[0]) != 50 {
			t.Errorf("the neighbour got %d tokens, %v", len(got.tokens[0]), err)
		}
		if s := e.Stats(); s.Parked != 1 || s.Running != 1 || e.step() || len(slow.queue) != 0 {
			t.Errorf("behind the neighbour: %+v", s)
		}
		parked := slow.seqs[0].inFlight
		close(h.leave)
		<-e.wake
		e.step()
		if slow.seqs[0].ownStep == parked {
			t.Error("a job may still look at memory that was used again")
		}
		for e.step() {
		}
		if got, err := collect(slow, 1); err != nil || len(got.tokens[0]) != 5 {
			t.Errorf("the slow one got %d tokens, %v", len(got.tokens[0]), err)
		}
	})
}

// TestDearMaskIsGivenUp: a request whose mask is not there is free at once when it is
// given up, and its user code is closed when the mask has ended. So is one whose forward
// pass fails.
func TestDearMaskIsGivenUp(t *testing.T) {
	m := newFake(64, 16, 256)
	for name, give := range map[string]func(e *Engine, st *Stream, cancel func()){
		"closed":        func(_ *Engine, st *Stream, _ func()) { st.Close() },
		"cancelled":     func(_ *Engine, _ *Stream, cancel func()) { cancel() },
		"engine closed": func(e *Engine, _ *Stream, _ func()) { e.failAll(llm.ErrClosed) },
		"forward fails": nil,
	} {
		synctest.Test(t, func(t *testing.T) {
			e := byHand(t, m, Config{})
			h := newHeld()
			var asked, closed atomic.Int64
			r := endless(5)
			r.Cancel = func() { asked.Add(1) }
			r.Plugins = func(int) sample.Plugins {
				return sample.Plugins{Masker: heldMask{h}, Close: func() { closed.Add(1) }}
			}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			st := submit(t, e, ctx, r)
			want := int64(1)
			if give == nil {
				m.fail, want = errors.New("out of order"), 0
				m.before = func(llm.Step) { <-h.entered }
				defer func() { m.before = nil }()
			}
			e.step()
			if give != nil {
				give(e, st, cancel)
			}
			synctest.Wait()
			e.step()
			if _, err := st.Next(context.Background()); err == nil || err == io.EOF {
				t.Errorf("%s: the stream ended with %v", name, err)
			}
			if used, _, _ := e.sched.Cache(); used != 0 || e.open != 0 || asked.Load() != want || closed.Load() != 0 {
				t.Errorf("%s: %d blocks, %d open, asked %d times to end, closed %d times", name, used, e.open,
					asked.Load(), closed.Load())
			}
			close(h.leave)
			e.guests.wait()
			if e.step() || closed.Load() != 1 {
				t.Errorf("%s: closed %d times", name, closed.Load())
			}
		})
	}
}

// TestCheapMasksStayInTheStep: a masker whose masks take little has neither copies of
// logits nor work beside the step.
func TestCheapMasksStayInTheStep(t *testing.T) {
	e := byHand(t, newFake(64, 16, 256), Config{})
	r := endless(20)
	r.Plugins = func(int) sample.Plugins {
		return sample.Plugins{Masker: &dearMasker{t: t, inner: distinct{new([]llm.Token)},
			sleep: func() time.Duration { return 0 }}}
	}
	st := submit(t, e, t.Context(), r)
	e.step()
	q := st.seqs[0]
	first := q.ownStep
	for e.step() {
		if q.inFlight != nil || q.ownStep != first || len(e.freeLogits) != 0 {
			t.Fatal("it is in flight")
		}
	}
	if got, err := collect(st, 1); err != nil || len(got.tokens[0]) != 20 {
		t.Errorf("%d tokens, %v", len(got.tokens[0]), err)
	}
}
