package engine

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"tgi/runtime/llm"
	"tgi/runtime/sample"
	"tgi/runtime/sched"
)

// beamParams returns the settings of a plain beam search.
func beamParams(maxNew, beams, returns int) llm.Params {
	p := params(maxNew)
	p.NumBeams, p.NumReturn, p.LengthPenalty = beams, returns, 1
	return p
}

// state is user code that notices when it is not told every token of its sequence
// in order: a processor and a masker that know each other.
type state struct {
	mu       *sync.Mutex
	open     map[int]int // by number of the state: 1 while it is open
	number   int
	seen     []llm.Token // by the processor
	accepted []llm.Token // by the masker
	failAt   int         // Process fails at this output; 0 is never
	forkAt   int         // Fork fails there
	closed   atomic.Bool
}

func newState() *state {
	return &state{mu: new(sync.Mutex), open: map[int]int{1: 1}, number: 1}
}

func (s *state) plugins() sample.Plugins {
	return sample.Plugins{Processors: []sample.Processor{s}, Masker: distinct{&s.accepted}, Close: s.close,
		Fork: s.fork}
}

func (s *state) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open[s.number]--
	s.closed.Store(true)
}

func (s *state) fork() (sample.Plugins, error) {
	if s.forkAt > 0 && len(s.seen) >= s.forkAt {
		return sample.Plugins{}, errors.New("no more copies")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	f := &state{mu: s.mu, open: s.open, number: len(s.open) + 1, seen: slices.Clone(s.seen), failAt: s.failAt,
		forkAt: s.forkAt}
	s.open[f.number] = 1
	return f.plugins(), nil
}

// left returns the numbers of the states that are not closed exactly once.
func (s *state) left() (out []int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for n, open := range s.open {
		if open != 0 {
			out = append(out, n)
		}
	}
	return out
}

func (s *state) Process(h sample.History, st *sample.Step) error {
	if s.closed.Load() {
		return errors.New("used after its end")
	}
	n := len(h.Output)
	if n > 0 && !slices.Equal(s.seen, h.Output[:n-1]) || n == 0 && len(s.seen) > 0 {
		return fmt.Errorf("told %v after %v", h.Output, s.seen)
	}
	if s.failAt > 0 && n >= s.failAt {
		return errors.New("enough")
	}
	s.seen = slices.Clone(h.Output)
	for i, t := range s.seen {
		st.Logits[(int(t)+i)%len(st.Logits)] -= 0.5
	}
	return nil
}

// distinct is a masker that forbids the last three accepted tokens and their neighbours.
type distinct struct{ accepted *[]llm.Token }

func (d distinct) Mask(bits []uint32) (bool, error) {
	for i := range bits {
		bits[i] = ^uint32(0)
	}
	for _, t := range (*d.accepted)[max(0, len(*d.accepted)-3):] {
		bits[t/32] &^= 1 << (t % 32)
		bits[(t^1)/32] &^= 1 << ((t ^ 1) % 32)
	}
	return true, nil
}

func (d distinct) Accept(t llm.Token) error {
	*d.accepted = append(*d.accepted, t)
	return nil
}

func (d distinct) Fork() sample.Masker {
	list := slices.Clone(*d.accepted)
	return distinct{&list}
}

// beamRequests returns searches of all kinds, and other requests between them.
func beamRequests(n int) []Request {
	r := rand.New(rand.NewPCG(6, uint64(n)))
	out := mixedRequests(n)
	for i := range out {
		if i%4 == 3 {
			continue
		}
		p := beamParams(1+r.IntN(16), 2+r.IntN(3), 1+r.IntN(2))
		p.LengthPenalty = []float32{0, 0.5, 1, 2}[r.IntN(4)]
		p.EarlyStopping = llm.EarlyStopping(r.IntN(3))
		p.Seed, p.IgnoreEOS = uint64(i), i%8 == 1
		if p.Sample = i%3 == 1; p.Sample {
			p.Temperature, p.TopK = 1.3, []int{0, 5}[r.IntN(2)]
		}
		out[i].N, out[i].Params = 1, p
		switch i % 10 {
		case 0:
			out[i].Params.RepetitionPenalty, out[i].Params.PromptLogprobs = 1.4, true
		case 1:
			out[i].Params.Stop = []string{"a", "b", "é"}
		case 2:
			out[i].Params.TopN, out[i].Params.RawLogprobs = 3, true
		case 4, 5, 6:
			out[i].Plugins = func(int) sample.Plugins { return newState().plugins() }
		}
		if i%7 == 0 && i > 0 {
			out[i].Prompt = slices.Clone(out[i-1].Prompt)
		}
	}
	return out
}

// TestBeamsTogetherAsAlone: neither what else runs, nor the size of the cache, nor
// being computed again changes what a search finds.
func TestBeamsTogetherAsAlone(t *testing.T) {
	reqs := beamRequests(40)
	want := alone(t, reqs)
	lengths := map[int]bool{}
	for i, o := range want {
		if p := reqs[i].Params; p.NumBeams > 1 {
			lengths[len(o.tokens[0])] = true
			for k, f := range o.finish {
				if f.Text != o.texts[k] && !strings.Contains(f.Text, "\uFFFD") || k > 0 &&
					f.Score > o.finish[k-1].Score || f.Generated != len(o.tokens[k]) {
					t.Errorf("request %d, sequence %d: tokens %v, texts %q, %+v", i, k, o.tokens[k], o.texts[k], f)
				}
			}
		}
	}
	if len(lengths) < 6 {
		t.Errorf("sequences of %d lengths", len(lengths))
	}
	for _, s := range []struct {
		name      string
		blocks    int
		blockSize int
		set       sched.Settings
		preempts  bool
	}{
		{"roomy", 512, 16, sched.Settings{}, false},
		{"tiny cache", 20, 8, sched.Settings{}, true},
		{"tiny cache, no sharing", 20, 8, sched.Settings{NoPrefixSharing: true}, true},
		{"tiny cache, chunks of 3", 26, 5, sched.Settings{MaxBatchPrefillTokens: 3}, true},
		{"blocks of one token", 150, 1, sched.Settings{MaxPromptLogits: 3}, true},
		{"blocks of 64", 16, 64, sched.Settings{}, true},
		{"blocks of 128", 14, 128, sched.Settings{MaxBatchPrefillTokens: 3}, true},
		{"blocks of 256", 12, 256, sched.Settings{}, true},
		{"few rows", 64, 16, sched.Settings{MaxBatchSize: 5}, false},
	} {
		t.Run(s.name, func(t *testing.T) {
			m := newFake(s.blocks, s.blockSize, 256)
			e := start(t, m, Config{Settings: s.set})
			together(t, e, m, ofClients(reqs, 3), func(i int, got outcome) error { return same(got, want[i]) })
			if n := e.Stats().Preempted; s.preempts && n == 0 {
				t.Error("no sequence was preempted")
			}
		})
	}
}

// TestBeamsAreTheBest: with as many beams as there are sequences the search is
// exhaustive, and what it returns are the likeliest of all.
func TestBeamsAreTheBest(t *testing.T) {
	m := newFake(512, 4, 64)
	e := start(t, m, Config{})
	v := len(pieces)
	p := beamParams(2, v, 5)
	p.IgnoreEOS = true
	prompt := []llm.Token{9, 8, 7}
	got, err := generate(e, Request{Prompt: prompt, Params: p})
	if err != nil {
		t.Fatal(err)
	}
	type pair struct {
		a, b  llm.Token
		score float64
	}
	rate := func(h []llm.Token) []float64 {
		row := make([]float32, v)
		logitsOf(h, row)
		sum := 0.0
		for _, x := range row {
			sum += math.Exp(float64(x))
		}
		out := make([]float64, v)
		for i, x := range row {
			out[i] = float64(x) - math.Log(sum)
		}
		return out
	}
	var all []pair
	for a, x := range rate(prompt) {
		for b, y := range rate(append(slices.Clone(prompt), llm.Token(a))) {
			all = append(all, pair{llm.Token(a), llm.Token(b), (x + y) / 2})
		}
	}
	slices.SortFunc(all, func(x, y pair) int {
		if x.score > y.score {
			return -1
		}
		return 1
	})
	for i, s := range got.tokens {
		w := all[i]
		if !slices.Equal(s, []llm.Token{w.a, w.b}) || math.Abs(float64(got.finish[i].Score)-w.score) > 1e-5 {
			t.Errorf("sequence %d: %v with %v, want %v", i, s, got.finish[i].Score, w)
		}
	}
}

// TestNothingComesBeforeTheEnd: a reader gets the events of the best sequences one
// after the other, when the search has ended.
func TestNothingComesBeforeTheEnd(t *testing.T) {
	e := byHand(t, newFake(64, 16, 256), Config{})
	r := endless(6)
	r.Params.NumBeams, r.Params.NumReturn, r.Params.TopN, r.Params.PromptLogprobs = 4, 3, 2, true
	st := submit(t, e, context.Background(), r)
	for range 5 {
		e.step()
		if it, ok := st.pop(); ok {
			t.Fatalf("an event before the end: %+v", it)
		}
		if s := e.Stats(); s.Running != 4 || e.open != 4 {
			t.Fatalf("%d run, %d are open", s.Running, e.open)
		}
	}
	for e.step() {
	}
	events, err := readAll(st)
	if err != nil || len(events) != 18 {
		t.Fatalf("%d events, %v", len(events), err)
	}
	for i, ev := range events {
		if ev.Index != i/6 || (ev.Finish != nil) != (i%6 == 5) || len(ev.Top) != 2 || (ev.Prefill != nil) != (i == 0) {
			t.Errorf("event %d: %+v", i, ev)
		}
		if f := ev.Finish; f != nil && (f.Reason != llm.FinishLength || f.Generated != 6 || f.Prompt != 20 ||
			f.Score >= 0) {
			t.Errorf("event %d: %+v", i, f)
		}
	}
	if used, _, _ := e.sched.Cache(); used != 0 || e.open != 0 || len(e.active) != 0 {
		t.Errorf("left over: %d blocks, %d open, %d sequences", used, e.open, len(e.active))
	}
}

// TestBeamsShareBlocks: of a long prompt there is one copy.
func TestBeamsShareBlocks(t *testing.T) {
	m := newFake(64, 4, 256)
	e := byHand(t, m, Config{})
	r := endless(10)
	r.Prompt = randomTokens(rand.New(rand.NewPCG(1, 1)), 80)
	r.Params.NumBeams = 4
	submit(t, e, context.Background(), r)
	most := 0
	for e.step() {
		most = max(most, e.Stats().KVUsed)
	}
	if most > 20+4*3 || m.copies == 0 {
		t.Errorf("%d blocks for a prompt of 20 and 4 beams of 3, %d copied", most, m.copies)
	}
}

// TestBeamsCloseTheirUserCode ends searches at every step in every way, and counts
// what was opened and closed.
func TestBeamsCloseTheirUserCode(t *testing.T) {
	request := func(s *state) Request {
		r := endless(12)
		r.Params.NumBeams, r.Params.NumReturn = 4, 2
		r.Plugins = func(int) sample.Plugins { return s.plugins() }
		return r
	}
	ways := map[string]func(m *fakeModel, e *Engine, st *Stream, s *state){
		"runs to its end": func(*fakeModel, *Engine, *Stream, *state) {},
		"closed":          func(_ *fakeModel, _ *Engine, st *Stream, _ *state) { st.Close() },
		"model fails":     func(m *fakeModel, _ *Engine, _ *Stream, _ *state) { m.fail = errors.New("out of order") },
		"model panics":    func(m *fakeModel, _ *Engine, _ *Stream, _ *state) { m.boom = "out of order" },
		"engine fails":    func(_ *fakeModel, e *Engine, _ *Stream, _ *state) { e.failAll(llm.ErrClosed) },
	}
	for name, way := range ways {
		for steps := range 13 {
			m := newFake(64, 4, 256)
			e := byHand(t, m, Config{})
			s := newState()
			st := submit(t, e, context.Background(), request(s))
			for range steps {
				e.step()
			}
			way(m, e, st, s)
			for e.step() {
			}
			_, err := readAll(st)
			if over := steps == 12 || name == "runs to its end"; over != (err == nil) && name != "closed" {
				t.Errorf("%s after %d steps: %v", name, steps, err)
			}
			if left := s.left(); len(left) > 0 {
				t.Errorf("%s after %d steps: of %d states %v are open, or were closed twice", name, steps, len(s.open),
					left)
			}
			if used, _, _ := e.sched.Cache(); used != 0 || e.open != 0 || len(e.active) != 0 {
				t.Errorf("%s after %d steps: %d blocks, %d open, %d sequences are left", name, steps, used, e.open,
					len(e.active))
			}
		}
	}
	for at := 1; at < 6; at++ {
		for _, s := range []*state{{failAt: at}, {forkAt: at}} {
			s.mu, s.open, s.number = new(sync.Mutex), map[int]int{1: 1}, 1
			e := byHand(t, newFake(64, 4, 256), Config{})
			st := submit(t, e, context.Background(), request(s))
			for e.step() {
			}
			for i := range 2 {
				if ev, err := st.Next(t.Context()); !errors.Is(err, llm.ErrPlugin) || ev.Index != i {
					t.Errorf("%+v, %v", ev, err)
				}
			}
			if _, err := st.Next(t.Context()); err != io.EOF {
				t.Errorf("got %v", err)
			}
			if left := s.left(); len(left) > 0 || len(s.open) < 2 {
				t.Errorf("failure at %d: of %d states %v are open", at, len(s.open), left)
			}
		}
	}
}

func TestBeamsUnderAMask(t *testing.T) {
	e := start(t, newFake(64, 4, 256), Config{})
	r := Request{Prompt: []llm.Token{5, 6}, Params: beamParams(10, 4, 3)}
	// Two texts are possible: 7 </s> and 7 8 </s>.
	tree := map[string][]llm.Token{"[]": {7}, "[7]": {8, tokEOS}, "[7 8]": {tokEOS}}
	r.Plugins = func(int) sample.Plugins { return sample.Plugins{Masker: grammar{tree, new([]llm.Token)}} }
	st := submit(t, e, t.Context(), r)
	got := map[string]bool{}
	var tokens []llm.Token
	var end error
	for end == nil {
		ev, err := st.Next(t.Context())
		if end = err; err == nil {
			if tokens = append(tokens, ev.Token); ev.Finish != nil {
				got[fmt.Sprint(tokens)] = true
				tokens = nil
			}
		} else if ev.Index != 2 {
			t.Errorf("sequence %d fails: %v", ev.Index, err)
		}
	}
	if !maps.Equal(got, map[string]bool{"[7 0]": true, "[7 8 0]": true}) || !errors.Is(end, sample.ErrNoToken) {
		t.Errorf("found %v, then %v", got, end)
	}
	r.Params.NumReturn = 2
	if o, err := generate(e, r); err != nil || o.finish[1].Reason != llm.FinishEOS {
		t.Errorf("%+v, %v", o, err)
	}
	delete(tree, "[7]")
	delete(tree, "[7 8]")
	if _, err := generate(e, r); !errors.Is(err, sample.ErrNoToken) || !errors.Is(err, llm.ErrInvalid) {
		t.Errorf("a grammar without an end: %v", err)
	}
}

// grammar allows what tree has behind the accepted tokens.
type grammar struct {
	tree     map[string][]llm.Token
	accepted *[]llm.Token
}

func (g grammar) Mask(bits []uint32) (bool, error) {
	clear(bits)
	for _, t := range g.tree[fmt.Sprint(*g.accepted)] {
		bits[t/32] |= 1 << (t % 32)
	}
	return true, nil
}

func (g grammar) Accept(t llm.Token) error {
	*g.accepted = append(*g.accepted, t)
	return nil
}

func (g grammar) Fork() sample.Masker {
	list := slices.Clone(*g.accepted)
	return grammar{g.tree, &list}
}

// TestBeamsStop: stop strings, and processors that end or force.
func TestBeamsStop(t *testing.T) {
	e := start(t, newFake(64, 4, 256), Config{})
	r := endless(30)
	r.Params.NumBeams, r.Params.NumReturn = 4, 4
	r.Params.Stop = []string{"a", "é"}
	o, err := generate(e, r)
	if err != nil {
		t.Fatal(err)
	}
	for i, f := range o.finish {
		if f.Reason != llm.FinishStop || !strings.HasSuffix(f.Text, f.Stop) ||
			strings.IndexAny(f.Text, "aé") != len(f.Text)-len(f.Stop) {
			t.Errorf("sequence %d: %+v", i, f)
		}
	}
	// Stop strings that no token has alone: "cd" is the end of one and the beginning of another.
	r = endless(50)
	r.Params.NumBeams, r.Params.NumReturn = 4, 4
	for _, a := range "abc" {
		for _, b := range "defgh" {
			r.Params.Stop = append(r.Params.Stop, string(a)+string(b))
		}
	}
	if o, err = generate(e, r); err != nil {
		t.Fatal(err)
	}
	for i, f := range o.finish {
		first := len(f.Text)
		for _, s := range r.Params.Stop {
			if at := strings.Index(f.Text, s); at >= 0 {
				first = min(first, at+len(s))
			}
		}
		if f.Reason != llm.FinishStop || first != len(f.Text) {
			t.Errorf("sequence %d: %d tokens, %+v", i, len(o.tokens[i]), f)
		}
	}
	r = endless(30)
	r.Params.NumBeams = 3
	r.Plugins = func(int) sample.Plugins {
		p := sample.Plugins{Processors: []sample.Processor{stopper{at: 3, force: 5}}}
		p.Fork = func() (sample.Plugins, error) { return p, nil }
		return p
	}
	o, err = generate(e, r)
	if err != nil || !slices.Equal(o.tokens[0], []llm.Token{5, 5, 5, tokEOS}) || o.finish[0].Reason != llm.FinishEOS {
		t.Errorf("%v, %+v, %v", o.tokens, o.finish, err)
	}
}

func TestBeamsRefused(t *testing.T) {
	e := start(t, newFake(10, 4, 256), Config{Settings: sched.Settings{MaxConcurrentRequests: 4}})
	request := func(set func(r *Request)) Request {
		r := Request{Prompt: []llm.Token{3}, Params: beamParams(4, 2, 1)}
		set(&r)
		return r
	}
	nan := float32(math.NaN())
	for _, c := range []struct {
		set  func(r *Request)
		want string
	}{
		{func(r *Request) { r.Params.NumBeams = -1 }, "invalid request: num_beams must be >= 0. Given: -1"},
		{func(r *Request) { r.Params.NumBeams = 5 }, "invalid request: num_beams must be at most 4, got 5"},
		{func(r *Request) {
			r.N = 2
		}, "invalid request: n and best_of must be 1 with num_beams, whose best sequences are asked for otherwise. Given: 2 with num_beams 2"},
		{func(r *Request) { r.Params.NumReturn = 3 },
			"invalid request: the sequences to return must be at most num_beams, 2. Given: 3"},
		{func(r *Request) { r.Params.LengthPenalty = nan },
			"invalid request: length_penalty must be finite. Given: NaN"},
		{func(r *Request) { r.Params.EarlyStopping = 3 },
			"invalid request: early_stopping must be at most 2. Given: 3"},
		{func(r *Request) { r.Params.NumBeams, r.Params.MaxNewTokens = 4, 12 },
			"request exceeds the model's capacity: 4 beams of 1 prompt tokens and 12 new ones need 12 cache blocks of 4 tokens, there are 10"},
		{func(r *Request) {
			r.Plugins = func(int) sample.Plugins {
				return sample.Plugins{Processors: []sample.Processor{stopper{}}}
			}
		}, "invalid request: beam search needs plugins whose state can be cloned, and a processor's cannot"},
	} {
		if _, err := e.Submit(t.Context(), request(c.set)); fmt.Sprint(err) != c.want ||
			!(errors.Is(err, llm.ErrInvalid) || errors.Is(err, llm.ErrTooLong)) {
			t.Errorf("got %v, want %s", err, c.want)
		}
	}
	// One beam is no search, whatever else is set.
	one := request(func(r *Request) { r.Params.NumBeams, r.Params.NumReturn, r.N = 1, 0, 2 })
	if o, err := generate(e, one); err != nil || o.finish[0].Score != 0 {
		t.Errorf("%+v, %v", o, err)
	}
}

// TestBeamsCountAsSequences: a search is as many sequences as it has beams, to the
// bound on those that wait or run.
func TestBeamsCountAsSequences(t *testing.T) {
	e := byHand(t, newFake(64, 4, 256), Config{Settings: sched.Settings{MaxConcurrentRequests: 4}})
	r := endless(4)
	r.Params.NumBeams = 3
	submit(t, e, t.Context(), r)
	r.Params.NumBeams = 2
	if _, err := e.Submit(t.Context(), r); !errors.Is(err, llm.ErrOverloaded) {
		t.Errorf("beside three of four sequences: %v", err)
	}
	for e.step() {
	}
	submit(t, e, t.Context(), r)
	for e.step() {
	}
}
