// Package sampler is for plugins that choose the token themselves, from the
// candidates that remain after temperature, top-k, top-p and similar filters.
package sampler

import (
	"tgi/sdk/abi"
	"tgi/sdk/go/internal/registry"
	_ "tgi/sdk/go/plugin" // exports what every guest exports
)

// Plugin starts sequences. The function given to [Register] makes it.
type Plugin interface {
	// Begin starts a sequence. The rules of logits.Plugin.Begin apply.
	Begin(params []byte, prompt []uint32) (Sampler, error)
}

// Sampler serves one sequence.
type Sampler interface {
	// Sample returns the index of the chosen candidate. There is at least one
	// candidate, and the most likely is the first. Sample must not keep the
	// slice. An error ends the sequence.
	Sample(c []Candidate) (int, error)
}

// Candidate is a token that may be chosen.
type Candidate struct {
	ID uint32
	// Logit is the logit after temperature. Logprob is the natural logarithm of
	// the token's probability.
	Logit, Logprob float32
}

// Register makes the guest a sampler that gets at most the given number of
// candidates, 0 for the server's default of 1024. Call it from an init function.
// The server calls open once with the JSON object of the plugin's configuration,
// {} if it has none. open must not keep config. Its error refuses the plugin.
func Register(candidates int, open func(config []byte) (Plugin, error)) {
	registry.Add(registry.Kind{Name: abi.KindSampler, Candidates: candidates,
		Init: func(config []byte) (err error) {
			current, err = open(config)
			return err
		},
		Begin: begin,
	})
}

// current and sampler are the state of this instance: one plugin, one sequence.
var (
	current Plugin
	sampler Sampler
)

func begin(params []byte, prompt []uint32) (err error) {
	sampler, err = current.Begin(params, prompt)
	return err
}
