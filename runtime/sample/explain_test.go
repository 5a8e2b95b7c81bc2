package sample

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"tgi/runtime/llm"
)

// named is a Processor with a name.
type named struct {
	name string
	f    func(s *Step)
}

func (p named) Name() string { return p.name }

func (p named) Process(_ History, s *Step) error { p.f(s); return nil }

// plainLogprobs is log-softmax in 64 bits, as the definition has it.
func plainLogprobs(x []float32) []float64 {
	sum, top := 0.0, math.Inf(-1)
	for _, v := range x {
		top = max(top, float64(v))
	}
	for _, v := range x {
		sum += math.Exp(float64(v) - top)
	}
	out := make([]float64, len(x))
	for i, v := range x {
		out[i] = float64(v) - top - math.Log(sum)
	}
	return out
}

func near(a float32, b float64) bool {
	return float64(a) == b || math.Abs(float64(a)-b) < 1e-4
}

// TestExplanation holds an explanation to what follows from the definitions.
func TestExplanation(t *testing.T) {
	p := off()
	p.Explain, p.Sample = llm.Explain{Top: 3, Tokens: 2}, true
	p.LogitBias = []llm.Bias{{Token: 2, Add: 4}}
	p.TopK = 2
	model := []float32{3, 2, 1, 0, -1, -2}
	mask := &script{steps: [][]llm.Token{{1, 2, 3, 4}, nil, nil}}
	plugs := Plugins{Masker: mask, Guests: []string{"cold", "idle"}, Processors: []Processor{
		named{"idle", func(*Step) {}},
		named{"cold", func(s *Step) { s.Logits[2] -= 10; s.Temperature = 2 }},
	}}
	c, err := New(p, len(model), nil, plugs)
	if err != nil {
		t.Fatal(err)
	}
	got, err := c.Pick(History{}, slices.Clone(model))
	if err != nil {
		t.Fatal(err)
	}
	e := got.Explained
	if e == nil || len(e.Changes) != 4 {
		t.Fatalf("%+v", e)
	}
	biased := slices.Clone(model)
	biased[2] += 4
	masked := []float32{negInf, 2, 5, 0, -1, negInf}
	cold := []float32{negInf, 2, -5, 0, -1, negInf}
	warm := []float32{negInf, 1, negInf, 0, negInf, negInf} // temperature 2, the best two
	at := plainLogprobs(biased)
	rows := [][]float64{plainLogprobs(model), at, plainLogprobs(masked), plainLogprobs(cold), plainLogprobs(warm)}
	if k := got.Token; k != 1 && k != 3 || !near(e.Raw, rows[0][k]) || !near(e.Final, rows[4][k]) ||
		e.Pick != llm.PickedDraw || e.Rank != int(k) {
		t.Errorf("token %d: %+v", k, e)
	}
	want := []llm.Change{
		{Kind: llm.ChangeSetting, Name: "logit_bias", Allowed: 6, Overtook: true, Count: 1,
			Moved: []llm.MovedToken{{Token: 2, By: 4}}},
		{Kind: llm.ChangeMask, Name: "grammar", Allowed: 4, Count: 2,
			Forbidden: float32(math.Exp(at[0]) + math.Exp(at[5])), Moved: []llm.MovedToken{{Token: 0, By: negInf}}},
		{Kind: llm.ChangePlugin, Name: "cold", Allowed: 4, Overtook: true, Count: 1,
			Moved: []llm.MovedToken{{Token: 2, By: -10}}},
		{Kind: llm.ChangeWarp, Name: "temperature, top_k", Allowed: 2},
	}
	warmAll := plainLogprobs([]float32{negInf, 1, -2.5, 0, -.5, negInf})
	want[3].Forbidden = float32(math.Exp(warmAll[2]) + math.Exp(warmAll[4]))
	bests := []llm.Token{2, 2, 1, 1}
	for i, w := range want {
		g := e.Changes[i]
		if g.Kind != w.Kind || g.Name != w.Name || g.Allowed != w.Allowed || !near(g.Forbidden, float64(w.Forbidden)) ||
			g.Count != w.Count || g.Overtook != w.Overtook || !slices.Equal(g.Moved, w.Moved) ||
			!near(g.Before, rows[i][got.Token]) || !near(g.After, rows[i+1][got.Token]) || g.Best.Token != bests[i] {
			t.Errorf("change %d: %+v, want %+v", i, g, w)
		}
	}
	if e.Changes[2].Temperature != 2 {
		t.Errorf("temperature: %+v", e.Changes[2])
	}
	for i, x := range e.Candidates {
		if !near(x.Raw, rows[0][x.Token]) || !near(x.Final, rows[4][x.Token]) {
			t.Errorf("candidate %+v, want %v, %v", x, rows[0][x.Token], rows[4][x.Token])
		}
		if i > 0 && x.Final > e.Candidates[i-1].Final {
			t.Errorf("candidates are not sorted: %v", e.Candidates)
		}
	}
	if len(e.Candidates) < 4 || e.Candidates[0].Token != 1 || e.Candidates[1].Token != 3 { // and the model's 0, 1, 2
		t.Errorf("candidates: %+v", e.Candidates)
	}
	for i := range 2 { // the bound
		got, err = c.Pick(History{Output: make([]llm.Token, i+1)}, slices.Clone(model))
		if err != nil || (got.Explained != nil) != (i == 0) {
			t.Errorf("token %d: %+v, %v", i+1, got.Explained, err)
		}
	}
}

// TestExplainedPicks: how tokens were picked.
func TestExplainedPicks(t *testing.T) {
	row := []float32{3, 2, 1, 0}
	for name, x := range map[string]struct {
		plug Plugins
		want llm.Picked
		by   string
	}{
		"best": {Plugins{}, llm.PickedBest, ""},
		"sampler": {Plugins{Sampler: samplerFunc(func(History, []Candidate) (int, error) { return 1, nil })},
			llm.PickedSampler, "sampler"},
		"no choice": {Plugins{Sampler: samplerFunc(func(History, []Candidate) (int, error) { return NoChoice, nil })},
			llm.PickedBest, ""},
		"forced": {Plugins{Processors: []Processor{named{"x", func(s *Step) { s.Force = 3 }}}}, llm.PickedForced, "x"},
		"stopped": {Plugins{Processors: []Processor{named{"y", func(s *Step) { s.Stop, s.StoppedBy = true, "y" }}}},
			llm.PickedStop, "y"},
	} {
		p := off()
		p.Sample, p.Explain = false, llm.Explain{Top: 2, Tokens: 9}
		c, err := New(p, len(row), []llm.Token{2}, x.plug)
		if err != nil {
			t.Fatal(err)
		}
		got, err := c.Pick(History{}, slices.Clone(row))
		if e := got.Explained; err != nil || e.Pick != x.want || e.By != x.by ||
			!near(e.Raw, plainLogprobs(row)[got.Token]) {
			t.Errorf("%s: %+v, %v", name, e, err)
		}
	}
}

// TestExplainingChangesNothing: picks are the same with and without.
func TestExplainingChangesNothing(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		row := make([]float32, 2+rng.IntN(3000))
		for i := range row {
			row[i] = float32(rng.NormFloat64() * 3)
			switch rng.IntN(200) {
			case 0:
				row[i] = nan
			case 1:
				row[i] = negInf
			case 2:
				row[i] = float32(math.Inf(rng.IntN(50) - 49)) // mostly -Inf
			}
		}
		p := off()
		p.Seed, p.Sample, p.RawLogprobs, p.TopN = rng.Uint64(), rng.IntN(2) == 0, rng.IntN(2) == 0, rng.IntN(4)
		if rng.IntN(2) == 0 {
			p.Temperature, p.TopP, p.MinP, p.TopK = .7, .9, .02, rng.IntN(50)
		}
		if rng.IntN(3) == 0 {
			p.TypicalP = .8
		}
		p.RepetitionPenalty = 1.2
		h := History{Prompt: []llm.Token{0, 1}}
		var picks [2]Pick
		var errs [2]error
		for i := range picks {
			p.Explain = llm.Explain{Top: 5, Tokens: i}
			mask := &script{steps: [][]llm.Token{{0, 1}}}
			c, err := New(p, len(row), nil, Plugins{Masker: mask, Processors: []Processor{
				processorFunc(func(_ History, x []float32) error { x[0]++; return nil })}})
			if err != nil {
				t.Fatal(err)
			}
			picks[i], errs[i] = c.Pick(h, slices.Clone(row))
		}
		a, b := picks[0], picks[1]
		if (errs[0] == nil) != (errs[1] == nil) || a.Token != b.Token ||
			a.Logprob != b.Logprob && a.Logprob == a.Logprob ||
			!slices.Equal(a.Top, b.Top) || errs[0] == nil && (a.Explained != nil || b.Explained == nil) {
			t.Fatalf("%+v, %v\n%+v, %v", a, errs[0], b, errs[1])
		}
	}
}
