// Command go is the sampler top-n-sigma in Go. It keeps the candidates whose
// logit lies within "n" (default 1) standard deviations of the greatest, and
// draws one of them by its probability (Tang et al. 2024, arXiv:2411.07641).
package main

import (
	"math"

	"tgi/sdk/go/params"
	"tgi/sdk/go/plugin"
	"tgi/sdk/go/sampler"
)

func init() {
	plugin.Describe(plugin.Info{
		Name: "top-n-sigma", Version: "1.0.0",
		Doc:    "Draws among the tokens within n standard deviations of the best logit.",
		Params: `{"type":"object","additionalProperties":false,"properties":{"n":{"type":"number","exclusiveMinimum":0,"maximum":100}}}`,
	})
	sampler.Register(1024, func([]byte) (sampler.Plugin, error) { return sigma{n: 1}, nil })
}

func main() {}

type sigma struct{ n float64 }

// Begin implements sampler.Plugin.
func (s sigma) Begin(raw []byte, _ []uint32) (sampler.Sampler, error) {
	r := params.Read(raw)
	for key := range r.Object() {
		switch key {
		case "n":
			if s.n = r.Float(); s.n <= 0 || s.n > 100 {
				r.Fail("n: want a number above 0, at most 100")
			}
		default:
			r.Fail("unknown parameter: " + key)
		}
	}
	return s, r.Close()
}

// Sample implements sampler.Sampler.
func (s sigma) Sample(c []sampler.Candidate) (int, error) {
	reach := s.n * s.n * variance(c)
	kept, total := 0, 0.0
	for kept < len(c) && square(c[0].Logit-c[kept].Logit) <= reach {
		total += math.Exp(float64(c[kept].Logprob))
		kept++
	}
	left := plugin.RandFloat() * total
	for i := range kept {
		if left -= math.Exp(float64(c[i].Logprob)); left < 0 {
			return i, nil
		}
	}
	return kept - 1, nil
}

// variance is the square of the logits' standard deviation.
func variance(c []sampler.Candidate) float64 {
	mean, sum := 0.0, 0.0
	for _, x := range c {
		mean += float64(x.Logit) / float64(len(c))
	}
	for _, x := range c {
		d := float64(x.Logit) - mean
		sum += d * d
	}
	return sum / float64(len(c))
}

func square(x float32) float64 { return float64(x) * float64(x) }
