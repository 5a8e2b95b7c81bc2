package engine

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"tgi/runtime/llm"
	"tgi/runtime/sample"
)

// search is one beam search. Its rules are those of transformers 5.23
// (GenerationMixin._beam_search): each step ranks the tokens that may follow any of
// the beams; of the best NumBeams those that end a sequence are finished
// hypotheses; the best that end none are the next beams.
type search struct {
	params  llm.Params
	keep    int          // tokens that a step ranks: enough for NumBeams that end nothing
	beams   []*beam      // best first, in the order of the group's rows
	found   []hypothesis // best first, at most NumBeams
	steps   int          // tokens of each beam
	choices []choice     // of the step under way
}

// beam is a sequence that a search follows.
type beam struct {
	chain *sample.Chain
	done  func() // its plugins' Close until it was called
	path  *link
	score float64
}

// link is a token of a path. Paths share their beginnings.
type link struct {
	prev *link
	pick sample.Pick // without Top
	top  []TopToken
}

// hypothesis is a sequence that has ended.
type hypothesis struct {
	path  *link
	score float64
}

// choice is one way on.
type choice struct {
	from   int // the beam
	branch sample.Branch
	path   *link
}

// newSearch takes over the chain of a sequence; ends counts the tokens that may end one.
func newSearch(q *sequence, ends int) *search {
	if q.params.IgnoreEOS {
		ends = 0
	}
	g := &search{params: q.params, keep: max(2, 1+ends) * q.params.NumBeams}
	g.beams = []*beam{{chain: q.chain, done: q.done}}
	q.chain, q.done = nil, nil
	return g
}

// release closes the user code of all beams, where that has not been done.
func (g *search) release() {
	for _, b := range g.beams {
		closeOnce(&b.done)
	}
}

// checkBeams refuses settings of a beam search that are out of bounds, or that
// together can never run.
func (e *Engine) checkBeams(r Request) error {
	p := &r.Params
	if p.NumBeams < 0 {
		return fmt.Errorf("%w: num_beams must be >= 0. Given: %d", llm.ErrInvalid, p.NumBeams)
	}
	if !p.BeamSearch() {
		return nil
	}
	switch {
	case r.N > 1:
		return fmt.Errorf("%w: n and best_of must be 1 with num_beams, whose best sequences are asked for otherwise. Given: %d with num_beams %d",
			llm.ErrInvalid, r.N, p.NumBeams)
	case p.NumReturn < 0 || p.NumReturn > p.NumBeams:
		return fmt.Errorf("%w: the sequences to return must be at most num_beams, %d. Given: %d", llm.ErrInvalid, p.NumBeams, p.NumReturn)
	case math.IsNaN(float64(p.LengthPenalty)) || math.IsInf(float64(p.LengthPenalty), 0):
		return fmt.Errorf("%w: length_penalty must be finite. Given: %v", llm.ErrInvalid, p.LengthPenalty)
	case p.EarlyStopping > llm.StopNever:
		return fmt.Errorf("%w: early_stopping must be at most %d. Given: %d", llm.ErrInvalid, llm.StopNever, p.EarlyStopping)
	}
	return e.settings.CheckBeams(len(r.Prompt), p.MaxNewTokens, p.NumBeams, e.shape.BlockSize)
}

// rank puts the branches of all beams in order and cuts off what a step does not
// look at. tasks are those of the beams.
func (g *search) rank(tasks []*pickTask) {
	g.choices = g.choices[:0]
	for i := range tasks {
		for _, b := range tasks[i].branches {
			g.choices = append(g.choices, choice{from: i, branch: b})
		}
	}
	// Equals stay in the order of the beams and, in each, of the tokens.
	slices.SortStableFunc(g.choices, func(a, b choice) int { return cmp.Compare(b.branch.Key, a.branch.Key) })
	g.choices = g.choices[:min(g.keep, len(g.choices))]
	for i := range g.choices {
		c := &g.choices[i]
		t, b := tasks[c.from], c.branch
		c.path = &link{prev: t.beam.path, pick: sample.Pick{Token: b.Token, Logprob: b.Logprob, Stop: b.Stop, StoppedBy: b.StoppedBy}, top: t.top}
	}
}

// choose returns the next beams, best first; none when the search is over. ends
// reports whether a choice ends its sequence, the length limit aside.
func (g *search) choose(ends func(c choice) bool) (next []choice) {
	g.steps++
	n := g.params.NumBeams
	for i, c := range g.choices {
		if !g.params.Sample && i >= n && len(next) == n {
			break // what follows can be neither
		}
		switch {
		case g.steps < g.params.MaxNewTokens && !ends(c):
			next = append(next, c)
		case i < n:
			g.conclude(c)
		}
	}
	if g.params.Sample { // drawn in the order of the keys
		slices.SortStableFunc(next, func(a, b choice) int { return cmp.Compare(b.branch.Score, a.branch.Score) })
	}
	next = next[:min(n, len(next))]
	if len(next) == 0 || g.over(next[0].branch.Score) {
		return nil
	}
	return next
}

// conclude adds a hypothesis if it is among the best.
func (g *search) conclude(c choice) {
	h := hypothesis{path: c.path, score: g.rate(c.branch.Score, g.steps)}
	at := slices.IndexFunc(g.found, func(f hypothesis) bool { return f.score < h.score })
	if at < 0 {
		at = len(g.found)
	}
	g.found = slices.Insert(g.found, at, h)
	g.found = g.found[:min(g.params.NumBeams, len(g.found))]
}

// rate returns the score of a sequence of n tokens.
func (g *search) rate(sum float64, n int) float64 {
	return sum / math.Pow(float64(n), float64(g.params.LengthPenalty))
}

// over reports whether the search ends although beams are open, the best of which
// has the given score.
func (g *search) over(best float64) bool {
	if len(g.found) < g.params.NumBeams {
		return false
	}
	if g.params.EarlyStopping == llm.StopFull {
		return true
	}
	length := g.steps
	if g.params.EarlyStopping == llm.StopNever && g.params.LengthPenalty > 0 {
		length = g.params.MaxNewTokens
	}
	return g.rate(best, length) <= g.found[len(g.found)-1].score
}

// picks returns the tokens of a path in order.
func (l *link) picks() []*link {
	var out []*link
	for ; l != nil; l = l.prev {
		out = append(out, l)
	}
	slices.Reverse(out)
	return out
}
