// Package sampler is the kind of plugin that picks the token itself, among the
// candidates that the request's temperature and cuts have left.
package sampler

import (
	"tgi/sdk/abi"
	"tgi/sdk/go/internal/registry"
	_ "tgi/sdk/go/plugin" // exports what every guest exports
)

// Plugin is what the function given to [Register] makes.
type Plugin interface {
	// Begin starts a sequence; the rules are those of logits.Plugin.
	Begin(params []byte, prompt []uint32) (Sampler, error)
}

// Sampler serves one sequence.
type Sampler interface {
	// Sample returns the index of the chosen candidate. There is at least one,
	// the most likely stands first. The slice may not be kept. An error ends
	// the sequence.
	Sample(c []Candidate) (int, error)
}

// Candidate is a token that may be chosen.
type Candidate struct {
	ID uint32
	// Logit is after temperature; Logprob is the natural logarithm of the
	// token's probability.
	Logit, Logprob float32
}

// Register makes the guest a sampler. candidates is how many it wants to see
// at most, 0 for the server's default of 1024. Call it from an init function;
// open gets the JSON object of the plugin's configuration, {} if none, which
// it may not keep. An error refuses the plugin.
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
