package engine

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"tgi/runtime/draft"
	"tgi/runtime/llm"
	"tgi/runtime/sample"
	"tgi/runtime/sched"
)

// guesser drafts for one sequence whose tokens are known.
type guesser func(r *rand.Rand, future []llm.Token, room []llm.Token) int

// guessers are drafters of all kinds: those that are right, that are wrong, and that are a nuisance.
var guessers = map[string]guesser{
	"oracle": func(_ *rand.Rand, future, room []llm.Token) int { return copy(room, future) },
	"random": func(r *rand.Rand, _, room []llm.Token) int {
		for i := range room {
			room[i] = llm.Token(r.IntN(len(pieces)))
		}
		return len(room)
	},
	"mostly right": func(r *rand.Rand, future, room []llm.Token) int {
		n := copy(room, future)
		for i := range n {
			if r.IntN(4) == 0 {
				room[i] = llm.Token(r.IntN(len(pieces)))
			}
		}
		return r.IntN(n + 1)
	},
	"right but the last": func(r *rand.Rand, future, room []llm.Token) int {
		n := copy(room, future[:min(len(future), 1+r.IntN(len(room)))])
		if n > 0 {
			room[n-1] = (room[n-1] + 1) % llm.Token(len(pieces))
		}
		return n
	},
	"beyond the end": func(_ *rand.Rand, future, room []llm.Token) int {
		for i := copy(room, future); i < len(room); i++ {
			room[i] = tokEOS
		}
		return len(room)
	},
	"no tokens": func(r *rand.Rand, future, room []llm.Token) int {
		n := copy(room, future)
		for i := range room {
			if i >= n || r.IntN(3) == 0 {
				room[i] = llm.Token(len(pieces) + r.IntN(1<<20))
			}
		}
		return len(room)
	},
}

// drafter is a guesser at work.
type drafter struct {
	r     *rand.Rand
	known []llm.Token
	guess guesser
	boom  bool
}

func (d *drafter) Draft(h llm.History, ahead, room []llm.Token) int {
	if d.boom {
		panic("no more")
	}
	if len(ahead) > 0 || d.r.IntN(8) == 0 {
		return 0
	}
	return d.guess(d.r, d.known[min(len(h.Output), len(d.known)):], room)
}

// oracle drafts what is known whenever it is asked.
type oracle []llm.Token

func (o oracle) Draft(h llm.History, ahead, room []llm.Token) int {
	return copy(room, o[len(h.Output)+len(ahead):])
}

// drafted returns a request for which g guesses.
func drafted(r Request, want outcome, g guesser, seed uint64) Request {
	plugins := r.Plugins
	r.Plugins = func(i int) (p sample.Plugins) {
		if plugins != nil {
			p = plugins(i)
		}
		p.Drafter = &drafter{r: rand.New(rand.NewPCG(seed, uint64(i))), known: want.tokens[i], guess: g}
		return p
	}
	return r
}

// always drafts n tokens whatever that costs.
func always(n int) draft.Settings { return draft.Settings{Tokens: n, Always: true} }

// counting counts guesses. It is an Observer.
type counting struct{ drafts DraftCounts }

func (c *counting) Step(r Report) {
	for s := range draft.Sources {
		c.drafts.Accepted[s] += r.Drafts.Accepted[s]
		c.drafts.Rejected[s] += r.Drafts.Rejected[s]
	}
}

// sameSteps is same, and compares the likeliest tokens.
func sameSteps(a, b outcome) error {
	for i := range a.best {
		if !slices.Equal(a.best[i], b.best[i]) {
			return fmt.Errorf("sequence %d: other likeliest tokens", i)
		}
	}
	return same(a, b)
}

// TestDraftsChangeNothing: whatever is guessed, in however many tokens, requests get the tokens, log-probabilities,
// texts and ends that they get without, alone and together, in roomy and tiny caches.
func TestDraftsChangeNothing(t *testing.T) {
	reqs := maskedKinds(48)
	want := alone(t, reqs)
	for name, g := range guessers {
		for _, s := range []struct {
			name              string
			blocks, blockSize int
			cfg               Config
		}{
			{"roomy", 512, 16, Config{}},
			{"tiny cache", 20, 8, Config{}},
			{"tiny cache, no sharing", 20, 8, Config{Settings: sched.Settings{NoPrefixSharing: true}}},
			{"tiny cache, chunks of 3", 26, 5, Config{Settings: sched.Settings{MaxBatchPrefillTokens: 3}}},
			{"blocks of one token", 150, 1,
				Config{Settings: sched.Settings{MaxPromptLogits: 3, MaxBatchDraftTokens: 9}}},
			{"few rows", 64, 16, Config{Settings: sched.Settings{MaxBatchSize: 5}, Workers: 1}},
		} {
			t.Run(name+", "+s.name, func(t *testing.T) {
				var seen counting
				s.cfg.Observer, s.cfg.Speculation = &seen, always(1+len(name+s.name)%8)
				e := start(t, newFake(s.blocks, s.blockSize, 256), s.cfg)
				var wg sync.WaitGroup
				for i, r := range reqs {
					wg.Go(func() {
						got, err := generate(e, drafted(r, want[i], g, uint64(i)))
						if err == nil {
							err = sameSteps(got, want[i])
						}
						if err != nil {
							t.Errorf("request %d: %v", i, err)
						}
					})
				}
				wg.Wait()
				e.Close()
				d := seen.drafts
				if name == "oracle" && (d.Rejected[draft.Plugin] > 0 || d.Accepted[draft.Plugin] < 100) ||
					d.Accepted[draft.Plugin]+d.Rejected[draft.Plugin] == 0 {
					t.Errorf("guesses %+v", d)
				}
			})
		}
	}
}

// maskedKinds returns requests of all kinds, also with processors and masks.
func maskedKinds(n int) []Request {
	reqs, _ := maskedRequests(n)
	return reqs
}

// TestDraftsOfEveryLength: from none to as many as there may be, greedy and with twenty seeds.
func TestDraftsOfEveryLength(t *testing.T) {
	var reqs []Request
	for seed := range uint64(21) {
		r := endless(40)
		r.Params.Sample, r.Params.Seed, r.Params.Temperature = seed > 0, seed, 0.9
		r.Params.Stop = []string{"abab", "h é"}
		r.Params.TopN, r.Params.RawLogprobs = 2, seed%2 == 0
		r.Plugins = func(int) sample.Plugins { return newState().plugins() }
		reqs = append(reqs, r)
	}
	want := alone(t, reqs)
	for k := range 9 {
		for name, g := range guessers {
			e := start(t, newFake(64, 16, 256), Config{Speculation: always(k)})
			for i, r := range reqs {
				got, err := generate(e, drafted(r, want[i], g, uint64(i)))
				if err == nil {
					err = sameSteps(got, want[i])
				}
				if err != nil {
					t.Errorf("%s, %d tokens, seed %d: %v", name, k, i, err)
				}
			}
			e.Close()
		}
	}
}

// TestDraftsSaveSteps: with guesses that are right, k at a time, a text takes its length over k+1 steps.
func TestDraftsSaveSteps(t *testing.T) {
	r := endless(61)
	want := alone(t, []Request{r})[0]
	for _, k := range []int{0, 1, 3, 8} {
		var seen counting
		m := newFake(64, 16, 256)
		e := start(t, m, Config{Speculation: always(k), Observer: &seen})
		right := r
		right.Plugins = func(int) sample.Plugins { return sample.Plugins{Drafter: oracle(want.tokens[0])} }
		if _, err := generate(e, right); err != nil {
			t.Fatal(err)
		}
		e.Close()
		if steps := 1 + (60+k)/(k+1); m.steps != steps || seen.drafts.Accepted[draft.Plugin] != 61-steps {
			t.Errorf("%d guesses: %d steps, want %d; %+v", k, m.steps, steps, seen.drafts)
		}
		if s := e.Stats(); s.Generated != 61 || s.PrefillTokens != len(r.Prompt) || s.StepTime <= 0 {
			t.Errorf("%d guesses: %+v", k, s)
		}
	}
}

// traced writes down how it is called.
type traced struct{ calls *[]string }

func (p traced) Prepare(h sample.History) error { return p.note("prepare", h) }
func (p traced) Process(h sample.History, s *sample.Step) error {
	if err := p.note("process", h); err != nil {
		return err
	}
	s.Logits[3+len(h.Output)%7] += 1.5
	return nil
}

func (p traced) note(call string, h sample.History) error {
	*p.calls = append(*p.calls, fmt.Sprint(call, len(h.Prompt), h.Output))
	return nil
}

// TestUserCodeSeesNoDrafts: processors, masks and samplers get the same calls with guesses as without.
func TestUserCodeSeesNoDrafts(t *testing.T) {
	run := func(g guesser, known outcome, guest bool) (outcome, []string) {
		var calls []string
		r := endless(50)
		r.Plugins = func(int) sample.Plugins {
			p := sample.Plugins{Processors: []sample.Processor{traced{&calls}}, Masker: distinct{new([]llm.Token)},
				Sampler: tracedSampler{&calls}}
			if guest {
				p.Guests = []string{"guest"}
			}
			return p
		}
		if g != nil {
			r = drafted(r, known, g, 3)
		}
		e := start(t, newFake(64, 16, 256), Config{Speculation: always(6), GuestWait: time.Second})
		got, err := generate(e, r)
		if err != nil {
			t.Fatal(err)
		}
		e.Close()
		return got, calls
	}
	want, calls := run(nil, outcome{}, false)
	for name, g := range guessers {
		for _, guest := range []bool{false, true} {
			got, seen := run(g, want, guest)
			if err := sameSteps(got, want); err != nil || !slices.Equal(seen, calls) {
				t.Errorf("%s, guest %v: %v, calls\n%s\nwant\n%s", name, guest, err, strings.Join(seen, "\n"),
					strings.Join(calls, "\n"))
			}
		}
	}
}

type tracedSampler struct{ calls *[]string }

func (tracedSampler) Candidates() int { return 3 }
func (s tracedSampler) Sample(h sample.History, c []sample.Candidate) (int, error) {
	*s.calls = append(*s.calls, fmt.Sprint("sample", h.Output, c))
	return len(h.Output) % len(c), nil
}

// TestSlowDrafts is TestSlowAsFast and TestDearAsCheap with guesses: user code and masks that take their time, so that
// sequences are parked with what was computed ahead, and preempted with it.
func TestSlowDrafts(t *testing.T) {
	reqs, pace := guestRequests(40)
	masked, _ := maskedRequests(40)
	for i := range reqs {
		if i%2 == 1 {
			reqs[i] = masked[i]
		}
	}
	want := alone(t, reqs)
	for name, g := range guessers {
		for _, s := range []struct {
			blocks, blockSize int
			cfg               Config
		}{
			{512, 16, Config{GuestWait: 1}}, {20, 8, Config{}},
			{26, 5, Config{Settings: sched.Settings{MaxBatchPrefillTokens: 3}, Workers: 1}},
		} {
			synctest.Test(t, func(t *testing.T) {
				var seen counting
				var opened atomic.Int64
				m := newFake(s.blocks, s.blockSize, 256)
				m.before = func(llm.Step) { time.Sleep(2 * time.Millisecond) }
				s.cfg.Observer, s.cfg.Speculation = &seen, always(4)
				e := start(t, m, s.cfg)
				var wg sync.WaitGroup
				for i, r := range reqs {
					wg.Go(func() {
						if i%2 == 0 {
							r = slowed(t, r, i, pace[i], &opened)
						} else {
							r = dear(t, r, i, max(pace[i], 0), 0)
						}
						got, err := generate(e, drafted(r, want[i], g, uint64(i)))
						if err == nil {
							err = sameSteps(got, want[i])
						}
						if err != nil {
							t.Errorf("%s, %d blocks, request %d: %v", name, s.blocks, i, err)
						}
					})
				}
				wg.Wait()
				synctest.Wait()
				e.Close()
				if n := opened.Load(); n != 0 {
					t.Errorf("user code of %d sequences was not closed", n)
				}
				if d := seen.drafts; d.Accepted[draft.Plugin]+d.Rejected[draft.Plugin] == 0 {
					t.Error("nothing was guessed")
				}
			})
		}
	}
}

// TestErrorsBehindDrafts: an error of user code comes behind the tokens that were good, as without guesses.
func TestErrorsBehindDrafts(t *testing.T) {
	for _, at := range []int{0, 1, 5, 6, 17} {
		var want outcome
		for _, k := range []int{0, 4} {
			r := endless(30)
			r.Plugins = func(int) sample.Plugins {
				return sample.Plugins{Processors: []sample.Processor{failing{at}}}
			}
			if k > 0 {
				known := alone(t, []Request{endless(30)})[0]
				r = drafted(r, known, guessers["oracle"], 1)
			}
			e := start(t, newFake(64, 16, 256), Config{Speculation: always(k)})
			got, err := generate(e, r)
			if err == nil || !strings.Contains(err.Error(), "enough") || len(got.tokens[0]) != at {
				t.Errorf("fails at %d, %d guesses: %d tokens, then %v", at, k, len(got.tokens[0]), err)
			}
			if k > 0 && !slices.Equal(got.tokens[0], want.tokens[0]) {
				t.Errorf("tokens %v, want %v", got.tokens[0], want.tokens[0])
			}
			want = got
			e.Close()
		}
	}
}

type failing struct{ at int }

func (p failing) Process(h sample.History, _ *sample.Step) error {
	if len(h.Output) == p.at {
		return fmt.Errorf("enough")
	}
	return nil
}

// TestDrafterThatPanics costs a sequence its guesses and nothing else.
func TestDrafterThatPanics(t *testing.T) {
	r := endless(20)
	want := alone(t, []Request{r})[0]
	r.Plugins = func(int) sample.Plugins { return sample.Plugins{Drafter: &drafter{boom: true}} }
	e := start(t, newFake(64, 16, 256), Config{Speculation: always(4)})
	got, err := generate(e, r)
	if err == nil {
		err = same(got, want)
	}
	if err != nil {
		t.Error(err)
	}
}

// TestPredictionCounts: a finish says how many tokens of the prediction were computed and right.
func TestPredictionCounts(t *testing.T) {
	r := endless(41)
	want := alone(t, []Request{r})[0]
	for name, c := range map[string]struct {
		predict  []llm.Token
		accepted [2]int // from, to
		rejected [2]int
	}{
		"right": {want.tokens[0], [2]int{30, 40}, [2]int{0, 0}},
		"half":  {want.tokens[0][:20], [2]int{14, 20}, [2]int{0, 0}},
		"with a hole": {append(slices.Clone(want.tokens[0][:13]), want.tokens[0][18:]...), [2]int{20, 40},
			[2]int{1, 16}},
		"ends wrong": {append(slices.Clone(want.tokens[0][:9]), slices.Repeat([]llm.Token{2}, 30)...), [2]int{5, 8},
			[2]int{1, 4}},
	} {
		e := start(t, newFake(64, 16, 256), Config{Speculation: draft.Settings{Tokens: 4, Always: true,
			Off: [draft.Sources]bool{draft.Repeated: true}}})
		r.Prediction = c.predict
		got, err := generate(e, r)
		if err != nil {
			t.Fatal(err)
		}
		f := got.finish[0]
		within := func(n int, b [2]int) bool { return n >= b[0] && n <= b[1] }
		if !slices.Equal(got.tokens[0], want.tokens[0]) || !within(f.AcceptedPrediction, c.accepted) ||
			!within(f.RejectedPrediction, c.rejected) {
			t.Errorf("%s: %d accepted, %d rejected", name, f.AcceptedPrediction, f.RejectedPrediction)
		}
		e.Close()
	}
}

// TestControllerStopsWhatCosts: guesses that are wrong, or that cost more than they save, are not computed for long.
func TestControllerStopsWhatCosts(t *testing.T) {
	known := alone(t, []Request{endless(200)})[0]
	cheap := func(n int) time.Duration { return 2*time.Millisecond + time.Duration(n)*10*time.Microsecond }
	dear := func(n int) time.Duration { return 20 * time.Millisecond * time.Duration(n*n) }
	for _, c := range []struct {
		name    string
		guess   guesser
		took    func(tokens int) time.Duration // of a step
		from    int                            // guesses computed
		to      int
		atLeast int // accepted
	}{
		{"right and cheap", guessers["oracle"], cheap, 100, 200, 100},
		{"wrong", guessers["random"], cheap, 1, 40, 0},
		{"right and dear", guessers["oracle"], dear, 0, 30, 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			var seen counting
			m := newFake(64, 16, 256)
			m.before = func(s llm.Step) { time.Sleep(c.took(len(s.Tokens))) }
			e := start(t, m, Config{Speculation: draft.Settings{Tokens: 8}, Observer: &seen})
			got, err := generate(e, drafted(endless(200), known, c.guess, 1))
			if err != nil || same(got, known) != nil {
				t.Fatal(err, same(got, known))
			}
			e.Close()
			a, r := seen.drafts.Accepted[draft.Plugin], seen.drafts.Rejected[draft.Plugin]
			if a+r < c.from || a+r > c.to || a < c.atLeast {
				t.Errorf("%s: %d guesses were right, %d wrong", c.name, a, r)
			}
		})
	}
}

// TestDearMasksBehindDrafts: a mask that takes long is waited for beside the steps, also where it is that of a guess.
func TestDearMasksBehindDrafts(t *testing.T) {
	known := alone(t, []Request{endless(200)})[0]
	var took [2]time.Duration
	for i := range took {
		synctest.Test(t, func(t *testing.T) {
			m := newFake(64, 16, 256)
			m.before = func(llm.Step) { time.Sleep(2 * time.Millisecond) }
			e := start(t, m, Config{Speculation: always(4 * i)})
			r := rand.New(rand.NewPCG(1, 4))
			slow := endless(200)
			slow.Plugins = func(int) sample.Plugins {
				return sample.Plugins{Drafter: oracle(known.tokens[0]), Masker: &dearMasker{t: t, inner: everything{},
					sleep: func() time.Duration { return time.Duration(max(0, r.IntN(5)-2)) * 20 * time.Millisecond }}}
			}
			began := time.Now()
			st := submit(t, e, t.Context(), slow)
			if _, err := generate(e, endless(200)); err != nil {
				t.Fatal(err)
			}
			took[i] = time.Since(began)
			got, err := collect(st, 1)
			if err == nil {
				err = same(got, known)
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
	if took[1] > took[0]*11/10 {
		t.Errorf("the neighbour's text took %v, without guesses %v", took[1], took[0])
	}
}

// TestDraftsAreHeldToTheMask: guesses that a grammar would not take are not computed, nor what comes behind them.
func TestDraftsAreHeldToTheMask(t *testing.T) {
	known := alone(t, []Request{endless(40)})[0]
	for name, c := range map[string]struct {
		admits   int
		accepted int
	}{"all": {8, 31}, "two": {2, 26}, "none": {0, 0}} {
		var seen counting
		e := start(t, newFake(64, 16, 256), Config{Speculation: always(4), Observer: &seen})
		r := endless(40)
		r.Plugins = func(int) sample.Plugins {
			return sample.Plugins{Drafter: oracle(known.tokens[0]), Masker: admitting{n: c.admits}}
		}
		got, err := generate(e, r)
		if err == nil {
			err = same(got, known)
		}
		e.Close()
		if d := seen.drafts; err != nil || d.Accepted[draft.Plugin] != c.accepted || d.Rejected[draft.Plugin] != 0 {
			t.Errorf("%s: %v, guesses %+v, want %d", name, err, d, c.accepted)
		}
	}
}

// admitting is a masker that admits so many tokens at a time.
type admitting struct {
	everything
	n int
}

func (a admitting) Admits(tokens []llm.Token) int { return min(a.n, len(tokens)) }

// everything is a masker that allows all.
type everything struct{}

func (everything) Mask([]uint32) (bool, error) { return false, nil }
func (everything) Accept(llm.Token) error      { return nil }
