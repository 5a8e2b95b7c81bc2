package bridge

import (
	"errors"
	"testing"

	"tgi/runtime/engine"
	"tgi/runtime/llm"
	"tgi/runtime/ort"
)

var (
	_ Reducing       = (*ort.CUDA)(nil)
	_ engine.Reducer = reducer{}
)

// device is a backend that may refuse to reduce rows.
type device struct {
	Backend
	refused error
}

func (d device) Reduces() error          { return d.refused }
func (d device) Compute(*llm.Step) error { return nil }
func (d device) Fetch([]int, []llm.Reduction) ([]float32, []llm.Reduced, error) {
	return nil, []llm.Reduced{{Count: 7}}, nil
}

// TestModelReduces: the engine is told of reductions only where the backend makes them.
func TestModelReduces(t *testing.T) {
	for name, c := range map[string]struct {
		backend Backend
		want    bool
	}{
		"device":               {device{}, true},
		"device that can't":    {device{refused: errors.New("an old driver")}, false},
		"the CPU's, no method": {struct{ Backend }{}, false},
	} {
		r, ok := Model(c.backend).(engine.Reducer)
		if ok != c.want {
			t.Errorf("%s: %v", name, ok)
			continue
		}
		if !ok {
			continue
		}
		if _, answers, err := r.Fetch(nil, nil); err != nil || len(answers) != 1 || r.Compute(nil) != nil {
			t.Errorf("%s: %v, %v", name, answers, err)
		}
	}
}
