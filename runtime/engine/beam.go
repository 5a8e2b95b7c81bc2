package engine

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"tgi/runtime/llm"
	"tgi/runtime/sample"
)

// search is one beam search by the rules of transformers 5.23
// (GenerationMixin._beam_search). Each step ranks the tokens that may follow any of the
// beams. Among the best NumBeams, those that end a sequence become finished hypotheses;
// the best that end none become the next beams.
type search struct {
	params     llm.Params
	keep       int          // tokens that a step ranks: enough for NumBeams that end nothing
	beams      []*beam      // best first, in the order of the group's rows
	hypotheses []hypothesis // best first, at most NumBeams
	steps      int          // tokens of each beam
	candidates []candidate  // of the step under way
}

// beam is one open sequence of a search.
type beam struct {
	chain *sample.Chain
	done  func() // its plugins' Close until it was called
	path  *pathNode
	score float64
	tail  textTail // with stop strings
}

// pathNode is a token of a path, linked to the one before. Paths share their prefixes.
type pathNode struct {
	prev *pathNode
	pick sample.Pick // without Top
	top  []TopToken
}

// hypothesis is a sequence that has ended.
type hypothesis struct {
	path  *pathNode
	score float64
}

// candidate is a beam with one token more.
type candidate struct {
	from   int // index of the beam
	branch sample.Branch
	path   *pathNode
	tail   textTail
}

// newSearch takes over the chain of a sequence. ends is the number of end tokens.
func newSearch(q *sequence, prompt []llm.Token, ends int) *search {
	if q.params.IgnoreEOS {
		ends = 0
	}
	g := &search{params: q.params, keep: max(2, 1+ends) * q.params.NumBeams}
	g.beams = []*beam{{chain: q.chain, done: q.done, tail: textTail{context: lastTokens(prompt, detokContext)}}}
	q.chain, q.done = nil, nil
	return g
}

// release closes the user code of the beams that still have it.
func (g *search) release() {
	for _, b := range g.beams {
		closeOnce(&b.done)
	}
}

// checkBeams refuses settings of a beam search that are out of range or can never run.
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
		return fmt.Errorf("%w: the sequences to return must be at most num_beams, %d. Given: %d", llm.ErrInvalid,
			p.NumBeams, p.NumReturn)
	case math.IsNaN(float64(p.LengthPenalty)) || math.IsInf(float64(p.LengthPenalty), 0):
		return fmt.Errorf("%w: length_penalty must be finite. Given: %v", llm.ErrInvalid, p.LengthPenalty)
	case p.EarlyStopping > llm.StopNever:
		return fmt.Errorf("%w: early_stopping must be at most %d. Given: %d", llm.ErrInvalid, llm.StopNever,
			p.EarlyStopping)
	}
	return e.settings.CheckBeams(len(r.Prompt), p.MaxNewTokens, p.NumBeams, e.shape.BlockSize)
}

// rank sorts the branches of all beams and keeps the best g.keep. tasks are those of the
// beams, in their order.
func (g *search) rank(tasks []*pickTask) {
	g.candidates = g.candidates[:0]
	for i := range tasks {
		for _, b := range tasks[i].branches {
			g.candidates = append(g.candidates, candidate{from: i, branch: b})
		}
	}
	// Ties keep the order of the beams and, within a beam, of the tokens.
	slices.SortStableFunc(g.candidates, func(a, b candidate) int { return cmp.Compare(b.branch.Key, a.branch.Key) })
	g.candidates = g.candidates[:min(g.keep, len(g.candidates))]
	for i := range g.candidates {
		c := &g.candidates[i]
		t, b := tasks[c.from], c.branch
		c.path = &pathNode{prev: t.beam.path, pick: sample.Pick{Token: b.Token, Logprob: b.Logprob, Stop: b.Stop,
			StoppedBy: b.StoppedBy}, top: t.top}
	}
}

// choose returns the next beams, best first; none if the search has ended. ends reports
// whether a candidate ends its sequence for another reason than the length limit.
func (g *search) choose(ends func(c *candidate) bool) (next []candidate) {
	g.steps++
	n := g.params.NumBeams
	for i := range g.candidates {
		c := &g.candidates[i]
		if !g.params.Sample && i >= n && len(next) == n {
			break // the rest can become neither a beam nor a hypothesis
		}
		switch {
		case g.steps < g.params.MaxNewTokens && !ends(c):
			next = append(next, *c)
		case i < n:
			g.addHypothesis(*c)
		}
	}
	if g.params.Sample { // the candidates were sorted by key, not by score
		slices.SortStableFunc(next, func(a, b candidate) int { return cmp.Compare(b.branch.Score, a.branch.Score) })
	}
	next = next[:min(n, len(next))]
	if len(next) == 0 || g.finished(next[0].branch.Score) {
		return nil
	}
	return next
}

// addHypothesis adds a hypothesis if it is among the best.
func (g *search) addHypothesis(c candidate) {
	h := hypothesis{path: c.path, score: g.normalizedScore(c.branch.Score, g.steps)}
	at := slices.IndexFunc(g.hypotheses, func(f hypothesis) bool { return f.score < h.score })
	if at < 0 {
		at = len(g.hypotheses)
	}
	g.hypotheses = slices.Insert(g.hypotheses, at, h)
	g.hypotheses = g.hypotheses[:min(g.params.NumBeams, len(g.hypotheses))]
}

// normalizedScore returns the length-normalized score of a sequence of n tokens.
func (g *search) normalizedScore(sum float64, n int) float64 {
	return sum / math.Pow(float64(n), float64(g.params.LengthPenalty))
}

// finished reports whether the search ends although beams are open; best is the sum of
// scores of the best open beam.
func (g *search) finished(best float64) bool {
	if len(g.hypotheses) < g.params.NumBeams {
		return false
	}
	if g.params.EarlyStopping == llm.StopFull {
		return true
	}
	length := g.steps
	if g.params.EarlyStopping == llm.StopNever && g.params.LengthPenalty > 0 {
		length = g.params.MaxNewTokens
	}
	return g.normalizedScore(best, length) <= g.hypotheses[len(g.hypotheses)-1].score
}

// nodes returns the nodes of a path, first to last.
func (l *pathNode) nodes() []*pathNode {
	var out []*pathNode
	for ; l != nil; l = l.prev {
		out = append(out, l)
	}
	slices.Reverse(out)
	return out
}
