package engine

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"tgi/runtime/llm"
	"tgi/runtime/sample"
	"tgi/runtime/sched"
)

// slowly is user code in the hands of a guest that takes its time. It notices calls at
// the same time, after the end, and ends that come twice.
type slowly struct {
	t      *testing.T
	sleep  func() time.Duration
	boomAt int64 // the call that panics; 0 is none
	calls  atomic.Int64
	inside atomic.Bool
	closed atomic.Bool
	opened *atomic.Int64 // of all forks together: less what was closed
}

// call is a call of user code around f.
func (s *slowly) call(f func() error) error {
	if !s.inside.CompareAndSwap(false, true) {
		s.t.Error("two calls at the same time")
	}
	defer s.inside.Store(false)
	if s.closed.Load() {
		s.t.Error("called after its end")
	}
	if n := s.calls.Add(1); n == s.boomAt {
		panic("no more")
	}
	time.Sleep(s.sleep())
	return f()
}

func (s *slowly) close() {
	if s.inside.Load() || s.closed.Swap(true) {
		s.t.Error("closed twice, or during a call")
	}
	s.opened.Add(-1)
}

// wrap returns p as the code of a guest.
func (s *slowly) wrap(p sample.Plugins, guest string) sample.Plugins {
	s.opened.Add(1)
	out := sample.Plugins{Guests: []string{guest}, Sampler: p.Sampler}
	for _, x := range p.Processors {
		out.Processors = append(out.Processors, slowProcessor{s, x})
	}
	if len(p.Processors) == 0 {
		out.Processors = []sample.Processor{slowProcessor{s, nothing{}}}
	}
	if p.Masker != nil {
		out.Masker = slowMasker{s, p.Masker}
	}
	out.Close = func() {
		s.close()
		if p.Close != nil {
			p.Close()
		}
	}
	out.Fork = func() (twin sample.Plugins, err error) {
		err = s.call(func() (err error) {
			f := &slowly{t: s.t, sleep: s.sleep, opened: s.opened}
			if p.Fork == nil {
				twin = f.wrap(p, guest)
				return nil
			}
			if twin, err = p.Fork(); err == nil {
				twin = f.wrap(twin, guest)
			}
			return err
		})
		return twin, err
	}
	return out
}

type nothing struct{}

func (nothing) Process(sample.History, *sample.Step) error { return nil }

// slowProcessor prepares as well.
type slowProcessor struct {
	s *slowly
	sample.Processor
}

func (p slowProcessor) Prepare(sample.History) error { return p.s.call(func() error { return nil }) }
func (p slowProcessor) Process(h sample.History, st *sample.Step) error {
	return p.s.call(func() error { return p.Processor.Process(h, st) })
}

type slowMasker struct {
	s *slowly
	sample.Masker
}

func (m slowMasker) Mask(bits []uint32) (ok bool, err error) {
	err = m.s.call(func() error { ok, err = m.Masker.Mask(bits); return err })
	return ok, err
}

func (m slowMasker) Accept(t llm.Token) error {
	return m.s.call(func() error { return m.Masker.Accept(t) })
}

// pacing counts what was late. It is an Observer.
type pacing struct{ late, satOut, rows atomic.Int64 }

func (p *pacing) Step(r Report) {
	p.late.Add(int64(r.Late))
	p.satOut.Add(int64(r.ParkedBefore))
	p.rows.Store(max(p.rows.Load(), int64(r.DecodeRows)))
}

// guestRequests returns requests of all kinds of which most have stateful user code,
// and for each how long a call of it takes at most.
func guestRequests(n int) (reqs []Request, pace []time.Duration) {
	reqs = beamRequests(n)
	for i, twin := range twinned(reqs) {
		if i%4 == 2 {
			reqs[i] = twin
		}
	}
	for i := range reqs {
		pace = append(pace, []time.Duration{0, 300 * time.Microsecond, 4 * time.Millisecond, 60 * time.Millisecond,
			3 * time.Second}[i%5])
		if i%6 == 5 { // without user code
			reqs[i].Plugins, pace[i] = nil, -1
		} else if reqs[i].Plugins == nil {
			reqs[i].Plugins = func(int) sample.Plugins { return newState().plugins() }
		}
	}
	return reqs, pace
}

// slowed returns a request whose user code takes up to pace for each call.
func slowed(t *testing.T, r Request, i int, pace time.Duration, opened *atomic.Int64) Request {
	plugins := r.Plugins
	if plugins == nil || pace < 0 {
		return r
	}
	r.Plugins = func(k int) sample.Plugins {
		var mu sync.Mutex
		rnd := rand.New(rand.NewPCG(uint64(i), uint64(k)))
		sleep := func() time.Duration {
			mu.Lock()
			defer mu.Unlock()
			return time.Duration(rnd.Int64N(int64(pace) + 1))
		}
		return (&slowly{t: t, sleep: sleep, opened: opened}).wrap(plugins(k), fmt.Sprint("guest ", i%4))
	}
	return r
}

// TestSlowAsFast: how long user code takes changes nothing of what is generated, be it
// with stop strings, several sequences, beams, a cache that preempts sequences,
// or prompts in chunks.
func TestSlowAsFast(t *testing.T) {
	reqs, pace := guestRequests(40)
	want := alone(t, reqs)
	for _, s := range []struct {
		name      string
		blocks    int
		blockSize int
		cfg       Config
		preempts  bool
	}{
		{"roomy", 512, 16, Config{}, false},
		{"no wait", 512, 16, Config{GuestWait: 1}, false},
		{"long wait", 512, 16, Config{GuestWait: time.Second}, false},
		{"one worker", 64, 16, Config{Workers: 1}, false},
		{"tiny cache", 20, 8, Config{}, true},
		{"tiny cache, no sharing", 20, 8, Config{Settings: sched.Settings{NoPrefixSharing: true}}, true},
		{"tiny cache, chunks of 3", 26, 5, Config{Settings: sched.Settings{MaxBatchPrefillTokens: 3}}, true},
		{"blocks of one token", 150, 1, Config{Settings: sched.Settings{MaxPromptLogits: 3}}, true},
		{"few rows", 64, 16, Config{Settings: sched.Settings{MaxBatchSize: 5}}, false},
		{"delayed prompts", 64, 16, Config{Settings: sched.Settings{WaitingServedRatio: 2, MaxWaitingTokens: 6}},
			false},
	} {
		t.Run(s.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var seen pacing
				var opened atomic.Int64
				m := newFake(s.blocks, s.blockSize, 256)
				m.before = func(llm.Step) { time.Sleep(2 * time.Millisecond) }
				s.cfg.Observer = &seen
				e := start(t, m, s.cfg)
				var wg sync.WaitGroup
				for i, r := range reqs {
					wg.Go(func() {
						got, err := generate(e, slowed(t, r, i, pace[i], &opened))
						if err == nil {
							err = same(got, want[i])
						}
						if err != nil {
							t.Errorf("request %d: %v", i, err)
						}
					})
				}
				wg.Wait()
				synctest.Wait()
				if n := opened.Load(); n != 0 {
					t.Errorf("user code of %d sequences was not closed", n)
				}
				if seen.late.Load() == 0 || seen.satOut.Load() == 0 {
					t.Errorf("%d were late, %d sat out: nothing was tried", seen.late.Load(), seen.satOut.Load())
				}
				if n := e.Stats().Preempted; s.preempts && n == 0 {
					t.Error("no sequence was preempted")
				}
			})
		})
	}
}

// TestSlowAndBroken has slow requests panic, be given up and end with the engine at
// random. The others get what they get alone, and these a beginning of it.
func TestSlowAndBroken(t *testing.T) {
	reqs, pace := guestRequests(40)
	want := alone(t, reqs)
	for seed := range uint64(6) {
		synctest.Test(t, func(t *testing.T) {
			var opened atomic.Int64
			m := newFake(30, 8, 256)
			m.before = func(llm.Step) { time.Sleep(2 * time.Millisecond) }
			e := start(t, m, Config{})
			rnd := rand.New(rand.NewPCG(seed, 4))
			var wg sync.WaitGroup
			closes := seed%2 == 1
			for i, r := range reqs {
				r = slowed(t, r, i, pace[i], &opened)
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				boom, quits := int64(0), rnd.IntN(3) == 0
				if rnd.IntN(4) == 0 && pace[i] >= 0 {
					boom = 1 + rnd.Int64N(12)
					r = breaking(r, boom)
				}
				if quits {
					time.AfterFunc(time.Duration(rnd.IntN(400))*time.Millisecond, cancel)
				}
				wg.Go(func() {
					st, err := e.Submit(ctx, r)
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
				time.Sleep(time.Duration(100+rnd.IntN(3000)) * time.Millisecond)
				e.Close()
			}
			wg.Wait()
			time.Sleep(time.Minute) // until the last call has ended
			if n := opened.Load(); n != 0 {
				t.Errorf("seed %d: user code of %d sequences was not closed", seed, n)
			}
			if !closes {
				e.guests.mu.Lock()
				if len(e.guests.running)+len(e.guests.queue)+len(e.guests.shares)+e.guests.busy != 0 {
					t.Errorf("seed %d: jobs are left", seed)
				}
				e.guests.mu.Unlock()
			}
		})
	}
}

// breaking has the user code of a slowed request panic at a call.
func breaking(r Request, at int64) Request {
	plugins := r.Plugins
	r.Plugins = func(i int) sample.Plugins {
		p := plugins(i)
		p.Processors[0].(slowProcessor).s.boomAt = at
		return p
	}
	return r
}

// beginning checks that a is where b begins.
func beginning(a, b outcome) error {
	for i := range a.tokens {
		if n := len(a.tokens[i]); n > len(b.tokens[i]) || !slices.Equal(a.tokens[i], b.tokens[i][:n]) {
			return fmt.Errorf("sequence %d: tokens %v, want the beginning of %v", i, a.tokens[i], b.tokens[i])
		}
	}
	return nil
}

// held is user code that stays in its first call until it is let go.
type held struct {
	entered, leave chan struct{}
	prepares       bool
}

func newHeld() *held { return &held{entered: make(chan struct{}), leave: make(chan struct{})} }

func (h *held) plugins() sample.Plugins {
	return sample.Plugins{Guests: []string{"held"}, Processors: []sample.Processor{h}}
}

func (h *held) stay() error {
	select {
	case <-h.entered:
	default:
		close(h.entered)
		<-h.leave
	}
	return nil
}

func (h *held) Process(sample.History, *sample.Step) error { return h.stay() }
func (h *held) Prepare(sample.History) error {
	if h.prepares {
		return h.stay()
	}
	return nil
}

// heldGuard is a guard that finds nothing.
type heldGuard struct{ *held }

func (heldGuard) Rules() llm.GuardRules        { return llm.GuardRules{Name: "held", Hold: 1, Every: 1} }
func (heldGuard) Applied(llm.VerdictKind, int) {}
func (g heldGuard) Check(v *llm.GuardView) (llm.Verdict, error) {
	return llm.Verdict{Position: len(v.Output)}, g.stay()
}

// TestNeighboursStepOn: while a call does not return, be it of the preparations, of the pick or of a guard, the
// neighbours of its sequence make step after step.
func TestNeighboursStepOn(t *testing.T) {
	for _, call := range []string{"pick", "prepare", "guard"} {
		synctest.Test(t, func(t *testing.T) {
			seen := &recorder{}
			e := byHand(t, newFake(64, 16, 256), Config{Observer: seen})
			h := newHeld()
			h.prepares = call == "prepare"
			r := endless(5)
			r.Plugins = func(int) sample.Plugins {
				if call == "guard" {
					return sample.Plugins{Guests: []string{"held"}, Guards: []sample.Guard{heldGuard{h}}}
				}
				return h.plugins()
			}
			slow, neighbour := submit(t, e, t.Context(), r), submit(t, e, t.Context(), endless(50))
			for i := range 50 {
				if !e.step() {
					t.Fatalf("nothing to do at step %d", i)
				}
			}
			<-h.entered
			if got, err := collect(neighbour, 1); err != nil || len(got.tokens[0]) != 50 {
				t.Errorf("the neighbour got %d tokens, %v", len(got.tokens[0]), err)
			}
			if s := e.Stats(); s.Parked != 1 || s.Running != 1 || e.step() {
				t.Errorf("behind the neighbour: %+v", s)
			}
			if n := len(slow.queue); n != 0 {
				t.Errorf("%d tokens of a call that did not return", n)
			}
			late, satOut := 0, 0
			for _, r := range seen.reports {
				late, satOut = late+r.Late, satOut+r.ParkedBefore
			}
			if late != 1 || satOut != 49 {
				t.Errorf("%d late and %d sat out, want 1 and 49", late, satOut)
			}
			close(h.leave)
			<-e.wake
			for e.step() {
			}
			if got, err := collect(slow, 1); err != nil || len(got.tokens[0]) != 5 {
				t.Errorf("the slow one got %d tokens, %v", len(got.tokens[0]), err)
			}
		})
	}
}

// TestParkedIsGivenUp: whoever gives up a request whose user code does not return is
// free at once, and so are its blocks. The user code is asked to end, and closed when
// it has.
func TestParkedIsGivenUp(t *testing.T) {
	for name, give := range map[string]func(e *Engine, st *Stream, cancel func()){
		"closed":        func(_ *Engine, st *Stream, _ func()) { st.Close() },
		"cancelled":     func(_ *Engine, _ *Stream, cancel func()) { cancel() },
		"engine closed": func(e *Engine, _ *Stream, _ func()) { e.failAll(llm.ErrClosed) },
	} {
		synctest.Test(t, func(t *testing.T) {
			e := byHand(t, newFake(64, 16, 256), Config{})
			h := newHeld()
			var asked, closed atomic.Int64
			r := endless(5)
			r.Cancel = func() { asked.Add(1) }
			r.Plugins = func(int) sample.Plugins {
				p := h.plugins()
				p.Close = func() { closed.Add(1) }
				return p
			}
			ctx, cancel := context.WithCancel(t.Context())
			st := submit(t, e, ctx, r)
			e.step()
			give(e, st, cancel)
			synctest.Wait()
			e.step()
			if _, err := st.Next(context.Background()); err == nil || err == io.EOF {
				t.Errorf("%s: the stream ended with %v", name, err)
			}
			if used, _, _ := e.sched.Cache(); used != 0 || e.open != 0 || asked.Load() != 1 || closed.Load() != 0 {
				t.Errorf("%s: %d blocks, %d open, asked %d times to end, closed %d times", name, used, e.open,
					asked.Load(), closed.Load())
			}
			close(h.leave)
			e.guests.wait()
			if e.step() || closed.Load() != 1 {
				t.Errorf("%s: closed %d times", name, closed.Load())
			}
			cancel()
		})
	}
}

// TestCloseAwaitsUserCode: Close returns when no call runs any more.
func TestCloseAwaitsUserCode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, err := New(newFake(64, 16, 256), fakeCodec{}, Config{Verify: true})
		if err != nil {
			t.Fatal(err)
		}
		h := newHeld()
		r := endless(5)
		r.Cancel = func() { time.AfterFunc(time.Second, func() { close(h.leave) }) }
		r.Plugins = func(int) sample.Plugins { return h.plugins() }
		submit(t, e, t.Context(), r)
		<-h.entered
		begin := time.Now()
		e.Close()
		if d := time.Since(begin); d < time.Second || d > time.Second+minGuestTimeout {
			t.Errorf("closed after %v, the call took a second", d)
		}
	})
}

// TestForwardFailsBesideGuests: preparations that run on do not touch what comes after.
func TestForwardFailsBesideGuests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newFake(64, 16, 256)
		e := byHand(t, m, Config{})
		h := newHeld()
		h.prepares = true
		var closed atomic.Int64
		r := endless(5)
		r.Plugins = func(int) sample.Plugins {
			p := h.plugins()
			p.Close = func() { closed.Add(1) }
			return p
		}
		st := submit(t, e, t.Context(), r)
		m.before = func(llm.Step) { <-h.entered }
		m.fail = errors.New("out of order")
		e.step()
		if _, err := st.Next(t.Context()); !errors.Is(err, llm.ErrBackend) || closed.Load() != 0 {
			t.Errorf("got %v, closed %d times", err, closed.Load())
		}
		close(h.leave)
		e.guests.wait()
		if e.step() || closed.Load() != 1 {
			t.Errorf("closed %d times", closed.Load())
		}
	})
}

// TestGuestsStayTogether: streams with a plugin of ordinary speed are computed in the
// same steps, also after they have been apart.
func TestGuestsStayTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var seen pacing
		m := newFake(512, 16, 256)
		m.before = func(llm.Step) { time.Sleep(10 * time.Millisecond) }
		e := start(t, m, Config{Observer: &seen, Workers: 2})
		var slow atomic.Int64
		slow.Store(int64(9 * time.Millisecond))
		var opened atomic.Int64
		var wg sync.WaitGroup
		for range 16 {
			r := endless(200)
			r.Plugins = func(int) sample.Plugins {
				s := &slowly{t: t, opened: &opened, sleep: func() time.Duration { return time.Duration(slow.Load()) }}
				return s.wrap(sample.Plugins{}, "ordinary")
			}
			wg.Go(func() {
				if o, err := generate(e, r); err != nil || len(o.tokens[0]) != 200 {
					t.Errorf("%d tokens, %v", len(o.tokens[0]), err)
				}
			})
		}
		time.Sleep(time.Second)
		apart := e.Stats()
		slow.Store(int64(100 * time.Microsecond)) // for the preparations, and for the pick
		time.Sleep(time.Second)
		before := e.Stats().Steps
		time.Sleep(time.Second)
		steps := e.Stats().Steps - before
		late := seen.late.Load()
		wg.Wait()
		if apart.Parked == 0 {
			t.Error("they were never apart")
		}
		if late, rows := seen.late.Load()-late, seen.rows.Load(); late != 0 || rows != 16 {
			t.Errorf("%d were late at the end, and a step had %d rows", late, rows)
		}
		if steps < 85 { // 10 ms of computing and 16 times 0.1 ms on two workers
			t.Errorf("%d steps in a second", steps)
		}
	})
}

// TestLateAreNotAwaited: a plugin that is always late costs its neighbours the wait once.
func TestLateAreNotAwaited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newFake(64, 16, 256)
		m.before = func(llm.Step) { time.Sleep(2 * time.Millisecond) }
		e := start(t, m, Config{})
		var opened atomic.Int64
		r := endless(50)
		r.Plugins = func(int) sample.Plugins {
			s := &slowly{t: t, opened: &opened, sleep: func() time.Duration { return 5 * time.Millisecond }}
			return s.wrap(sample.Plugins{}, "late")
		}
		slow := submit(t, e, t.Context(), r)
		synctest.Wait() // until the pass of its prompt is under way
		begin := time.Now()
		if _, err := generate(e, endless(100)); err != nil {
			t.Error(err)
		}
		// That pass, one of 2 ms for each token, and the shortest wait once: then it is known.
		if d := time.Since(begin); d > 202*time.Millisecond+minGuestTimeout {
			t.Errorf("100 steps of 2 ms, and one before them, took %v", d)
		}
		if o, err := collect(slow, 1); err != nil || len(o.tokens[0]) != 50 {
			t.Errorf("%d tokens, %v", len(o.tokens[0]), err)
		}
		// Nor are its next requests, as long as somebody is there.
		neighbour := submit(t, e, t.Context(), endless(100))
		begin = time.Now()
		var wg sync.WaitGroup
		wg.Go(func() {
			for range 15 {
				r.Params.MaxNewTokens = 1
				if _, err := generate(e, r); err != nil {
					t.Error(err)
				}
			}
		})
		if _, err := readAll(neighbour); err != nil {
			t.Error(err)
		}
		if d := time.Since(begin); d > 200*time.Millisecond+8*minGuestTimeout {
			t.Errorf("100 steps of 2 ms beside 15 requests took %v", d)
		}
		wg.Wait()
	})
}
