package sample

import (
	"errors"
	"fmt"
	"math"

	"tgi/runtime/llm"
)

// Beam describes the beam of a search to Branches.
type Beam struct {
	// Score is the sum of the scores of the sequence's tokens so far.
	Score float64
	// Rank is the sequence's index among the beams. Draws of different ranks are
	// independent.
	Rank int
	// N is how many branches are wanted; the same in every step.
	N int
}

// Branch is a token that may follow a beam.
type Branch struct {
	Token llm.Token
	// Score is the beam's score plus the token's: its log-probability after the processors
	// and, if the chain draws, the temperature.
	Score float64
	// Key ranks the branches of all beams, greatest first. If the chain does not draw it is
	// Score. If it draws, the branches with the greatest keys are a draw without
	// replacement from those of all beams, with probabilities proportional to e^Score.
	Key float64
	// Logprob is the token's log-probability for reports: its part of Score, or that of
	// the model's own distribution if RawLogprobs is set.
	Logprob float32
	// Stop says that a processor ended the sequence at this token; StoppedBy names it.
	Stop      bool
	StoppedBy string
}

// Branches returns up to b.N tokens that may follow h, greatest key first, and the TopN
// likeliest tokens like Pick.Top, but scored like the branches. It is Pick for a beam: it
// takes the logits of the last token, which it overwrites, and calls Prepare if the caller
// has not. It does not call the masker; Follow does. There are fewer branches, or none, if
// masks and processors forbid the others.
//
// As in transformers, processors see log-probabilities instead of logits, and the result is
// not normalised again. If the chain does not draw, temperature and warpers do not apply. If
// it draws, at least one token more than there are end tokens survives. A forced token, or
// the end token if a processor stops the sequence, is the only branch and is scored by the
// model's own distribution.
func (c *Chain) Branches(h History, logits []float32, b Beam) (list []Branch, top []Candidate, err error) {
	if err := c.Prepare(h); err != nil {
		return nil, nil, err
	}
	s := scratches.Get().(*scratch)
	defer scratches.Put(s)
	list, top, err = c.branches(s, h, logits, b)
	if err != nil {
		c.err = err
		return nil, nil, err
	}
	c.prepared, c.hasMask = false, false
	return list, top, nil
}

// Follow continues the chain with the token of a branch. Errors are those of Pick.
func (c *Chain) Follow(t llm.Token) error {
	if c.err == nil && c.masker != nil {
		if err := c.masker.Accept(t); err != nil {
			c.err = maskerError(fmt.Sprintf("accept token %d", t), err)
		}
	}
	return c.err
}

// scoredRow is a row whose tokens are scored by their log-probabilities. As long as it holds
// logits this needs no pass over the row.
type scoredRow struct {
	row
	max, logSum float32 // what to take from a logit, one after the other
}

// score returns what the token t adds to a sequence's score.
func (r *scoredRow) score(t llm.Token) float32 { return (r.x[t] - r.max - r.logSum) * r.scale }

// normalise returns the distribution of logits; false when no token has a logit.
func (s *scratch) normalise(logits []float32) (scoredRow, bool) {
	r := scoredRow{row: row{x: logits, scale: 1}}
	if !r.findMax() {
		return r, false
	}
	r.computeSums(s.sums)
	s.sums = r.sums
	r.max, r.logSum = r.top, float32(math.Log(r.sum))
	return r, true
}

// toLogprobs replaces the logits of r by their log-probabilities.
func (r *scoredRow) toLogprobs() {
	for i, v := range r.x {
		r.x[i] = v - r.max - r.logSum
	}
	r.max, r.logSum = 0, 0
}

func (c *Chain) branches(s *scratch, h History, logits []float32, b Beam) ([]Branch, []Candidate, error) {
	if len(logits) != c.vocab {
		return nil, nil, fmt.Errorf("BUG: %d logits for a vocabulary of %d tokens", len(logits), c.vocab)
	}
	r, ok := s.normalise(logits)
	if !ok {
		return nil, nil, fmt.Errorf("%w: %w: every logit is -Inf or NaN", llm.ErrBackend, ErrNoToken)
	}
	if len(c.processors) > 0 {
		r.toLogprobs()
	}
	own := r // what the model says
	if len(c.processors) > 0 || c.masked {
		s.raw = append(s.raw[:0], logits...)
		own.x = s.raw
	}
	st := &c.step
	*st = Step{Logits: logits, Temperature: nan, Force: -1}
	defer func() { st.Logits = nil }() // it is the caller's
	if err := c.process(h, st); errors.As(err, new(*DeadEnd)) {
		return nil, nil, nil // others may go on
	} else if err != nil {
		return nil, nil, err
	}
	w := c.warp
	if st.Temperature > 0 {
		w.setTemperature(st.Temperature)
	}
	if !c.sample {
		w = warper{scale: 1, topP: 1, typicalP: 1}
	}
	r.scale = w.scale
	some := r.findMax()
	if st.Stop || st.Force >= 0 {
		list, err := c.forcedBranch(st, &r, &own, some, b)
		return list, c.topBranches(s, &r, &own, some), err
	}
	if !some {
		return nil, nil, nil
	}
	top := c.topBranches(s, &r, &own, some)
	switch {
	case c.sample && st.Temperature == 0:
		return []Branch{c.branch(&r, &own, llm.Token(r.best), b)}, top, nil
	case c.sample:
		return c.drawBranches(c.newDrawPool(s, &r, &w), &own, h, b), top, nil
	}
	r.sum = 1
	best := s.topOf(&r.row, b.N)
	list := make([]Branch, min(b.N, len(best))) // of those that tie with the last, the first
	for i := range list {
		list[i] = c.branch(&r, &own, best[i].Token, b)
	}
	return list, top, nil
}

// branch scores a token by the row r after the processors.
func (c *Chain) branch(r, own *scoredRow, t llm.Token, b Beam) Branch {
	p := r.score(t)
	n := Branch{Token: t, Score: b.Score + float64(p), Logprob: p}
	n.Key = n.Score
	if c.raw {
		n.Logprob = own.score(t)
	}
	return n
}

// forcedBranch returns the only branch if a processor forces a token or ends the sequence;
// none if the model gives that token probability 0.
func (c *Chain) forcedBranch(st *Step, r, own *scoredRow, some bool, b Beam) ([]Branch, error) {
	t := llm.Token(r.best)
	switch {
	case st.Stop && len(c.endTokens) > 0:
		t = c.likeliestEnd(st.Logits)
	case st.Stop && !some:
		return nil, nil
	case !st.Stop:
		t = llm.Token(st.Force)
		if c.masked && c.mask[t/32]>>(t%32)&1 == 0 {
			return nil, c.forbiddenForce(st, t)
		}
	}
	n := c.branch(own, own, t, b)
	n.Stop, n.StoppedBy = st.Stop, st.StoppedBy
	if !(n.Logprob > negInf) {
		return nil, nil
	}
	return []Branch{n}, nil
}

// topBranches returns the TopN likeliest tokens of the distribution that is reported.
func (c *Chain) topBranches(s *scratch, r, own *scoredRow, some bool) []Candidate {
	if c.topN == 0 || !some {
		return nil
	}
	if c.raw {
		r = own
	}
	all := r.row
	all.findMax()
	all.sum = 1
	list := c.copyTop(s.topOf(&all, c.topN))
	for i := range list {
		list[i].Logprob = r.score(list[i].Token)
		list[i].Logit = list[i].Logprob
	}
	return list
}

// drawPool is what branches are drawn from: a whole row, or its survivors.
type drawPool struct {
	row       *scoredRow
	survivors *survivors // nil for the whole row
	logUnit   float64    // the logarithm of what weighs 1
}

// newDrawPool returns the tokens of r that w leaves.
func (c *Chain) newDrawPool(s *scratch, r *scoredRow, w *warper) drawPool {
	if !w.narrows() {
		r.computeSums(s.sums)
		s.sums = r.sums
		return drawPool{row: r, logUnit: float64(r.score(llm.Token(r.best)))}
	}
	least := len(c.endTokens) + 1 // so that a beam can continue if all end tokens are drawn
	if w.topK > 0 {
		w.topK = max(w.topK, least)
	}
	w.apply(s, &r.row)
	if len(s.id) < least {
		s.gatherTop(&r.row, least)
	}
	return drawPool{r, &s.survivors, float64(r.score(s.id[0]) - s.d[0])}
}

// mass returns the weight of the tokens that have not been taken.
func (l *drawPool) mass() float64 {
	if l.survivors != nil {
		return l.survivors.sum
	}
	return l.row.sum
}

// take removes the token at the fraction u of the mass, after it has called rate with it. It
// returns false if nothing is left.
func (l *drawPool) take(u float64, rate func(llm.Token)) bool {
	if s := l.survivors; s != nil {
		i := s.draw(u)
		w := s.w[i]
		if w == 0 {
			return false
		}
		rate(s.id[i])
		s.w[i] = 0
		s.sum -= float64(w)
		return true
	}
	r := l.row
	t := r.draw(u)
	if r.x[t] == negInf { // taken before: no weight is left
		return false
	}
	rate(t)
	r.x[t] = negInf
	start := int(t) / blockLen * blockLen
	r.sums[start/blockLen] = sumExp(r.x[start:min(start+blockLen, len(r.x))], r.top, r.scale)
	r.sum = 0
	for _, s := range r.sums {
		r.sum += s
	}
	return true
}

// drawBranches draws branches without replacement. The keys are the scores with
// independent Gumbel noise added, of which the greatest are such a draw (Kool, van
// Hoof and Welling 2019, "Stochastic Beams and Where to Find Them"). They are
// generated in descending order: the greatest key of the remaining tokens is Gumbel
// distributed around the logarithm of their mass, truncated at the key before, and belongs
// to a token with probability proportional to its mass. So a row needs two random numbers
// per branch, not one per token.
func (c *Chain) drawBranches(l drawPool, own *scoredRow, h History, b Beam) (list []Branch) {
	seed := splitMix(c.seed + uint64(b.Rank)*0x9e3779b97f4a7c15)
	last := math.Inf(1)
	for i := range b.N {
		mass := l.mass()
		if mass <= 0 {
			break
		}
		at := 2 * (len(h.Output)*b.N + i)
		mass = b.Score + l.logUnit + math.Log(mass)
		last = mass - math.Log(math.Exp(mass-last)-math.Log(uniform(seed, at+1, 0)))
		more := l.take(uniform(seed, at, 0), func(t llm.Token) {
			n := c.branch(l.row, own, t, b)
			n.Key = last
			list = append(list, n)
		})
		if !more {
			break
		}
	}
	return list
}
