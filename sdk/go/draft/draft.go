// Package draft is for plugins that guess which tokens come next. A step of the
// model computes the guesses too, and keeps those that it would have chosen: a
// plugin makes a text faster, and never another one.
//
// A [Plugin] is made once, from the configuration, before the server takes its
// snapshot of the guest's memory; build large tables there. Each sequence
// starts from that snapshot with Begin, and Propose is asked now and then,
// beside the steps of the model.
package draft

import (
	"tgi/sdk/abi"
	"tgi/sdk/go/internal/registry"
	_ "tgi/sdk/go/plugin" // exports what every guest exports
)

// Plugin starts sequences. The function given to [Register] makes it.
type Plugin interface {
	// Begin starts a sequence. The rules of logits.Plugin.Begin apply.
	Begin(params []byte, prompt []uint32) (Drafter, error)
}

// Drafter guesses for one sequence.
type Drafter interface {
	// Propose writes tokens that it expects behind tokens, the next one first, to
	// room and returns their number; 0 is no guess. tokens is the sequence so
	// far, the prompt first; the last fresh of them are others than in the last
	// call. It must not keep or write to tokens. After an error the sequence goes
	// on without the plugin.
	Propose(tokens []uint32, fresh int, room []uint32) (int, error)
}

// Register makes the guest a drafter. Call it from an init function. The server
// calls open once with the JSON object of the plugin's configuration, {} if it
// has none. open must not keep config. Its error refuses the plugin.
func Register(open func(config []byte) (Plugin, error)) {
	registry.Add(registry.Kind{Name: abi.KindDraft,
		Init: func(config []byte) (err error) {
			current, err = open(config)
			return err
		},
		Begin: begin,
	})
}

// current and drafter are the state of this instance: one plugin, one sequence.
var (
	current Plugin
	//lint:ignore U1000 wasip1.go reads it
	drafter Drafter
)

func begin(params []byte, prompt []uint32) (err error) {
	drafter, err = current.Begin(params, prompt)
	return err
}
