package sample

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"tgi/runtime/llm"
)

// TestDrawsFollowTheDistribution counts 20,000 draws per setting and compares
// the counts with the processed distribution by Pearson's chi-square. Seeds are
// fixed, so it fails always or never.
func TestDrawsFollowTheDistribution(t *testing.T) {
	const draws = 20000
	for _, c := range []struct {
		name string
		n    int
		set  func(p *llm.Params)
	}{
		{"row", 40, func(p *llm.Params) {}},
		{"row over several blocks", 2100, func(p *llm.Params) { p.Temperature = 0.4 }},
		{"top_k", 1200, func(p *llm.Params) { p.TopK = 30 }},
		{"top_p", 1200, func(p *llm.Params) { p.TopP = 0.3 }},
		{"typical_p", 200, func(p *llm.Params) { p.TypicalP = 0.6 }},
		{"raw logprobs", 40, func(p *llm.Params) { p.RawLogprobs = true }},
		{"min_p", 1200, func(p *llm.Params) { p.MinP = 0.2 }},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := off()
			p.Sample, p.Seed = true, 11
			c.set(&p)
			logits := normals(rand.New(rand.NewPCG(7, 8)), c.n, 2)
			expected := make([]float64, c.n)
			list := p
			list.TopN = c.n
			for _, e := range pick(t, list, History{}, logits).Top {
				expected[e.Token] = draws * math.Exp(float64(e.Logprob))
			}
			chain, err := New(p, c.n, nil, Plugins{})
			if err != nil {
				t.Fatal(err)
			}
			counts := make([]int, c.n)
			output, row := make([]llm.Token, draws), make([]float32, c.n)
			for k := range draws {
				copy(row, logits)
				got, err := chain.Pick(History{Output: output[:k]}, row)
				if err != nil {
					t.Fatal(err)
				}
				counts[got.Token]++
			}
			checkCounts(t, counts, expected)
		})
	}
}

// checkCounts pools the cells that expect fewer than 5 draws.
func checkCounts(t *testing.T, counts []int, expected []float64) {
	t.Helper()
	chi, cells := 0.0, -1
	var rare, rareExpected float64
	for i, e := range expected {
		if e == 0 && counts[i] > 0 {
			t.Errorf("token %d has probability 0 and was drawn %d times", i, counts[i])
		}
		if e < 5 {
			rare, rareExpected = rare+float64(counts[i]), rareExpected+e
			continue
		}
		chi += (float64(counts[i]) - e) * (float64(counts[i]) - e) / e
		cells++
	}
	if rareExpected > 1 {
		chi += (rare - rareExpected) * (rare - rareExpected) / rareExpected
		cells++
	}
	// Wilson and Hilferty's approximation of the quantile at 1 in 10,000.
	df := float64(cells)
	limit := df * math.Pow(1-2/(9*df)+3.72*math.Sqrt(2/(9*df)), 3)
	if cells < 3 || chi > limit {
		t.Errorf("chi-square %.1f with %d degrees of freedom, want at most %.1f and 3 degrees", chi, cells, limit)
	}
}

func TestUniform(t *testing.T) {
	if a, b := uniform(1, 0, 0), uniform(1, 0, 0); a != b {
		t.Errorf("the same seed and step gave %v and %v", a, b)
	}
	seen := make(map[float64]string)
	for seed := range uint64(200) {
		for i := range 3 {
			s := llm.SeedFor(seed, i)
			for k := range 50 {
				u, at := uniform(s, k, 0), fmt.Sprintf("seed %d sequence %d step %d", seed, i, k)
				if u < 0 || u >= 1 {
					t.Fatalf("%s: %v is outside [0,1)", at, u)
				}
				if before, ok := seen[u]; ok {
					t.Fatalf("%s and %s draw the same number", before, at)
				}
				seen[u] = at
			}
		}
	}
	// Seeds one increment of the generator apart do not share a stream.
	if uniform(5+0x9e3779b97f4a7c15, 3, 0) == uniform(5, 4, 0) {
		t.Error("two seeds walk the same stream, one step apart")
	}
	// Seeds and steps next to each other: neither mean nor correlation may show.
	var sum, bySeed, byStep float64
	const n = 300
	for seed := range uint64(n) {
		for k := range n {
			u := uniform(seed, k, 0) - 0.5
			sum += u
			bySeed += u * (uniform(seed+1, k, 0) - 0.5)
			byStep += u * (uniform(seed, k+1, 0) - 0.5)
		}
	}
	// Standard deviations: 1/sqrt(12) for the mean, 1/12 for a product, over sqrt(n*n).
	if math.Abs(sum/n) > 4/math.Sqrt(12) || math.Abs(bySeed/n) > 4./12 || math.Abs(byStep/n) > 4./12 {
		t.Errorf("sum %.3f, correlation by seed %.3f, by step %.3f", sum/n, bySeed/n, byStep/n)
	}
}

// TestDrawEnds: rounding may use up the mass before the end; the last token
// that can be drawn is drawn then, never one of weight 0.
func TestDrawEnds(t *testing.T) {
	x := []float32{negInf, 1, 2, negInf, float32(math.NaN())}
	r := row{x: x, scale: 1}
	if !r.findMax() {
		t.Fatal("no token found")
	}
	r.computeSums(nil)
	if got := r.draw(math.Nextafter(1, 0)); got != 2 {
		t.Errorf("at the end of the row: %d, want 2", got)
	}
	r.sum, r.sums[0] = 2*r.sum, 2*r.sum // more than the weights hold
	if got := r.draw(0.999); got != 2 {
		t.Errorf("past the end of the row: %d, want 2", got)
	}
	if got := r.draw(0); got != 1 {
		t.Errorf("at the start of the row: %d, want 1", got)
	}
	s := survivors{w: []float32{0, 1, 2, 0}, sum: 6}
	if got := s.draw(0.9); got != 2 {
		t.Errorf("past the end of the survivors: %d, want 2", got)
	}
	if got := s.draw(0); got != 1 {
		t.Errorf("at the start of the survivors: %d, want 1", got)
	}
}
