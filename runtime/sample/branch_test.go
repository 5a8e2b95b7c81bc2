package sample

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"tgi/runtime/llm"
)

func branches(t *testing.T, c *Chain, h History, logits []float32, b Beam) ([]Branch, []Candidate) {
	t.Helper()
	list, top, err := c.Branches(h, slices.Clone(logits), b)
	if err != nil {
		t.Fatal(err)
	}
	return list, top
}

func chain(t *testing.T, p llm.Params, vocab int, ends []llm.Token, plug Plugins) *Chain {
	t.Helper()
	c, err := New(p, vocab, ends, plug)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// logSoftmax is the log-softmax in 64 bits.
func logSoftmax(x []float32) []float64 {
	sum := 0.0
	for _, v := range x {
		sum += math.Exp(float64(v))
	}
	out := make([]float64, len(x))
	for i, v := range x {
		out[i] = float64(v) - math.Log(sum)
	}
	return out
}

// TestBestBranches: without drawing, the branches are the best of what a penalty
// left of the log-probabilities, whatever narrows the distribution otherwise.
func TestBestBranches(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 9))
	for _, n := range []int{3, 40, 2000} {
		p := off()
		p.RepetitionPenalty, p.Temperature, p.TopK, p.TopP, p.MinP = 1.7, 0.1, 1, 0.1, 0.9
		x := normals(rng, n, 3)
		h := History{Prompt: []llm.Token{0}, Output: []llm.Token{2}}
		want := logSoftmax(x)
		want[0] *= 1.7
		want[2] *= 1.7
		order := make([]int, n)
		for i := range order {
			order[i] = i
		}
		slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(want[b], want[a]) })
		for _, raw := range []bool{false, true} {
			p.RawLogprobs, p.TopN = raw, 2
			list, top := branches(t, chain(t, p, n, nil, Plugins{}), h, x, Beam{Score: -5, N: 4})
			if len(list) != min(4, n) || len(top) != 2 {
				t.Fatalf("%d branches, %d top tokens", len(list), len(top))
			}
			for i, b := range list {
				report := want[order[i]]
				if raw {
					report = logSoftmax(x)[order[i]]
				}
				if int(b.Token) != order[i] || math.Abs(b.Score+5-want[order[i]]) > 1e-5 || b.Key != b.Score ||
					math.Abs(float64(b.Logprob)-report) > 1e-5 {
					t.Errorf("branch %d of %d: %+v, want token %d with %v", i, n, b, order[i], want[order[i]])
				}
			}
			if !raw && (int(top[0].Token) != order[0] || top[0].Logprob != list[0].Logprob ||
				int(top[1].Token) != order[1]) {
				t.Errorf("top %+v, branches %+v", top, list)
			}
		}
	}
}

// TestEqualBranches: of equals those with lower ids come first, and no more than N.
func TestEqualBranches(t *testing.T) {
	list, _ := branches(t, chain(t, off(), 8, nil, Plugins{}), History{}, make([]float32, 8), Beam{N: 3})
	if len(list) != 3 || list[0].Token != 0 || list[2].Token != 2 {
		t.Errorf("%+v", list)
	}
}

// TestDrawsWithoutReplacement compares the first three branches of two beams with
// the probabilities of drawing them one after the other without putting back
// (Plackett and Luce).
func TestDrawsWithoutReplacement(t *testing.T) {
	t.Run("whole rows", func(t *testing.T) { testDraws(t, 0) })
	t.Run("survivors", func(t *testing.T) { testDraws(t, 1e-6) }) // of which there are all
}

func testDraws(t *testing.T, minP float32) {
	rows := [][]float32{{1, 0, -1, 2}, {0.5, 0.5, -2, 1}}
	scores := []float64{-1, -0.4}
	p := off()
	p.Sample, p.Temperature, p.MinP = true, 0.8, minP
	weight := map[[2]int]float64{}
	total := 0.0
	for r, x := range rows {
		for tok, lp := range logSoftmax(x) {
			w := math.Exp(scores[r] + lp/0.8)
			weight[[2]int{r, tok}] = w
			total += w
		}
	}
	const rounds = 20000
	first, pair := map[[2]int]int{}, map[[4]int]int{}
	triples := 0
	type drawn struct {
		row int
		Branch
	}
	c := chain(t, p, 4, nil, Plugins{})
	for c.seed = range uint64(rounds) {
		var all []drawn
		for r, x := range rows {
			list, _ := branches(t, c, History{Output: []llm.Token{1}}, x, Beam{Score: scores[r], Rank: r, N: 4})
			for i, b := range list {
				if i > 0 && b.Key > list[i-1].Key {
					t.Fatalf("keys grow: %+v", list)
				}
				all = append(all, drawn{r, b})
			}
		}
		if len(all) != 8 {
			t.Fatalf("%d branches of 8 tokens", len(all))
		}
		slices.SortFunc(all, func(a, b drawn) int { return cmp.Compare(b.Key, a.Key) })
		a, b := [2]int{all[0].row, int(all[0].Token)}, [2]int{all[1].row, int(all[1].Token)}
		first[a]++
		pair[[4]int{a[0], a[1], b[0], b[1]}]++
		if all[0].row == 0 && all[1].row == 0 && all[2].row == 0 {
			triples++
		}
	}
	near := func(what string, got int, want float64) {
		t.Helper()
		if sigma := math.Sqrt(rounds * want * (1 - want)); math.Abs(float64(got)-rounds*want) > 4.5*sigma {
			t.Errorf("%s: %d times, want %.0f with a deviation of %.0f", what, got, rounds*want, sigma)
		}
	}
	three := 0.0
	for a, wa := range weight {
		near(fmt.Sprint(a), first[a], wa/total)
		for b, wb := range weight {
			if a == b {
				continue
			}
			near(fmt.Sprint(a, b), pair[[4]int{a[0], a[1], b[0], b[1]}], wa/total*wb/(total-wa))
			for c, wc := range weight {
				if c != a && c != b && a[0]+b[0]+c[0] == 0 {
					three += wa / total * wb / (total - wa) * wc / (total - wa - wb)
				}
			}
		}
	}
	near("three of the first row", triples, three)
}

// TestNothingIsDrawnTwice draws more than there is.
func TestNothingIsDrawnTwice(t *testing.T) {
	for _, minP := range []float32{0, 1e-12} {
		p := off()
		p.Sample, p.MinP = true, minP
		x := normals(rand.New(rand.NewPCG(4, 4)), 3000, 4)
		list, _ := branches(t, chain(t, p, len(x), nil, Plugins{}), History{}, x, Beam{N: 4000})
		seen := map[llm.Token]bool{}
		for i, b := range list {
			if seen[b.Token] || i > 0 && b.Key > list[i-1].Key || math.Abs(b.Score-logSoftmax(x)[b.Token]) > 1e-4 {
				t.Fatalf("branch %d: %+v", i, b)
			}
			seen[b.Token] = true
		}
		if len(list) < 2500 { // the others are e^27 and more below the best
			t.Errorf("%d of %d were drawn", len(list), len(x))
		}
	}
}

// TestDrawnBranchesAreNarrowed: what the warpers drop is not drawn, but one more
// token than there are ends stays, and the rest keeps its scores.
func TestDrawnBranchesAreNarrowed(t *testing.T) {
	x := []float32{3, 2, 1, 0, -1, -2}
	for _, c := range []struct {
		set  func(p *llm.Params)
		ends []llm.Token
		want int
	}{
		{func(p *llm.Params) { p.TopK = 4 }, nil, 4},
		{func(p *llm.Params) { p.TopK = 1 }, []llm.Token{0, 1}, 3},
		{func(p *llm.Params) { p.TopP = 0.01 }, []llm.Token{0}, 2},
		{func(p *llm.Params) { p.MinP = 1 }, []llm.Token{0, 5, 4}, 4},
		{func(p *llm.Params) {}, nil, 6},
	} {
		p := off()
		p.Sample, p.Seed = true, 3
		c.set(&p)
		list, _ := branches(t, chain(t, p, 6, c.ends, Plugins{}), History{}, x, Beam{N: 6})
		if len(list) != c.want {
			t.Errorf("%+v: %d branches, want %d", p, len(list), c.want)
		}
		for _, b := range list {
			if int(b.Token) >= c.want || math.Abs(b.Score-logSoftmax(x)[b.Token]) > 1e-5 {
				t.Errorf("branch %+v of %d", b, c.want)
			}
		}
	}
}

// TestBranchesUnderUserCode: what a processor sets and a mask forbids.
func TestBranchesUnderUserCode(t *testing.T) {
	x := []float32{3, 2, 1, 0}
	own := logSoftmax(x)
	forbid0 := func(s *Step) { s.Logits[0], s.Logits[1] = negInf, negInf }
	for _, c := range []struct {
		name   string
		sample bool
		set    func(s *Step)
		mask   []llm.Token
		want   string // tokens; "!" behind one that stops
		score  float64
	}{
		{"nothing", false, func(*Step) {}, nil, "[0 1 2]", own[0]},
		{"a processor forbids", false, forbid0, nil, "[2 3]", own[2]},
		{"a mask forbids", false, func(*Step) {}, []llm.Token{3, 1}, "[1 3]", own[1]},
		{"both forbid all", false, forbid0, []llm.Token{0}, "[]", 0},
		{"forced", false, func(s *Step) { s.Force = 2 }, nil, "[2]", own[2]},
		{"forced though forbidden", false, func(s *Step) { forbid0(s); s.Force = 0 }, nil, "[0]", own[0]},
		{"stopped", false, func(s *Step) { s.Stop = true }, nil, "[3!]", own[3]},
		{"the temperature is for draws", false, func(s *Step) { s.Temperature = 0.01 }, nil, "[0 1 2]", own[0]},
		{"no temperature", true, func(s *Step) { s.Temperature = 0 }, nil, "[0]", own[0]},
		{"a temperature", true, func(s *Step) { forbid0(s); s.Logits[3] = negInf; s.Temperature = 2 }, nil, "[2]",
			own[2] / 2},
	} {
		p := off()
		p.Sample = c.sample
		plug := Plugins{Processors: []Processor{stepFunc(c.set)}}
		if c.mask != nil {
			plug.Masker = &script{steps: [][]llm.Token{c.mask}}
		}
		list, _ := branches(t, chain(t, p, 4, []llm.Token{3}, plug), History{}, x, Beam{N: 3})
		names := []string{}
		for _, b := range list {
			name := fmt.Sprint(b.Token)
			if b.Stop {
				name += "!"
			}
			names = append(names, name)
		}
		if fmt.Sprint(names) != c.want || len(list) > 0 && math.Abs(list[0].Score-c.score) > 1e-5 {
			t.Errorf("%s: %v with score %v, want %s with %v", c.name, names, list, c.want, c.score)
		}
	}
}

func TestBranchErrors(t *testing.T) {
	none := []float32{negInf, negInf}
	if _, _, err := chain(t, off(), 2, nil, Plugins{}).Branches(History{}, none, Beam{N: 1}); !errors.Is(err,
		llm.ErrBackend) || !errors.Is(err, ErrNoToken) {
		t.Errorf("a model without a token: %v", err)
	}
	force := Plugins{Processors: []Processor{stepFunc(func(s *Step) { s.Force = 0 })},
		Masker: &script{steps: [][]llm.Token{{1}}}}
	c := chain(t, off(), 2, nil, force)
	if _, _, err := c.Branches(History{}, []float32{1, 2}, Beam{N: 1}); !errors.Is(err, llm.ErrPlugin) {
		t.Errorf("a forced token that the mask forbids: %v", err)
	}
	if err := c.Follow(1); !errors.Is(err, llm.ErrPlugin) {
		t.Errorf("a chain goes on after an error: %v", err)
	}
	told := chain(t, off(), 2, nil, Plugins{Masker: &script{steps: [][]llm.Token{nil}, tellErr: errGuest}})
	branches(t, told, History{}, []float32{1, 2}, Beam{N: 1})
	if err := told.Follow(1); !errors.Is(err, errGuest) || !errors.Is(err, llm.ErrPlugin) {
		t.Errorf("accept: %v", err)
	}
}

// ledger is a Masker that allows each token once.
type ledger struct{ accepted *[]llm.Token }

func (l ledger) Mask(bits []uint32) (bool, error) {
	for i := range bits {
		bits[i] = ^uint32(0)
	}
	for _, t := range *l.accepted { // each token once
		bits[t/32] &^= 1 << (t % 32)
	}
	return true, nil
}

func (l ledger) Accept(t llm.Token) error {
	*l.accepted = append(*l.accepted, t)
	return nil
}

func (l ledger) Fork() Masker {
	list := slices.Clone(*l.accepted)
	return ledger{&list}
}

// counter is a processor whose state must be its own: it makes a token that it saw
// picked less likely.
type counter struct{ seen map[llm.Token]float32 }

func (c counter) Process(h History, s *Step) error {
	if n := len(h.Output); n > 0 {
		c.seen[h.Output[n-1]] += 0.3
	}
	for t, v := range c.seen {
		s.Logits[t] -= v
	}
	return nil
}

func (c counter) plugins(open *int) Plugins {
	*open++
	list := []llm.Token{}
	return Plugins{
		Processors: []Processor{c}, Masker: ledger{&list}, Close: func() { *open-- },
		Fork: func() (Plugins, error) {
			seen := map[llm.Token]float32{}
			for t, v := range c.seen {
				seen[t] = v
			}
			p := counter{seen}.plugins(open)
			p.Masker = nil
			return p, nil
		},
	}
}

// TestForksGoTheirOwnWay walks a tree of forks in random order and compares each
// step with a chain that walked there alone.
func TestForksGoTheirOwnWay(t *testing.T) {
	const vocab = 50
	rng := rand.New(rand.NewPCG(7, 7))
	p := off()
	p.RepetitionPenalty, p.FrequencyPenalty, p.PresencePenalty = 1.4, 0.5, 0.2
	prompt := []llm.Token{3, 4, 3}
	row := func(out []llm.Token) []float32 {
		h := uint64(len(out))
		for _, t := range out {
			h = h*31 + uint64(t)
		}
		return normals(rand.New(rand.NewPCG(h, 5)), vocab, 2)
	}
	open := 0
	start := func() *Chain { return chain(t, p, vocab, nil, counter{map[llm.Token]float32{}}.plugins(&open)) }
	type walker struct {
		chain *Chain
		out   []llm.Token
		close func()
	}
	live := []*walker{{start(), nil, func() { open-- }}}
	for range 60 {
		w := live[rng.IntN(len(live))]
		list, _ := branches(t, w.chain, History{Prompt: prompt, Output: w.out}, row(w.out), Beam{N: 3})
		alone := start()
		for i := range w.out {
			branches(t, alone, History{Prompt: prompt, Output: w.out[:i]}, row(w.out[:i]), Beam{N: 3})
			if err := alone.Follow(w.out[i]); err != nil {
				t.Fatal(err)
			}
		}
		want, _ := branches(t, alone, History{Prompt: prompt, Output: w.out}, row(w.out), Beam{N: 3})
		if open--; !slices.Equal(list, want) {
			t.Fatalf("behind %v: %+v, alone %+v", w.out, list, want)
		}
		twin, close, err := w.chain.Fork()
		if err != nil {
			t.Fatal(err)
		}
		live = append(live, &walker{twin, append(slices.Clone(w.out), list[1].Token), close})
		w.out = append(slices.Clone(w.out), list[0].Token)
		if err := errors.Join(w.chain.Follow(list[0].Token), twin.Follow(list[1].Token)); err != nil {
			t.Fatal(err)
		}
	}
	if len(live) != open {
		t.Errorf("%d are open, %d live", open, len(live))
	}
	for _, w := range live {
		w.close()
	}
	if open != 0 {
		t.Errorf("%d are left open", open)
	}
}

func TestCanFork(t *testing.T) {
	processor := stepFunc(func(*Step) {})
	fork := func() (Plugins, error) { return Plugins{}, nil }
	for _, c := range []struct {
		plug Plugins
		want string
	}{
		{Plugins{}, "<nil>"},
		{Plugins{Processors: []Processor{processor}, Masker: ledger{}, Fork: fork}, "<nil>"},
		{Plugins{Processors: []Processor{processor}},
			"invalid request: beam search needs plugins whose state can be cloned, and a processor's cannot"},
		{Plugins{Masker: &script{}, Fork: fork}, "<nil>"},
		{Plugins{Masker: &script{}}, "invalid request: beam search needs a grammar whose state can be cloned"},
		{Plugins{Sampler: samplerFunc(nil), Fork: fork},
			"invalid request: beam search picks the tokens itself and cannot run beside a plugin that does"},
	} {
		if got := fmt.Sprint(chain(t, off(), 4, nil, c.plug).CanFork()); got != c.want {
			t.Errorf("got %s, want %s", got, c.want)
		}
	}
	closed := false
	forgets := chain(t, off(), 4, nil, Plugins{Masker: &script{}, Fork: func() (Plugins, error) {
		return Plugins{Close: func() { closed = true }}, nil
	}})
	if _, close, err := forgets.Fork(); !errors.Is(err, llm.ErrPlugin) {
		t.Errorf("a clone without the mask: %v", err)
	} else if close(); !closed {
		t.Error("it cannot be closed")
	}
	mine := &script{steps: [][]llm.Token{{2}, {3}}}
	whole := chain(t, off(), 4, nil, Plugins{Masker: &script{}, Fork: func() (Plugins, error) {
		return Plugins{Masker: mine}, nil
	}})
	if twin, _, err := whole.Fork(); err != nil {
		t.Error(err)
	} else if list, _ := branches(t, twin, History{}, make([]float32, 4), Beam{N: 4}); len(list) != 1 ||
		list[0].Token != 2 {
		t.Errorf("under the clone's mask: %+v", list)
	}
	failing := chain(t, off(), 4, nil, Plugins{Fork: func() (Plugins, error) { return Plugins{}, errGuest }})
	if _, _, err := failing.Fork(); !errors.Is(err, errGuest) || !errors.Is(err, llm.ErrPlugin) {
		t.Errorf("got %v", err)
	}
}
