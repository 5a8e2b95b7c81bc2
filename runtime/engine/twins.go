package engine

import (
	"fmt"
	"slices"

	"tgi/runtime/llm"
	"tgi/runtime/sample"
)

// mix makes one row of logits of those of twins.
type mix struct{ how sample.Mix }

// newMix returns the mix of a request's sequences, nil without twins. Sequences share nothing that changes.
func newMix(r Request) *mix {
	if len(r.Twins) == 0 {
		return nil
	}
	return &mix{sample.Mix{Weights: slices.Clone(r.Mix.Weights), Alpha: r.Mix.Alpha}}
}

// rows returns how many rows a sequence has in a step: 1 without a mix.
func (m *mix) rows() int {
	if m == nil {
		return 1
	}
	return len(m.how.Weights)
}

// samples returns how many samples of a plan the step has.
func (n *seqStep) samples() int { return max(len(n.tasks), n.q.mix.rows()) }

// checkTwins refuses twins that can never run.
func (e *Engine) checkTwins(r Request) error {
	if len(r.Twins) == 0 {
		return nil
	}
	switch {
	case r.Params.BeamSearch():
		return fmt.Errorf("%w: num_beams cannot be used with a second prompt. Given: %d", llm.ErrInvalid,
			r.Params.NumBeams)
	case len(r.Embeddings) > 0:
		return fmt.Errorf("%w: images cannot be used with a second prompt", llm.ErrInvalid)
	}
	lengths := []int{len(r.Prompt)}
	for i, p := range r.Twins {
		lengths = append(lengths, len(p))
		if err := e.checkTokens(fmt.Sprintf("second prompt %d", i), p); err != nil {
			return err
		}
	}
	if err := r.Mix.Check(len(lengths)); err != nil {
		return err
	}
	return e.settings.CheckTwins(lengths, r.Params.MaxNewTokens, r.N, e.shape.BlockSize)
}

// cloneTwins copies prompts.
func cloneTwins(list [][]llm.Token) (out [][]llm.Token) {
	for _, p := range list {
		out = append(out, slices.Clone(p))
	}
	return out
}
