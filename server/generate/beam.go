package generate

import (
	"math"

	"tgi/runtime/llm"
)

// MaxBeams bounds num_beams: a step costs as much as that many sequences.
const MaxBeams = 64

// beams returns how many sequences a beam search for d follows; 0 where there is
// no search.
func beams(d *Draft) int {
	if n := or(d.NumBeams, 1); n > 1 {
		return int(min(n, math.MaxInt32))
	}
	return 0
}

// wanted returns how many sequences the reply has room for; rows how many of them
// the engine computes at a time.
func wanted(d *Draft) int {
	if beams(d) > 0 {
		return int(max(1, or(d.N, 1)))
	}
	return sequences(d)
}

func rows(d *Draft) int { return max(wanted(d), beams(d)) }

// checkBeams holds the size of a beam search against its bounds.
func (l Limits) checkBeams(d *Draft) error {
	most := min(MaxBeams, l.MaxConcurrent)
	if d.NumBeams != nil && (*d.NumBeams < 1 || *d.NumBeams > uint64(most)) {
		return invalid("num_beams", "`num_beams` must be >= 1 and <= %d. Given: %d", most, *d.NumBeams)
	}
	switch n := beams(d); {
	case n == 0:
		return nil
	case or(d.BestOf, 1) > 1:
		return invalid("best_of", "`best_of` > 1 and `num_beams` > 1 exclude each other")
	case or(d.N, 1) > uint64(n):
		return invalid("n", "`n` must be <= `num_beams` (%d). Given: %d", n, *d.N)
	}
	return nil
}

// search writes the settings of a beam search, which passed checkBeams, to p.
func search(d *Draft, p *llm.Params) error {
	penalty := or(d.LengthPenalty, 1)
	if f := float64(penalty); math.IsNaN(f) || math.IsInf(f, 0) {
		return invalid("length_penalty", "`length_penalty` must be a finite number. Given: %v", penalty)
	}
	n := beams(d)
	if n == 0 {
		return nil
	}
	p.NumBeams, p.NumReturn, p.LengthPenalty, p.EarlyStopping = n, wanted(d), penalty, d.EarlyStopping
	if d.Rules == OpenAI && d.Temperature == nil {
		p.Sample = false // who asks for a search does not expect a draw
	}
	return nil
}
