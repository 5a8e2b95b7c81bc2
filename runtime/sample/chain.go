// Package sample turns the logits of one sequence into its next token: penalties
// and user code edit them, warpers narrow the distribution, and a greedy or
// seeded pick ends the step. It knows nothing of batches, devices or texts.
//
// The order is TGI's (reference: its HeterogeneousNextTokenChooser), with what
// TGI lacks put where it does least harm to that order:
//
//  1. logit_bias, on the raw logits, so that a bias means the same whatever
//     else is set
//  2. watermark
//  3. repetition penalty
//  4. frequency penalty
//  5. presence penalty
//  6. the sequence's own processors
//  7. the mask of a grammar: after everything that could lift a forbidden token
//  8. temperature, top_k, top_p, typical_p, min_p
//  9. the sequence's own sampler, or the best token, or a draw
//
// Stages 1 to 6 are Processors, built-in and user code alike.
//
// Temperature and the narrowing stages apply to greedy sequences too: the token
// is then the best of those left (typical_p may drop the very best), and its
// log-probability is that of the processed distribution.
//
// Logits that are not numbers count as -Inf. Tokens with a logit of +Inf share
// the whole mass equally. A row in which no token is left fails with ErrNoToken.
package sample

import (
	"errors"
	"fmt"

	"tgi/runtime/llm"
)

// ErrNoToken says that no token can be picked: every logit is -Inf or NaN. It
// comes wrapped with llm.ErrPlugin where user code had a hand in the row, with
// llm.ErrBackend where the model alone made it.
var ErrNoToken = errors.New("no token is left to pick")

// Chain picks the tokens of one sequence, step after step.
//
// One Chain serves one sequence and outlives its preemptions. PrepareMask and
// Pick are not called concurrently; chains of different sequences share nothing
// and may run on different goroutines. After an error every further call
// returns the same error.
type Chain struct {
	vocab      int
	seed       uint64
	sample     bool
	topN       int
	raw        bool // report the model's own distribution
	processors []Processor
	builtin    int // how many of them are not user code
	masker     Masker
	sampler    Sampler
	warp       warper
	mask       []uint32
	prepared   bool // mask is that of the coming pick
	masked     bool // and it constrains
	top        []Candidate
	err        error
}

// Pick is the outcome of one step.
type Pick struct {
	// Token is the picked token.
	Token llm.Token
	// Logprob is its log-probability: of the processed distribution, where it
	// is 0 when one token survived, or of the model's own when RawLogprobs is set.
	Logprob float32
	// Top holds the TopN likeliest tokens of the same distribution, best first,
	// equals by ascending token, with all that tie with the n-th; forbidden ones
	// are left out, so there may be fewer. It is nil when TopN is 0. It is a view
	// that ends with the next Pick of the chain.
	Top []Candidate
}

// New returns the chain of one sequence over a vocabulary of vocab tokens. Every
// field of p has its value, as llm.Params demands: settings outside the ranges
// given there, and biases for tokens outside the vocabulary, are refused with
// llm.ErrInvalid.
func New(p llm.Params, vocab int, plug Plugins) (*Chain, error) {
	if err := check(p, vocab); err != nil {
		return nil, err
	}
	c := &Chain{
		vocab:   vocab,
		seed:    p.Seed,
		sample:  p.Sample,
		topN:    p.TopN,
		raw:     p.RawLogprobs,
		masker:  plug.Masker,
		sampler: plug.Sampler,
		warp:    newWarper(p, vocab),
	}
	c.processors = builtins(p)
	c.builtin = len(c.processors)
	c.processors = append(c.processors, plug.Processors...)
	if c.masker != nil {
		c.mask = make([]uint32, (vocab+31)/32)
	}
	return c, nil
}

// builtins returns the processors that p switches on.
func builtins(p llm.Params) (list []Processor) {
	seen := new(tally)
	if len(p.LogitBias) > 0 {
		list = append(list, bias(p.LogitBias))
	}
	if p.Watermark {
		list = append(list, newWatermark(p.WatermarkGamma, p.WatermarkDelta))
	}
	if p.RepetitionPenalty != 1 {
		list = append(list, repetition{seen, p.RepetitionPenalty})
	}
	if p.FrequencyPenalty != 0 {
		list = append(list, frequency{seen, p.FrequencyPenalty})
	}
	if p.PresencePenalty != 0 {
		list = append(list, presence{seen, p.PresencePenalty})
	}
	return list
}

// PrepareMask computes the mask of the coming Pick. It needs no logits, so it
// may run while the forward pass does, on another goroutine than Pick as long as
// one follows the other. Pick calls it where the caller has not; calling it
// again before Pick does nothing. Its errors wrap llm.ErrPlugin.
func (c *Chain) PrepareMask() error {
	if c.err != nil || c.masker == nil || c.prepared {
		return c.err
	}
	masked, err := c.masker.Mask(c.mask)
	if err != nil {
		c.err = fmt.Errorf("%w: mask: %w", llm.ErrPlugin, err)
		return c.err
	}
	c.masked, c.prepared = masked, true
	return nil
}

// Pick picks the token that follows h from the logits [vocab] of its last token,
// which it overwrites, and tells the masker. The same chain settings, history
// and logits give the same pick, whatever else runs: the draw depends on the
// seed and on len(h.Output).
//
// Errors of user code wrap llm.ErrPlugin; see also ErrNoToken.
func (c *Chain) Pick(h History, logits []float32) (Pick, error) {
	if err := c.PrepareMask(); err != nil {
		return Pick{}, err
	}
	s := scratches.Get().(*scratch)
	defer scratches.Put(s)
	p, err := c.pick(s, h, logits)
	if err != nil {
		c.err = err
		return Pick{}, err
	}
	return p, nil
}

func (c *Chain) pick(s *scratch, h History, logits []float32) (Pick, error) {
	if len(logits) != c.vocab {
		return Pick{}, fmt.Errorf("BUG: %d logits for a vocabulary of %d tokens", len(logits), c.vocab)
	}
	edited := len(c.processors) > 0 || c.masked
	if c.raw && edited {
		s.raw = append(s.raw[:0], logits...)
	}
	if err := c.process(h, logits); err != nil {
		return Pick{}, err
	}
	r := row{x: logits, scale: c.warp.scale}
	if !r.find() {
		return Pick{}, c.noToken()
	}
	p, err := c.choose(s, &r, h)
	if err != nil {
		return Pick{}, err
	}
	if c.raw {
		if edited {
			logits = s.raw
		}
		c.reportRaw(s, logits, &p)
	}
	if c.masker != nil {
		c.prepared = false
		if err := c.masker.Accept(p.Token); err != nil {
			return Pick{}, fmt.Errorf("%w: accept token %d: %w", llm.ErrPlugin, p.Token, err)
		}
	}
	return p, nil
}

// process runs everything that edits the row in place.
func (c *Chain) process(h History, logits []float32) error {
	for i, p := range c.processors {
		if err := p.Process(h, logits); err != nil {
			return fmt.Errorf("%w: processor %d: %w", llm.ErrPlugin, i-c.builtin, err)
		}
	}
	if c.masked {
		forbid(c.mask, logits)
	}
	return nil
}

func (c *Chain) noToken() error {
	switch {
	case c.masked:
		return fmt.Errorf("%w: %w: the mask and the logits together forbid every token", llm.ErrPlugin, ErrNoToken)
	case len(c.processors) > c.builtin:
		return fmt.Errorf("%w: %w after the processors", llm.ErrPlugin, ErrNoToken)
	}
	return fmt.Errorf("%w: %w: every logit is -Inf or NaN", llm.ErrBackend, ErrNoToken)
}

// choose picks from r, through the survivors' list where something narrows or a
// sampler wants to see it, and straight from the row otherwise.
func (c *Chain) choose(s *scratch, r *row, h History) (p Pick, err error) {
	if c.warp.narrows() || c.sampler != nil {
		c.warp.apply(s, r)
		i, err := c.chooseSurvivor(s, r, h)
		if err != nil {
			return Pick{}, err
		}
		p = Pick{Token: s.id[i], Logprob: s.logprob(i)}
		if c.topN > 0 && !c.raw {
			p.Top = c.keepTop(s.topSurvivors(r, c.topN))
		}
		return p, nil
	}
	if !c.raw || c.sample {
		r.add(s.sums)
		s.sums = r.sums
	}
	p.Token = llm.Token(r.best)
	if c.sample {
		p.Token = r.draw(uniform(c.seed, len(h.Output)))
	}
	if !c.raw {
		p.Logprob = r.logprob(p.Token)
		if c.topN > 0 {
			p.Top = c.keepTop(s.topOf(r, c.topN))
		}
	}
	return p, nil
}

// chooseSurvivor returns the index of the picked survivor.
func (c *Chain) chooseSurvivor(s *scratch, r *row, h History) (int, error) {
	if c.sampler == nil {
		if c.sample {
			return s.draw(uniform(c.seed, len(h.Output))), nil
		}
		return s.best(r.x), nil
	}
	list := s.candidates(r)
	n := len(list)
	i, err := c.sampler.Sample(h, list)
	if err != nil {
		return 0, fmt.Errorf("%w: sampler: %w", llm.ErrPlugin, err)
	}
	if i < 0 || i >= n {
		return 0, fmt.Errorf("%w: sampler: picked candidate %d of %d", llm.ErrPlugin, i, n)
	}
	return int(uint32(s.order[i])), nil
}

// reportRaw replaces what p reports with the model's own distribution.
func (c *Chain) reportRaw(s *scratch, logits []float32, p *Pick) {
	r := row{x: logits, scale: 1}
	if !r.find() { // only where user code gave numbers to a row that had none
		p.Logprob = negInf
		return
	}
	r.add(s.sums)
	s.sums = r.sums
	p.Logprob = r.logprob(p.Token)
	if c.topN > 0 {
		p.Top = c.keepTop(s.topOf(&r, c.topN))
	}
}

// keepTop copies scratch candidates to the chain's own memory.
func (c *Chain) keepTop(list []Candidate) []Candidate {
	c.top = append(c.top[:0], list...)
	return c.top
}
