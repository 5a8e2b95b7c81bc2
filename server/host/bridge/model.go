package bridge

import (
	"tgi/runtime/engine"
	"tgi/runtime/llm"
)

// Reducing is a Backend whose logits lie on a device; see engine.Reducer for what its methods promise.
type Reducing interface {
	Backend
	// Reduces returns nil if Compute and Fetch can be used, or why not.
	Reduces() error
	// Compute begins a step.
	Compute(*llm.Step) error
	// Fetch returns rows of the step's logits, and answers about rows.
	Fetch(rows []int, list []llm.Reduction) ([]float32, []llm.Reduced, error)
}

// Model returns a backend as the engine wants it: an engine.Reducer where the backend is Reducing and can.
func Model(b Backend) engine.Model {
	if r, ok := b.(Reducing); ok && r.Reduces() == nil {
		return reducer{model{b}, r}
	}
	return model{b}
}

// model implements engine.Model.
type model struct{ Backend }

// lastOnly is implemented by backends whose model may lack the logits of prompts.
type lastOnly interface{ LastOnly() bool }

// Shape implements engine.Model.
func (b model) Shape() engine.Shape {
	l, ok := b.Backend.(lastOnly)
	return engine.Shape{Vocab: b.Vocab(), BlockSize: b.BlockSize(), Blocks: b.Blocks(), MaxLen: b.MaxLen(),
		OriginalLen: b.OriginalLen(), Width: b.Width(), LastOnly: ok && l.LastOnly()}
}

// reducer implements engine.Reducer.
type reducer struct {
	model
	rows Reducing
}

// Compute implements engine.Reducer.
func (b reducer) Compute(s *llm.Step) error { return b.rows.Compute(s) }

// Fetch implements engine.Reducer.
func (b reducer) Fetch(rows []int, list []llm.Reduction) ([]float32, []llm.Reduced, error) {
	return b.rows.Fetch(rows, list)
}
