package engine

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"tgi/runtime/llm"
	"tgi/runtime/sample"
	"tgi/runtime/sched"
)

// byHand returns an engine whose steps the test does itself.
func byHand(t *testing.T, m Model, cfg Config) *Engine {
	t.Helper()
	cfg.Verify = true
	e, err := build(m, fakeCodec{}, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.closeReason(); err != nil {
			t.Errorf("the engine closed itself: %v", err)
		}
	})
	return e
}

func submit(t *testing.T, e *Engine, ctx context.Context, r Request) *Stream {
	t.Helper()
	st, err := e.Submit(ctx, r)
	if err != nil {
		t.Fatal(err)
	}
	return st
}

// readAll reads a stream to its end.
func readAll(st *Stream) (out []Event, err error) {
	for {
		ev, err := st.Next(context.Background())
		if err == io.EOF {
			return out, nil
		}
		if err != nil {
			return out, err
		}
		out = append(out, ev)
	}
}

// endless returns a request that runs for n tokens.
func endless(n int) Request {
	p := params(n)
	p.IgnoreEOS = true
	return Request{Prompt: randomTokens(rand.New(rand.NewPCG(8, 8)), 20), Params: p}
}

func TestCloseFreesWithinOneStep(t *testing.T) {
	e := byHand(t, newFake(32, 4, 256), Config{Settings: sched.Settings{NoPrefixSharing: true, MaxBatchSize: 3}})
	gone := submit(t, e, context.Background(), endless(50))
	forked := endless(50)
	forked.N = 2
	goneToo := submit(t, e, context.Background(), forked)
	queued := submit(t, e, context.Background(), endless(50))
	for range 4 {
		e.step()
	}
	if s := e.Stats(); s.Running != 3 || s.Waiting != 1 {
		t.Fatalf("running %d, waiting %d", s.Running, s.Waiting)
	}
	gone.Close()
	goneToo.Close()
	queued.Close()
	other := submit(t, e, context.Background(), endless(2))
	e.step()
	if s := e.Stats(); s.KVUsed != 5 || s.KVTokens != 5*4 || s.Running != 1 || s.Waiting != 0 || e.open != 1 {
		t.Errorf("after one step: %d blocks, %d running, %d waiting, %d open; want the 5 blocks of the other alone",
			s.KVUsed, s.Running, s.Waiting, e.open)
	}
	if _, err := gone.Next(context.Background()); err != context.Canceled {
		t.Errorf("closed stream: %v", err)
	}
	e.step()
	if o, err := collect(other, 1); err != nil || len(o.tokens[0]) != 2 {
		t.Errorf("the neighbour got %v, %v", o.tokens, err)
	}
	gone.Close()
	if e.step() {
		t.Error("work after everything ended")
	}
}

func TestContextFreesWithinOneStep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := byHand(t, newFake(32, 4, 256), Config{Settings: sched.Settings{NoPrefixSharing: true, MaxBatchSize: 1}})
		cause := errors.New("client went away")
		ctx, cancel := context.WithCancelCause(context.Background())
		running, queued := submit(t, e, ctx, endless(50)), submit(t, e, ctx, endless(50))
		e.step()
		e.step()
		cancel(cause)
		synctest.Wait()
		if e.step() {
			t.Error("cancelled requests were computed")
		}
		if s := e.Stats(); s.KVUsed != 0 || s.Running+s.Waiting != 0 {
			t.Errorf("%d blocks, %d running, %d waiting", s.KVUsed, s.Running, s.Waiting)
		}
		for range 2 { // what was generated, then the cause
			if _, err := running.Next(context.Background()); err != nil {
				t.Fatal(err)
			}
		}
		for _, st := range []*Stream{running, queued} {
			if _, err := st.Next(context.Background()); err != cause {
				t.Errorf("got %v", err)
			}
		}
		if _, err := e.Submit(ctx, endless(1)); err != cause {
			t.Errorf("submitted with a dead context: %v", err)
		}
		done, cancelNext := context.WithCancel(context.Background())
		cancelNext()
		if _, err := submit(t, e, context.Background(), endless(1)).Next(done); err != context.Canceled {
			t.Errorf("Next with a dead context: %v", err)
		}
		e.step()
	})
}

// A reader that never reads costs its neighbours nothing and the memory of its own
// request at most.
func TestReaderThatNeverReads(t *testing.T) {
	e := byHand(t, newFake(64, 16, 512), Config{})
	silent := submit(t, e, context.Background(), endless(100))
	steps := 0
	reader := submit(t, e, context.Background(), endless(30))
	for e.step() {
		steps++
	}
	if steps != 100 {
		t.Errorf("%d steps, want 100", steps)
	}
	if o, err := collect(reader, 1); err != nil || len(o.tokens[0]) != 30 {
		t.Errorf("the reader got %d tokens, %v", len(o.tokens[0]), err)
	}
	if n := len(silent.queue); n != 100 {
		t.Errorf("%d events are kept, want 100", n)
	}
	if events, err := readAll(silent); err != nil || len(events) != 100 {
		t.Errorf("late reader got %d events, %v", len(events), err)
	}
}

func TestThousandAtOnce(t *testing.T) {
	e := start(t, newFake(32, 16, 128), Config{Settings: sched.Settings{MaxConcurrentRequests: 100}})
	var served, refused atomic.Int64
	var wg sync.WaitGroup
	for i := range 1000 {
		wg.Go(func() {
			r := endless(1 + i%5)
			r.Prompt = r.Prompt[:1+i%20]
			o, err := generate(e, r)
			switch {
			case err == nil && len(o.tokens[0]) == 1+i%5:
				served.Add(1)
			case errors.Is(err, llm.ErrOverloaded):
				refused.Add(1)
			default:
				t.Errorf("request %d: %d tokens, %v", i, len(o.tokens[0]), err)
			}
		})
	}
	wg.Wait()
	if served.Load()+refused.Load() != 1000 || served.Load() == 0 {
		t.Errorf("%d served and %d refused of 1000", served.Load(), refused.Load())
	}
}

func TestQueueIsBounded(t *testing.T) {
	e := byHand(t, newFake(32, 16, 128), Config{Settings: sched.Settings{MaxConcurrentRequests: 3}})
	two := endless(1)
	two.N = 2
	st := submit(t, e, context.Background(), two)
	if _, err := e.Submit(context.Background(), two); !errors.Is(err, llm.ErrOverloaded) {
		t.Errorf("4 of 3 places: %v", err)
	}
	last := submit(t, e, context.Background(), endless(1))
	e.step()
	if _, err := collect(st, 2); err != nil {
		t.Error(err)
	}
	if _, err := e.Submit(context.Background(), two); err != nil { // the ends free places before readers hear of them
		t.Error(err)
	}
	e.step()
	last.Close()
}

func TestEveryTokenTakesAStep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newFake(32, 16, 128)
		m.before = func(llm.Step) { time.Sleep(time.Second) }
		e := start(t, m, Config{})
		st := submit(t, e, context.Background(), endless(10))
		events, err := readAll(st)
		if err != nil || len(events) != 10 {
			t.Fatalf("%d events, %v", len(events), err)
		}
		if got, want := events[9].Timings, (Timings{First: time.Second, Total: 10 * time.Second}); got != want {
			t.Errorf("timings %+v, want %+v", got, want)
		}
		e.Close()
		if _, err := e.Submit(context.Background(), endless(1)); !errors.Is(err, llm.ErrClosed) {
			t.Errorf("submit after Close: %v", err)
		}
	})
}

func TestTimings(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newFake(32, 16, 128)
		m.before = func(llm.Step) { time.Sleep(time.Second) }
		e := start(t, m, Config{Settings: sched.Settings{MaxBatchSize: 1, MaxBatchPrefillTokens: 10}})
		first, second := submit(t, e, context.Background(), endless(3)), submit(t, e, context.Background(), endless(1))
		a, err := readAll(first)
		if err != nil {
			t.Fatal(err)
		}
		b, err := readAll(second)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range []struct{ got, want Timings }{
			{a[0].Timings, Timings{0, 2 * time.Second, 2 * time.Second}}, // two chunks
			{a[2].Timings, Timings{0, 2 * time.Second, 4 * time.Second}},
			{b[0].Timings, Timings{4 * time.Second, 5 * time.Second, 5 * time.Second}}, // its prefix is cached by now
		} {
			if c.got != c.want {
				t.Errorf("got %+v, want %+v", c.got, c.want)
			}
		}
	})
}

func TestCloseEndsStreams(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	e, err := New(newFake(64, 16, 512), fakeCodec{}, Config{Settings: sched.Settings{MaxBatchSize: 2}})
	if err != nil {
		t.Fatal(err)
	}
	var streams []*Stream
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	for range 5 {
		streams = append(streams, submit(t, e, ctx, endless(480)))
	}
	if _, err := streams[0].Next(ctx); err != nil {
		t.Fatal(err)
	}
	e.Close()
	e.Close()
	for i, st := range streams {
		for {
			_, err := st.Next(context.Background())
			if err == nil {
				continue
			}
			if err != io.EOF && !errors.Is(err, llm.ErrClosed) {
				t.Errorf("stream %d ended with %v", i, err)
			}
			break
		}
	}
	if err := e.Healthy(); !errors.Is(err, llm.ErrClosed) {
		t.Errorf("closed engine: %v", err)
	}
}

// lastReport observes the latest step.
type lastReport struct{ Report }

func (l *lastReport) Step(r Report) { l.Report = r }

func TestForwardFails(t *testing.T) {
	for name, breakIt := range map[string]func(*fakeModel){
		"error": func(m *fakeModel) { m.fail = errors.New("out of memory") },
		"panic": func(m *fakeModel) { m.boom = "index out of range" },
	} {
		t.Run(name, func(t *testing.T) {
			m := newFake(64, 16, 256)
			seen := &lastReport{}
			e := byHand(t, m, Config{Settings: sched.Settings{MaxBatchPrefillTokens: 8}, Observer: seen})
			two := endless(4)
			two.N = 2
			running := submit(t, e, context.Background(), two)
			for range 4 {
				e.step()
			}
			prompt := submit(t, e, context.Background(), Request{Prompt: randomTokens(rand.New(rand.NewPCG(1, 3)), 30),
				Params: params(3)})
			late := submit(t, e, context.Background(), endless(3))
			want, err := generate(start(t, newFake(64, 16, 256), Config{}), endless(3))
			if err != nil {
				t.Fatal(err)
			}
			breakIt(m)
			e.step()
			if err := e.Healthy(); !errors.Is(err, llm.ErrBackend) {
				t.Errorf("healthy: %v", err)
			}
			if !errors.Is(seen.Err, llm.ErrBackend) {
				t.Errorf("the observer was told %v", seen.Err)
			}
			for _, st := range []*Stream{running, prompt} {
				_, err := collect(st, 2)
				if !errors.Is(err, llm.ErrBackend) {
					t.Errorf("got %v", err)
				}
			}
			for e.step() {
			}
			if err := e.Healthy(); err != nil {
				t.Errorf("after a good step: %v", err)
			}
			got, err := collect(late, 1) // it shares a prefix with what failed
			if err == nil {
				err = same(got, want)
			}
			if err != nil {
				t.Errorf("the waiting request: %v", err)
			}
			if used, _, _ := e.sched.Cache(); used != 0 || e.open != 0 {
				t.Errorf("%d blocks, %d open", used, e.open)
			}
		})
	}
}

// plugin fails at its n-th call in the given manner.
type plugin struct {
	n     int
	panic bool
}

func (p *plugin) call() error {
	if p.n--; p.n >= 0 {
		return nil
	}
	if p.panic {
		panic("guest trapped")
	}
	return fmt.Errorf("%w: out of fuel", llm.ErrPlugin)
}

func (p *plugin) Process(sample.History, *sample.Step) error             { return p.call() }
func (p *plugin) Mask([]uint32) (bool, error)                            { return false, p.call() }
func (p *plugin) Candidates() int                                        { return 4 }
func (p *plugin) Accept(llm.Token) error                                 { return nil }
func (p *plugin) Sample(sample.History, []sample.Candidate) (int, error) { return 0, p.call() }

func TestPluginFails(t *testing.T) {
	want, err := generate(start(t, newFake(64, 16, 256), Config{}), endless(8))
	if err != nil {
		t.Fatal(err)
	}
	for kind, plug := range map[string]func(*plugin) sample.Plugins{
		"processor": func(p *plugin) sample.Plugins { return sample.Plugins{Processors: []sample.Processor{p}} },
		"masker":    func(p *plugin) sample.Plugins { return sample.Plugins{Masker: p} },
		"sampler":   func(p *plugin) sample.Plugins { return sample.Plugins{Sampler: p} },
	} {
		for _, panics := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, panic %v", kind, panics), func(t *testing.T) {
				e := byHand(t, newFake(64, 16, 256), Config{})
				bad := endless(8)
				bad.N = 2
				bad.Params.Sample = kind == "sampler"
				bad.Plugins = func(i int) sample.Plugins { return plug(&plugin{n: 2 + i, panic: panics}) }
				st, neighbour := submit(t, e, context.Background(), bad), submit(t, e, context.Background(), endless(8))
				for e.step() {
				}
				tokens, failed := [2]int{}, [2]bool{}
				for {
					ev, err := st.Next(context.Background())
					if err == io.EOF {
						break
					}
					if err == nil {
						tokens[ev.Index]++
					} else if failed[ev.Index] = true; !errors.Is(err, llm.ErrPlugin) {
						t.Errorf("got %v", err)
					}
				}
				if tokens != [2]int{2, 3} || failed != [2]bool{true, true} {
					t.Errorf("tokens %v, failed %v", tokens, failed)
				}
				got, err := collect(neighbour, 1)
				if err == nil {
					err = same(got, want)
				}
				if err != nil {
					t.Errorf("the neighbour: %v", err)
				}
			})
		}
	}
}

// meanwhile checks that masks are computed while the model runs.
type meanwhile struct{ called chan struct{} }

func (m meanwhile) Mask([]uint32) (bool, error) { m.called <- struct{}{}; return false, nil }
func (m meanwhile) Accept(llm.Token) error      { return nil }

func TestMaskDuringForward(t *testing.T) {
	m := newFake(64, 16, 256)
	called := make(chan struct{})
	m.before = func(llm.Step) { <-called } // hangs unless the mask is computed now
	e := byHand(t, m, Config{Workers: 1})
	r := endless(3)
	r.Plugins = func(int) sample.Plugins { return sample.Plugins{Masker: meanwhile{called}} }
	st := submit(t, e, context.Background(), r)
	for e.step() {
	}
	if o, err := collect(st, 1); err != nil || len(o.tokens[0]) != 3 {
		t.Errorf("%v, %v", o.tokens, err)
	}
}

// A violated invariant closes the engine: whatever runs ends, nothing more is
// accepted, and the reason is told.
func TestVerify(t *testing.T) {
	t.Setenv("TGI_VERIFY", "1")
	m := newFake(8, 16, 64)
	e, err := build(m, fakeCodec{}, Config{})
	if err != nil {
		t.Fatal(err)
	}
	st := submit(t, e, context.Background(), endless(9))
	e.step()
	e.active[nil] = &sequence{stream: &Stream{engine: e}} // a sequence that the scheduler does not know
	e.step()
	delete(e.active, nil)
	e.loop() // ends by itself
	for range 2 {
		if _, err := st.Next(context.Background()); err != nil {
			t.Fatal(err)
		}
	}
	const want = "engine closed: BUG: engine: 2 sequences, 1 in the scheduler"
	_, ended := st.Next(context.Background())
	_, refused := e.Submit(context.Background(), endless(1))
	for _, err := range []error{ended, refused, e.Healthy()} {
		if err == nil || err.Error() != want || !errors.Is(err, llm.ErrClosed) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

// recorder keeps reports.
type recorder struct{ reports []Report }

func (r *recorder) Step(s Report) { r.reports = append(r.reports, s) }

func TestObserver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var rec recorder
		m := newFake(64, 16, 256)
		m.before = func(llm.Step) { time.Sleep(time.Second) }
		e := byHand(t, m, Config{Observer: &rec, Settings: sched.Settings{MaxBatchPrefillTokens: 16}})
		submit(t, e, context.Background(), endless(2))
		for e.step() {
		}
		submit(t, e, context.Background(), endless(1))
		for e.step() {
		}
		want := []Report{
			{PrefillRows: 1, PrefillTokens: 16, Admitted: 1, PromptTokens: 20, Running: 1, KVUsed: 2},
			{PrefillRows: 1, PrefillTokens: 4, Running: 1, KVUsed: 2},
			{DecodeRows: 1, KVCached: 1},
			{PrefillRows: 1, PrefillTokens: 4, Admitted: 1, PromptTokens: 20, CachedTokens: 16, KVCached: 1},
		}
		if len(rec.reports) != len(want) {
			t.Fatalf("%d reports: %+v", len(rec.reports), rec.reports)
		}
		for i, w := range want {
			w.Forward, w.Total, w.KVTotal = time.Second, time.Second, 64
			if rec.reports[i] != w {
				t.Errorf("step %d: %+v, want %+v", i, rec.reports[i], w)
			}
		}
	})
}

func TestFinish(t *testing.T) {
	greedy := func(n int, change func(*llm.Params)) Request {
		p := params(n)
		change(&p)
		return Request{Prompt: []llm.Token{9, 10}, Params: p}
	}
	force := func(tok llm.Token) func(*llm.Params) {
		return func(p *llm.Params) { p.LogitBias = []llm.Bias{{Token: tok, Add: 1000}} }
	}
	abc := tokensOf(t, "abc")[0]
	for _, c := range []struct {
		name string
		r    Request
		want llm.Finish
	}{
		{"eos", greedy(5, force(tokEOS)), llm.Finish{Reason: llm.FinishEOS, Generated: 1}},
		{"length beats eos", greedy(1, force(tokEOS)), llm.Finish{Reason: llm.FinishLength, Generated: 1}},
		{"eos ignored", greedy(3, func(p *llm.Params) { force(tokEOS)(p); p.IgnoreEOS = true }),
			llm.Finish{Reason: llm.FinishLength, Generated: 3}},
		{"stop", greedy(5, func(p *llm.Params) { force(abc)(p); p.Stop = []string{"cab"} }),
			llm.Finish{Reason: llm.FinishStop, Stop: "cab", StopBytes: 3, Generated: 2}},
		{"length beats stop", greedy(2, func(p *llm.Params) { force(abc)(p); p.Stop = []string{"cab"} }),
			llm.Finish{Reason: llm.FinishLength, Generated: 2}},
		{"eos beats stop", greedy(5, func(p *llm.Params) { force(tokEOS)(p); p.Stop = []string{"</s>"} }),
			llm.Finish{Reason: llm.FinishEOS, Generated: 1}},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := start(t, newFake(8, 16, 64), Config{})
			o, err := generate(e, c.r)
			if err != nil {
				t.Fatal(err)
			}
			got := o.finish[0]
			if got.Text != o.texts[0] {
				t.Errorf("events say %q, the end says %q", o.texts[0], got.Text)
			}
			if c.want.Prompt, c.want.Text = 2, got.Text; got != c.want {
				t.Errorf("got %+v, want %+v", got, c.want)
			}
		})
	}
}

// A request that is submitted while a step begins is part of that step: it has waited for a moment, not for less.
func TestQueuedIsNeverNegative(t *testing.T) {
	e := start(t, newFake(64, 16, 512), Config{})
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 2000 {
				st, err := e.Submit(t.Context(), Request{Prompt: []llm.Token{5, 6}, Params: params(1)})
				if err != nil {
					t.Error(err)
					return
				}
				ev, err := st.Next(t.Context())
				if err != nil || ev.Timings.Queued < 0 || ev.Timings.Queued > ev.Timings.Total {
					t.Errorf("%v: %+v", err, ev.Timings)
				}
				st.Close()
			}
		})
	}
	wg.Wait()
}
