package sample

import (
	"fmt"
	"math"

	"tgi/runtime/llm"
)

// Mix says how the rows of logits of one token behind several prompts become one: the sum of the log-probabilities that
// each gives, times its weight. Weights (s, 1-s) are classifier-free guidance (Sanchez et al. 2023, arXiv:2306.17806),
// as in UnbatchedClassifierFreeGuidanceLogitsProcessor of transformers, and context-aware decoding (Shi et al. 2023,
// arXiv:2305.14739); with Alpha they are contrastive decoding (O'Brien and Lewis 2023, arXiv:2309.09117).
type Mix struct {
	// Weights of the rows. The first is that of the sequence's own prompt.
	Weights []float32
	// Alpha leaves out tokens that are less than so many times as likely as the best one, by the first row alone; from
	// 0, which leaves out none, to 1. Where a mask leaves no others, the first row alone decides between them.
	Alpha float32
}

// leftOut is added to the log-probability of tokens that Alpha leaves out. Beside others their probability is 0; alone,
// which a mask can make them, they keep their order.
const leftOut = -1000

// Check returns an error that wraps llm.ErrInvalid if m cannot mix so many rows.
func (m *Mix) Check(rows int) error {
	if len(m.Weights) != rows || rows < 2 {
		return fmt.Errorf("%w: BUG: sample: %d weights for %d rows", llm.ErrInvalid, len(m.Weights), rows)
	}
	for _, w := range m.Weights {
		if !finite(w) {
			return fmt.Errorf("%w: weights of a mix must be finite. Given: %v", llm.ErrInvalid, w)
		}
	}
	if !(m.Alpha >= 0 && m.Alpha <= 1) {
		return fmt.Errorf("%w: alpha of a mix must be from 0 to 1. Given: %v", llm.ErrInvalid, m.Alpha)
	}
	return nil
}

// Combine writes the mix of at least two rows, each [vocab], to the first, and overwrites the second. A token that any
// of them gives -Inf or NaN becomes -Inf. If one has no token, neither has the mix.
func (m *Mix) Combine(rows [][]float32) {
	var memory [256]float64
	own, rest := rows[0], rows[1] // which becomes the sum of all rows but the first
	cut := negInf
	for i, x := range rows {
		r := row{x: x, scale: 1}
		if !r.findMax() {
			fill(own, negInf)
			return
		}
		r.computeSums(memory[:0])
		norm, w := float32(float64(r.top)+math.Log(r.sum)), m.Weights[i]
		switch {
		case i == 0:
			if m.Alpha > 0 {
				cut = r.top - norm + float32(math.Log(float64(m.Alpha)))
			}
			for t := range x {
				x[t] -= norm
			}
		case i == 1:
			for t, v := range x {
				rest[t] = w * finiteOr(v-norm, nan)
			}
		default:
			for t, v := range x {
				rest[t] += w * finiteOr(v-norm, nan)
			}
		}
	}
	m.add(own, rest, cut)
}

// add mixes the log-probabilities of the first row with the sum of the others.
func (m *Mix) add(own, rest []float32, cut float32) {
	w, least := m.Weights[0], float32(0)
	for t, v := range own {
		switch y := w*v + rest[t]; {
		case !(v > negInf && y > negInf): // also NaN
			own[t], rest[t] = negInf, 0
		case v < cut:
			rest[t] = nan // marks it
		default:
			own[t], rest[t] = y, 0
			least = min(least, y)
		}
	}
	if m.Alpha == 0 {
		return
	}
	for t, y := range rest {
		if y != y {
			own[t] += least + leftOut
		}
	}
}

// finiteOr returns v, or other in the place of NaN and infinities.
func finiteOr(v, other float32) float32 {
	if finite(v) {
		return v
	}
	return other
}

func fill(x []float32, v float32) {
	for i := range x {
		x[i] = v
	}
}
