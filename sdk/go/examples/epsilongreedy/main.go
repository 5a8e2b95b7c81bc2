// Command epsilongreedy is an example of a sampler. It chooses the most likely
// token, or, with probability "epsilon" (default 0.1), one of the tokens whose
// log-probability is within "margin" (default 2) of it, uniformly.
package main

import (
	"errors"

	"tgi/sdk/go/params"
	"tgi/sdk/go/plugin"
	"tgi/sdk/go/sampler"
)

func init() {
	plugin.Describe(plugin.Info{
		Name: "epsilon-greedy", Version: "1.0.0", Doc: "The most likely token, or now and then one of those near it.",
		Params: `{"type":"object","additionalProperties":false,"properties":{` +
			`"epsilon":{"type":"number","minimum":0,"maximum":1},"margin":{"type":"number","minimum":0}}}`,
	})
	sampler.Register(256, open)
}

func main() {}

type greedy struct{ epsilon, margin float64 }

func open([]byte) (sampler.Plugin, error) { return greedy{epsilon: 0.1, margin: 2}, nil }

// Begin implements sampler.Plugin.
func (g greedy) Begin(raw []byte, _ []uint32) (sampler.Sampler, error) {
	r := params.Read(raw)
	for key := range r.Object() {
		switch key {
		case "epsilon":
			g.epsilon = r.Float()
		case "margin":
			g.margin = r.Float()
		default:
			r.Fail("unknown parameter: " + key)
		}
	}
	if err := r.Close(); err != nil {
		return nil, err
	}
	if g.epsilon < 0 || g.epsilon > 1 {
		return nil, errors.New("epsilon: want a number from 0 to 1")
	}
	if g.margin < 0 {
		return nil, errors.New("margin: want a number from 0 up")
	}
	return g, nil
}

// Sample implements sampler.Sampler.
func (g greedy) Sample(c []sampler.Candidate) (int, error) {
	if plugin.RandFloat() >= g.epsilon {
		return 0, nil
	}
	near := 1
	for near < len(c) && float64(c[0].Logprob)-float64(c[near].Logprob) <= g.margin {
		near++
	}
	return int(plugin.Rand() >> 32 * uint64(near) >> 32), nil
}
