package sample

import (
	"fmt"
	"math"

	"tgi/runtime/llm"
)

// Beam is what Branches must know of the beam search that a chain takes part in.
type Beam struct {
	// Score is the sum of the scores of the sequence's tokens so far.
	Score float64
	// Rank is the sequence's place among the beams. Draws of different ranks are
	// independent of each other.
	Rank int
	// N is how many branches are wanted, in every step the same.
	N int
}

// Branch is a token with which a beam may go on.
type Branch struct {
	Token llm.Token
	// Score is the beam's score with the token's added: its log-probability as
	// the processors left it and, where the chain draws, the temperature.
	Score float64
	// Key ranks the branches of all beams, the greatest first. It is Score where
	// the best are wanted. Where the chain draws, the branches with the greatest
	// keys are drawn from those of all beams, without replacement, each with a
	// probability proportional to e^Score.
	Key float64
	// Logprob is the token's log-probability for reports: its own part of Score,
	// or that of the model's own distribution when RawLogprobs is set.
	Logprob float32
	// Stop says that a processor ended the sequence at this token.
	Stop bool
}

// Branches returns up to b.N tokens that may follow h, the greatest key first, and
// the TopN likeliest as Pick.Top has them, but rated like the branches. It is what
// Pick is to a sequence that goes its own way: it takes the logits of the last
// token, which it overwrites, calls Prepare where that has not been done, and
// leaves telling the masker to Follow. Fewer branches, or none, are left where
// masks and processors forbid all others.
//
// As in transformers, processors see log-probabilities instead of logits and what
// they leave is not normalised again; and where the chain does not draw, neither
// temperature nor what narrows the distribution applies. Where it does, no fewer
// than one more tokens than there are end tokens survive. A forced token, and the
// end where a processor stops the sequence, are the only branch and rated by the
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
	c.prepared = false
	return list, top, nil
}

// Follow tells the chain with which branch it goes on. Errors wrap llm.ErrPlugin.
func (c *Chain) Follow(t llm.Token) error {
	if c.err == nil && c.masker != nil {
		if err := c.masker.Accept(t); err != nil {
			c.err = fmt.Errorf("%w: accept token %d: %w", llm.ErrPlugin, t, err)
		}
	}
	return c.err
}

func (c *Chain) branches(s *scratch, h History, logits []float32, b Beam) ([]Branch, []Candidate, error) {
	if len(logits) != c.vocab {
		return nil, nil, fmt.Errorf("BUG: %d logits for a vocabulary of %d tokens", len(logits), c.vocab)
	}
	if !s.logSoftmax(logits) {
		return nil, nil, fmt.Errorf("%w: %w: every logit is -Inf or NaN", llm.ErrBackend, ErrNoToken)
	}
	raw := logits // what the model says
	if len(c.processors) > 0 || c.masked {
		s.raw = append(s.raw[:0], logits...)
		raw = s.raw
	}
	st := &c.step
	*st = Step{Logits: logits, Temperature: nan, Force: -1}
	defer func() { st.Logits = nil }() // it is the caller's
	if err := c.process(h, st); err != nil {
		return nil, nil, err
	}
	w := c.warp
	if st.Temperature > 0 {
		w.heat(st.Temperature)
	}
	if !c.sample {
		w = warper{scale: 1, topP: 1, typicalP: 1}
	}
	r := row{x: logits, scale: w.scale}
	some := r.find()
	if st.Stop || st.Force >= 0 {
		list, err := c.only(st, &r, raw, some, b)
		return list, c.topBranches(s, raw, &r, some), err
	}
	if !some {
		return nil, nil, nil
	}
	top := c.topBranches(s, raw, &r, some)
	switch {
	case c.sample && st.Temperature == 0:
		return []Branch{c.branch(&r, raw, llm.Token(r.best), b)}, top, nil
	case c.sample:
		return c.drawn(c.lotOf(s, &r, &w), raw, h, b), top, nil
	}
	r.sum = 1
	best := s.topOf(&r, b.N)
	list := make([]Branch, min(b.N, len(best))) // of those that tie with the last, the first
	for i := range list {
		list[i] = c.branch(&r, raw, best[i].Token, b)
	}
	return list, top, nil
}

// logSoftmax turns logits into log-probabilities; false when there is none.
func (s *scratch) logSoftmax(logits []float32) bool {
	r := row{x: logits, scale: 1}
	if !r.find() {
		return false
	}
	r.add(s.sums)
	s.sums = r.sums
	log := float32(math.Log(r.sum))
	for i, v := range logits {
		logits[i] = (v - r.top) - log
	}
	return true
}

// branch rates a token by the row r that the processors left.
func (c *Chain) branch(r *row, raw []float32, t llm.Token, b Beam) Branch {
	p := r.x[t] * r.scale
	n := Branch{Token: t, Score: b.Score + float64(p), Logprob: p}
	n.Key = n.Score
	if c.raw {
		n.Logprob = raw[t]
	}
	return n
}

// only returns the one branch that a processor asks for; none when the model gives
// it no probability at all.
func (c *Chain) only(st *Step, r *row, raw []float32, some bool, b Beam) ([]Branch, error) {
	t := llm.Token(r.best)
	switch {
	case st.Stop && len(c.ends) > 0:
		t = c.likeliestEnd(st.Logits)
	case st.Stop && !some:
		return nil, nil
	case !st.Stop:
		t = llm.Token(st.Force)
		if c.masked && c.mask[t/32]>>(t%32)&1 == 0 {
			return nil, fmt.Errorf("%w: forced token %d: the grammar forbids it", llm.ErrPlugin, t)
		}
	}
	own := row{x: raw, scale: 1}
	n := c.branch(&own, raw, t, b)
	n.Stop = st.Stop
	if !(n.Logprob > negInf) {
		return nil, nil
	}
	return []Branch{n}, nil
}

// topBranches returns the TopN likeliest tokens of the distribution that is reported.
func (c *Chain) topBranches(s *scratch, raw []float32, r *row, some bool) []Candidate {
	if c.topN == 0 || !some {
		return nil
	}
	if c.raw {
		r = &row{x: raw, scale: 1}
		r.find()
	}
	r.sum = 1
	list := c.keepTop(s.topOf(r, c.topN))
	for i := range list {
		list[i].Logprob = list[i].Logit
	}
	return list
}

// lot is what branches are drawn from: a whole row, or its survivors.
type lot struct {
	row       *row
	survivors *survivors // nil for the whole row
	unit      float64    // the logarithm of what weighs 1
}

// lotOf returns the tokens of r that w leaves.
func (c *Chain) lotOf(s *scratch, r *row, w *warper) lot {
	if !w.narrows() {
		r.add(s.sums)
		s.sums = r.sums
		return lot{row: r, unit: float64(r.top * r.scale)}
	}
	least := len(c.ends) + 1 // so that a beam can go on when all ends are drawn
	if w.topK > 0 {
		w.topK = max(w.topK, least)
	}
	w.apply(s, r)
	if len(s.id) < least {
		s.gatherTop(r, least)
	}
	return lot{r, &s.survivors, float64(r.x[s.id[0]]*r.scale - s.d[0])}
}

// mass returns the weight of what has not been taken.
func (l *lot) mass() float64 {
	if l.survivors != nil {
		return l.survivors.sum
	}
	return l.row.sum
}

// take takes the token at the fraction u of the mass out of the lot, and hands it to
// rate while it still has its logit. It reports false when nothing is left.
func (l *lot) take(u float64, rate func(llm.Token)) bool {
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
	if r.x[t] == negInf { // taken before: nothing that weighs anything is left
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

// drawn draws branches without replacement. The keys are the scores with
// independent Gumbel noise added, of which the greatest are such a draw (Kool, van
// Hoof and Welling 2019, "Stochastic Beams and Where to Find Them"). They are made
// from the greatest down: the greatest of what is left is Gumbel distributed around
// the logarithm of its mass and not above the one before, and belongs to a token by
// the tokens' masses. So a row needs two random numbers per branch, not one per token.
func (c *Chain) drawn(l lot, raw []float32, h History, b Beam) (list []Branch) {
	seed := scramble(c.seed + uint64(b.Rank)*0x9e3779b97f4a7c15)
	last := math.Inf(1)
	for i := range b.N {
		mass := l.mass()
		if mass <= 0 {
			break
		}
		at := 2 * (len(h.Output)*b.N + i)
		mass = b.Score + l.unit + math.Log(mass)
		last = mass - math.Log(math.Exp(mass-last)-math.Log(uniform(seed, at+1)))
		more := l.take(uniform(seed, at), func(t llm.Token) {
			n := c.branch(l.row, raw, t, b)
			n.Key = last
			list = append(list, n)
		})
		if !more {
			break
		}
	}
	return list
}
