package sample

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"tgi/runtime/llm"
)

// off is the request that changes nothing: greedy over the model's own row.
func off() llm.Params {
	return llm.Params{Temperature: 1, TopP: 1, TypicalP: 1, RepetitionPenalty: 1, MaxNewTokens: 1}
}

// normals is a row of n logits with the given spread, peaked as language models
// are from about 3 on.
func normals(rng *rand.Rand, n int, sigma float64) []float32 {
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(rng.NormFloat64() * sigma)
	}
	return x
}

// BenchmarkPick measures one row of a vocabulary of 152k tokens, the copy that
// restores the row included.
func BenchmarkPick(b *testing.B) {
	h := History{}
	for i := range 1000 {
		h.Prompt = append(h.Prompt, llm.Token(i*7))
	}
	for _, c := range []struct {
		name string
		set  func(p *llm.Params)
	}{
		{"greedy", func(p *llm.Params) {}},
		{"sample", func(p *llm.Params) { p.Sample, p.Temperature = true, 0.8 }},
		{"top_k", func(p *llm.Params) { p.Sample, p.TopK = true, 50 }},
		{"top_k+top_p", func(p *llm.Params) { p.Sample, p.Temperature, p.TopK, p.TopP = true, 0.7, 50, 0.9 }},
		{"top_p", func(p *llm.Params) { p.Sample, p.TopP = true, 0.9 }},
		{"typical_p", func(p *llm.Params) { p.Sample, p.TypicalP = true, 0.9 }},
		{"min_p", func(p *llm.Params) { p.Sample, p.MinP = true, 0.05 }},
		{"penalties", func(p *llm.Params) { p.RepetitionPenalty, p.FrequencyPenalty = 1.1, 0.5 }},
		{"watermark", func(p *llm.Params) { p.Watermark, p.WatermarkGamma, p.WatermarkDelta = true, 0.5, 2 }},
		{"top_n", func(p *llm.Params) { p.TopN = 5 }},
		{"greedy, explained", func(p *llm.Params) { p.Explain = llm.Explain{Top: 5, Tokens: 1 << 40} }},
		{"top_k+top_p, explained", func(p *llm.Params) {
			p.Sample, p.Temperature, p.TopK, p.TopP = true, 0.7, 50, 0.9
			p.Explain = llm.Explain{Top: 5, Tokens: 1 << 40}
		}},
		{"penalties, explained", func(p *llm.Params) {
			p.RepetitionPenalty, p.FrequencyPenalty, p.Explain = 1.1, 0.5, llm.Explain{Top: 5, Tokens: 1 << 40}
		}},
		{"raw", func(p *llm.Params) { p.RawLogprobs, p.RepetitionPenalty = true, 1.1 }},
	} {
		for _, sigma := range []float64{1, 4} {
			b.Run(fmt.Sprintf("%s/sigma=%v", c.name, sigma), func(b *testing.B) {
				p := off()
				c.set(&p)
				rng := rand.New(rand.NewPCG(1, 2))
				row := normals(rng, 152064, sigma)
				x := make([]float32, len(row))
				chain, err := New(p, len(row), nil, Plugins{})
				if err != nil {
					b.Fatal(err)
				}
				b.ReportAllocs()
				for b.Loop() {
					copy(x, row)
					if _, err := chain.Pick(h, x); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

// BenchmarkBranches is BenchmarkPick for one beam of four, with one end token.
func BenchmarkBranches(b *testing.B) {
	for _, c := range []struct {
		name string
		set  func(p *llm.Params)
	}{
		{"best", func(p *llm.Params) {}},
		{"drawn", func(p *llm.Params) { p.Sample = true }},
		{"drawn/top_k", func(p *llm.Params) { p.Sample, p.TopK = true, 50 }},
	} {
		b.Run(c.name, func(b *testing.B) {
			p := off()
			c.set(&p)
			row := normals(rand.New(rand.NewPCG(1, 2)), 152064, 4)
			x := make([]float32, len(row))
			chain, err := New(p, len(row), []llm.Token{7}, Plugins{})
			if err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			for b.Loop() {
				copy(x, row)
				if _, _, err := chain.Branches(History{}, x, Beam{N: 8}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
