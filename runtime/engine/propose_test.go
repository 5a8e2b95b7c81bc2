package engine

import (
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"tgi/runtime/draft"
	"tgi/runtime/llm"
	"tgi/runtime/sample"
)

// lateGuest is a guest that guesses, after a while. It notices calls at the same time and behind the end.
type lateGuest struct {
	t      *testing.T
	inner  draft.Drafter
	sleep  func() time.Duration
	boom   bool
	inside atomic.Bool
	closed atomic.Bool
}

func (d *lateGuest) Draft(h llm.History, ahead, room []llm.Token) int {
	if !d.inside.CompareAndSwap(false, true) || d.closed.Load() {
		d.t.Error("called twice at the same time, or behind its end")
	}
	defer d.inside.Store(false)
	time.Sleep(d.sleep())
	if d.boom {
		panic("no more")
	}
	return d.inner.Draft(h, ahead, room)
}

// proposed gives a request guests that guess by g, in a time of up to pace.
func proposed(t *testing.T, r Request, want outcome, g guesser, seed uint64, pace time.Duration,
	open *atomic.Int64) Request {
	plugins := r.Plugins
	r.Plugins = func(i int) (p sample.Plugins) {
		if plugins != nil {
			p = plugins(i)
		}
		open.Add(1)
		rnd := rand.New(rand.NewPCG(seed, uint64(i)))
		inner := &drafter{r: rand.New(rand.NewPCG(seed, uint64(i))), known: want.tokens[i], guess: g}
		d := &lateGuest{t: t, inner: inner,
			sleep: func() time.Duration { return time.Duration(rnd.Int64N(int64(pace) + 1)) }, boom: seed%9 == 5}
		none := sample.Proposer{Name: "none", Drafter: silent{}}
		p.Proposers = []sample.Proposer{none, {Name: "slow", Drafter: d}}
		end := p.Close
		p.Close = func() {
			if d.inside.Load() || d.closed.Swap(true) {
				t.Error("closed twice, or during a call")
			}
			open.Add(-1)
			if end != nil {
				end()
			}
		}
		return p
	}
	return r
}

// silent has no guess.
type silent struct{}

func (silent) Draft(llm.History, []llm.Token, []llm.Token) int { return 0 }

// TestProposalsChangeNothing: whatever guests guess, and however late, requests get what they get without, and no code
// of theirs runs behind its end. A step waits a moment for them only.
func TestProposalsChangeNothing(t *testing.T) {
	reqs := append(maskedKinds(36), guarded(12)...)
	want := alone(t, reqs)
	for name, g := range guessers {
		for _, pace := range []time.Duration{0, 20 * time.Microsecond, 3 * time.Millisecond, time.Second} {
			synctest.Test(t, func(t *testing.T) {
				var seen counting
				var open atomic.Int64
				m := newFake(64, 8, 256)
				m.before = func(llm.Step) { time.Sleep(2 * time.Millisecond) }
				cfg := Config{Speculation: draft.Settings{Tokens: 5, Always: pace < time.Second}, Observer: &seen,
					GuestWait: 1}
				e := start(t, m, cfg)
				began := time.Now()
				var wg sync.WaitGroup
				for i, r := range reqs {
					if r.Params.NumBeams > 1 {
						continue
					}
					wg.Go(func() {
						got, err := generate(e, proposed(t, r, want[i], g, uint64(i), pace, &open))
						if err == nil {
							got.prefill = want[i].prefill
							err = sameSteps(got, want[i])
						}
						if err != nil {
							t.Errorf("%s, %v, request %d: %v", name, pace, i, err)
						}
					})
				}
				wg.Wait()
				took := time.Since(began)
				e.Close()
				synctest.Wait()
				if n := open.Load(); n != 0 {
					t.Errorf("%s, %v: code of %d sequences is not closed", name, pace, n)
				}
				a, r := seen.drafts.Accepted[draft.Proposed], seen.drafts.Rejected[draft.Proposed]
				if pace == 0 && (a+r < 100 || name == "oracle" && a < 100) {
					t.Errorf("%s: %d right, %d wrong", name, a, r)
				}
				if pace == time.Second && took > time.Duration(m.steps)*4*time.Millisecond {
					t.Errorf("%s: %d steps of 2 ms took %v", name, m.steps, took)
				}
			})
		}
	}
}

// TestLateProposals: what a guest guessed while a step ran is of use at the next, as far as it was right.
func TestLateProposals(t *testing.T) {
	want := alone(t, []Request{endless(61)})[0]
	synctest.Test(t, func(t *testing.T) {
		var seen counting
		var open atomic.Int64
		m := newFake(64, 8, 256)
		m.before = func(llm.Step) { time.Sleep(2 * time.Millisecond) }
		e := start(t, m, Config{Speculation: draft.Settings{Tokens: 7}, Observer: &seen})
		r := endless(61)
		r.Plugins = func(int) sample.Plugins {
			d := &lateGuest{t: t, inner: known(want.tokens[0]), sleep: func() time.Duration { return time.Millisecond }}
			open.Add(1)
			return sample.Plugins{Proposers: []sample.Proposer{{Name: "slow", Drafter: d}},
				Close: func() { d.closed.Store(true); open.Add(-1) }}
		}
		got, err := generate(e, r)
		if err = errors.Join(err, same(got, want)); err != nil {
			t.Fatal(err)
		}
		e.Close()
		if a, r := seen.drafts.Accepted[draft.Proposed], seen.drafts.Rejected[draft.Proposed]; a < 20 || r > 0 ||
			m.steps > 41 || open.Load() != 0 {
			t.Errorf("%d right, %d wrong, %d steps, %d open", a, r, m.steps, open.Load())
		}
	})
}

// known drafts what is known.
type known []llm.Token

func (k known) Draft(h llm.History, _, room []llm.Token) int {
	return copy(room, k[min(len(h.Output), len(k)):])
}
