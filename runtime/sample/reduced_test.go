package sample

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"tgi/runtime/llm"
	"tgi/runtime/reduce"
)

// fixedMask is a masker that allows the same tokens at each step.
type fixedMask struct {
	bits []uint32
	off  bool
}

func (m *fixedMask) Mask(bits []uint32) (bool, error) { copy(bits, m.bits); return !m.off, nil }
func (m *fixedMask) Accept(llm.Token) error           { return nil }

// nthSampler picks a fixed candidate of those it is shown, or leaves the choice to the chain.
type nthSampler struct{ limit, nth int }

func (p nthSampler) Candidates() int { return p.limit }
func (p nthSampler) Sample(_ History, c []Candidate) (int, error) {
	if p.nth < 0 {
		return NoChoice, nil
	}
	return p.nth % len(c), nil
}

// reducedCase is a row and the settings to pick from it with.
type reducedCase struct {
	params llm.Params
	h      History
	x      []float32
	mask   *fixedMask // or nil
	pick   Sampler    // or nil
}

func (c *reducedCase) chain(t testing.TB) *Chain {
	t.Helper()
	plug := Plugins{Sampler: c.pick}
	if c.mask != nil {
		plug.Masker = c.mask
	}
	chain, err := New(c.params, len(c.x), []llm.Token{0}, plug)
	if err != nil {
		t.Fatalf("%+v: %v", c.params, err)
	}
	return chain
}

// whole picks from the whole row.
func (c *reducedCase) whole(t testing.TB, set llm.Params) (Pick, error) {
	w := *c
	w.params = set
	p, err := w.chain(t).Pick(c.h, slices.Clone(c.x))
	p.Top = slices.Clone(p.Top)
	return p, err
}

// reduced picks from the reduced row. It returns what was asked for.
func (c *reducedCase) reduced(t testing.TB) (p Pick, asked []llm.Reduction, decided bool, err error) {
	chain := c.chain(t)
	if err := chain.Prepare(c.h); err != nil {
		t.Fatal(err)
	}
	asked, ok := chain.Reductions(c.h, 0, nil)
	if !ok {
		return p, nil, false, nil
	}
	var list []llm.Reduced
	for i := range asked {
		list = append(list, reduce.Row(c.x, &asked[i]))
	}
	p, decided, err = chain.PickReduced(c.h, list)
	if !decided && err == nil { // the chain is as before
		if p, err = chain.Pick(c.h, slices.Clone(c.x)); err != nil {
			t.Fatal(err)
		}
	}
	p.Top = slices.Clone(p.Top)
	return p, asked, decided, err
}

// randomRow draws rows as models make them, and such as none should make.
func randomRow(rng *rand.Rand) []float32 {
	n := []int{1, 2, 255, 256, 257, 300, 1024, 1025, 5000, 20000}[rng.IntN(10)]
	x := normals(rng, n, []float64{0.01, 1, 3, 6, 40}[rng.IntN(5)])
	switch rng.IntN(8) {
	case 0: // ties
		step := float32([]float64{0.25, 1, 4}[rng.IntN(3)])
		for i := range x {
			x[i] = float32(math.Round(float64(x[i]/step))) * step
		}
	case 1: // all equal
		for i := range x {
			x[i] = 3
		}
	case 2:
		for i := range x {
			if rng.IntN(10) > 0 {
				x[i] = negInf
			}
		}
	case 3:
		for range 1 + n/10 {
			x[rng.IntN(n)] = []float32{nan, negInf, float32(math.Copysign(0, -1)), 0, math.MaxFloat32,
				-math.MaxFloat32}[rng.IntN(6)]
		}
	case 4:
		for i := range x {
			x[i] = 0 * float32(1-2*(i%2)) // the two zeros
		}
	case 5:
		if rng.IntN(4) == 0 {
			x[rng.IntN(n)] = float32(math.Inf(1))
		}
	}
	return x
}

func randomCase(rng *rand.Rand) *reducedCase {
	var b [8]byte
	for i := range b {
		b[i] = byte(rng.Uint32())
	}
	b[0] &= byte(rng.Uint32()) // fewer settings at once
	c := &reducedCase{params: settings(b), x: randomRow(rng)}
	n := len(c.x)
	c.params.Watermark = false
	if rng.IntN(4) > 0 {
		c.params.TopN = 0
	}
	if c.params.Sample && rng.IntN(8) == 0 {
		c.params.Temperature = float32(math.Pow(10, -8*rng.Float64()))
	}
	if rng.IntN(4) == 0 {
		c.params.TopK = []int{1, 255, 256, 257, 1000}[rng.IntN(5)]
	}
	if rng.IntN(4) == 0 {
		for range 1 + rng.IntN(40) {
			c.params.LogitBias = append(c.params.LogitBias, llm.Bias{Token: llm.Token(rng.IntN(n)),
				Add: float32(rng.NormFloat64() * 5)})
		}
	}
	for range rng.IntN(50) {
		c.h.Prompt = append(c.h.Prompt, llm.Token(rng.IntN(n+2)))
		c.h.Output = append(c.h.Output, llm.Token(rng.IntN(n)))
	}
	if rng.IntN(3) == 0 {
		c.mask = &fixedMask{bits: make([]uint32, (n+31)/32), off: rng.IntN(8) == 0}
		for i, share := 0, rng.IntN(3); i < len(c.mask.bits)*32; i++ {
			if share == 0 || share == 1 && i%2 == 0 || rng.IntN(50) == 0 {
				c.mask.bits[i/32] |= 1 << (i % 32)
			}
		}
	}
	if rng.IntN(6) == 0 {
		c.pick = nthSampler{limit: []int{1, 8, 256, 300}[rng.IntN(4)], nth: rng.IntN(10) - 3}
	}
	return c
}

// samePick reports whether two picks are the same but for rounding of the sums.
func samePick(a, b Pick) error {
	near := func(a, b float32) bool {
		return a == b || math.Abs(float64(a)-float64(b)) <= 2*llm.ReducedError+4e-7*math.Abs(float64(a))
	}
	switch {
	case a.Token != b.Token || a.Stop != b.Stop || a.StoppedBy != b.StoppedBy:
		return fmt.Errorf("token %d, reduced %d", a.Token, b.Token)
	case !near(a.Logprob, b.Logprob):
		return fmt.Errorf("logprob %v, reduced %v", a.Logprob, b.Logprob)
	case len(a.Top) != len(b.Top) || (a.Top == nil) != (b.Top == nil):
		return fmt.Errorf("%d top tokens, reduced %d", len(a.Top), len(b.Top))
	}
	for i := range a.Top {
		if a.Top[i].Token != b.Top[i].Token || a.Top[i].Logit != b.Top[i].Logit ||
			!near(a.Top[i].Logprob, b.Top[i].Logprob) {
			return fmt.Errorf("top %d is %+v, reduced %+v", i, a.Top[i], b.Top[i])
		}
	}
	return nil
}

// bordering reports whether the tokens that the row and the reduction draw are neighbours at a border where the random
// number lies, up to the sums' error.
func (c *reducedCase) bordering(t *testing.T, q *llm.Reduction, a, b llm.Token) bool {
	first, last := min(a, b), max(a, b)
	r := row{x: slices.Clone(c.x), scale: 1}
	all := reduce.Row(c.x, q)
	r.scale = q.Scale
	for _, e := range q.Edits {
		for _, p := range e.Pairs {
			switch v := r.x[p.Token]; {
			case e.Kind == llm.EditAdd:
				r.x[p.Token] += p.Value
			case v < 0:
				r.x[p.Token] *= p.Value
			default:
				r.x[p.Token] /= p.Value
			}
		}
	}
	if q.Mask != nil {
		applyMask(q.Mask, r.x)
	}
	before, sum := 0.0, 0.0 // the mass up to the border's first side, and to its second
	for i, v := range r.x {
		w := 0.0
		if d := float64(v-all.Top) * float64(q.Scale); d <= 0 {
			w = math.Exp(d)
		}
		if llm.Token(i) <= first {
			before += w
		}
		if llm.Token(i) < last {
			sum += w
		}
	}
	at := q.Draw * all.Sum
	slack := 2 * llm.ReducedError * all.Sum
	return before-slack <= at && at <= sum+slack
}

// TestPickReduced: from a reduced row the same token is picked as from the row, with the same probabilities, or none.
// Where they differ, rounding of a sum decided: a draw next to a border, or a border of top_p.
func TestPickReduced(t *testing.T) {
	rng := rand.New(rand.NewPCG(91, 92))
	counts := map[string]int{}
	for round := range 12000 {
		c := randomCase(rng)
		want, fail := c.whole(t, c.params)
		got, asked, decided, err := c.reduced(t)
		where := fmt.Sprintf("round %d: %d logits, %+v", round, len(c.x), c.params)
		if asked == nil {
			counts["whole"]++
			continue
		}
		if fail != nil || err != nil {
			counts["error"]++
			if fail == nil || err == nil || fail.Error() != err.Error() || !errors.Is(err, ErrNoToken) {
				t.Fatalf("%s: %v, reduced %v", where, fail, err)
			}
			continue
		}
		if !decided {
			counts["undecided"]++
		} else {
			counts["decided"]++
		}
		differ := samePick(want, got)
		if differ == nil {
			continue
		}
		if p := asked[0]; decided && p.Draw >= 0 && want.Token != got.Token &&
			c.bordering(t, &p, want.Token, got.Token) {
			counts["border of a draw"]++
			continue
		}
		if decided && c.params.TopP < 1 && c.params.TopK == 0 && c.sameNearTopP(t, got) {
			counts["border of top_p"]++
			continue
		}
		t.Fatalf("%s: %v", where, differ)
	}
	t.Log(counts)
	for name, least := range map[string]int{"whole": 500, "error": 10, "undecided": 1000, "decided": 5000} {
		if counts[name] < least {
			t.Errorf("only %d of the cases are of the kind %q", counts[name], name)
		}
	}
	if n := counts["border of a draw"] + counts["border of top_p"]; n > 20 {
		t.Errorf("%d picks differ at a border", n)
	}
}

// sameNearTopP reports whether the row gives the pick with a top_p that is nearly the same.
func (c *reducedCase) sameNearTopP(t *testing.T, got Pick) bool {
	for _, by := range []float64{-llm.ReducedError, llm.ReducedError} {
		set := c.params
		set.TopP *= float32(1 + 2*by)
		if p, err := c.whole(t, set); err == nil && samePick(p, got) == nil {
			return true
		}
	}
	return false
}

// TestPickReducedExactly: what does not depend on the sum of a whole row is the same to the last bit.
func TestPickReducedExactly(t *testing.T) {
	rng := rand.New(rand.NewPCG(93, 94))
	for round := range 500 {
		c := &reducedCase{params: off(), x: normals(rng, 5000, 1+4*rng.Float64())}
		c.params.Sample, c.params.Seed = round%2 == 0, uint64(round)
		switch round % 3 {
		case 0:
			c.params.TopK = 1 + rng.IntN(256)
		case 1:
			c.params.TopK, c.params.TopP, c.params.TypicalP, c.params.Temperature = 200, 0.9, 0.8, 0.7
		default:
			c.params.MinP, c.params.TopN = 0.2, 3
		}
		want, _ := c.whole(t, c.params)
		got, _, decided, err := c.reduced(t)
		if err != nil || got.Token != want.Token || got.Logprob != want.Logprob || !slices.Equal(got.Top, want.Top) {
			t.Fatalf("round %d: %+v, reduced %+v (%v)", round, want, got, err)
		}
		if !decided {
			t.Fatalf("round %d: not decided", round)
		}
	}
}

// TestReductionsNeedTheRow: what no reduction can serve is not asked for.
func TestReductionsNeedTheRow(t *testing.T) {
	for name, c := range map[string]struct {
		set  func(*llm.Params)
		plug Plugins
		want bool
	}{
		"greedy":          {func(*llm.Params) {}, Plugins{}, true},
		"typical_p":       {func(p *llm.Params) { p.TypicalP = 0.5 }, Plugins{}, false},
		"top_p, then":     {func(p *llm.Params) { p.TopP, p.TypicalP = 0.5, 0.5 }, Plugins{}, true},
		"top_k":           {func(p *llm.Params) { p.TopK = 256 }, Plugins{}, true},
		"great top_k":     {func(p *llm.Params) { p.TopK, p.TopP = 257, 0.5 }, Plugins{}, false},
		"watermark":       {func(p *llm.Params) { p.Watermark, p.WatermarkGamma = true, 0.5 }, Plugins{}, false},
		"top tokens":      {func(p *llm.Params) { p.TopN = 256 }, Plugins{}, true},
		"many top tokens": {func(p *llm.Params) { p.TopN = 257 }, Plugins{}, false},
		"processor":       {func(*llm.Params) {}, Plugins{Processors: []Processor{bias{}}}, false},
		"sampler":         {func(*llm.Params) {}, Plugins{Sampler: nthSampler{limit: 256}}, true},
		"great sampler":   {func(*llm.Params) {}, Plugins{Sampler: nthSampler{limit: 257}}, false},
	} {
		p := off()
		c.set(&p)
		chain, err := New(p, 1000, nil, c.plug)
		if err != nil {
			t.Fatal(err)
		}
		list, ok := chain.Reductions(History{}, 3, nil)
		if ok != c.want || ok != (len(list) == 1) || ok && list[0].Row != 3 {
			t.Errorf("%s: %v, %+v", name, ok, list)
		}
	}
}

// BenchmarkPickReduced is BenchmarkPick from what a device has reduced.
func BenchmarkPickReduced(b *testing.B) {
	for _, c := range []struct {
		name string
		set  func(p *llm.Params)
	}{
		{"greedy", func(p *llm.Params) {}},
		{"sample", func(p *llm.Params) { p.Sample, p.Temperature = true, 0.8 }},
		{"top_k+top_p", func(p *llm.Params) { p.Sample, p.Temperature, p.TopK, p.TopP = true, 0.7, 50, 0.9 }},
		{"top_p", func(p *llm.Params) { p.Sample, p.TopP = true, 0.9 }},
		{"penalties", func(p *llm.Params) { p.RepetitionPenalty, p.FrequencyPenalty = 1.1, 0.5 }},
	} {
		b.Run(c.name, func(b *testing.B) {
			k := &reducedCase{params: off(), x: normals(rand.New(rand.NewPCG(1, 2)), 152064, 8)}
			for i := range 1000 {
				k.h.Prompt = append(k.h.Prompt, llm.Token(i*7))
			}
			c.set(&k.params)
			chain := k.chain(b)
			var asked []llm.Reduction
			list := make([]llm.Reduced, 1)
			b.ReportAllocs()
			for b.Loop() {
				var ok bool
				if asked, ok = chain.Reductions(k.h, 0, asked[:0]); !ok {
					b.Fatal("the row is needed")
				}
				if list[0].Count == 0 {
					list[0] = reduce.Row(k.x, &asked[0])
				}
				if _, decided, err := chain.PickReduced(k.h, list); err != nil || !decided {
					b.Fatal(decided, err)
				}
			}
		})
	}
}
