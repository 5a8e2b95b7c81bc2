// Package sample turns the logits of one sequence into its next token: penalties and
// user code edit them, warpers narrow the distribution, and a greedy or seeded pick ends
// the step. It knows nothing of batches, devices or text.
//
// Its caller is runtime/engine. It starts no goroutines. A chain is used by one goroutine
// at a time; the only shared state is a sync.Pool of scratch memory.
//
// The order is TGI's (reference: its HeterogeneousNextTokenChooser). Stages that TGI lacks
// are inserted where they disturb that order least:
//
//  1. logit_bias, on the raw logits, so that a bias means the same whatever else is set
//  2. watermark
//  3. repetition penalty
//  4. frequency penalty
//  5. presence penalty
//  6. the mask of a grammar
//  7. the sequence's own processors, after which the mask is applied again, so that none
//     of them can allow a forbidden token, and then the biases of rewinds
//  8. temperature, top_k, top_p, typical_p, min_p
//  9. the sequence's own sampler, or the best token, or a draw
//
// Stages 1 to 5 and 7 are Processors, built-in and user code alike. A processor may set
// the temperature of stage 8, pick the token itself, or end the sequence.
//
// Temperature and the warpers apply to greedy sequences too: the token is then the best of
// those left (typical_p may drop the very best), and its log-probability is that of the
// processed distribution.
//
// NaN logits count as -Inf. Tokens with a logit of +Inf share the whole mass equally. A row
// without any token left fails with ErrNoToken.
//
// In a beam search Branches replaces Pick: instead of stage 9 it proposes tokens, which the
// search compares with those of other beams.
//
// The reasons behind it: docs/rationale/runtime.md.
package sample

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"tgi/runtime/llm"
)

// ErrNoToken says that no token can be picked: every logit is -Inf or NaN. It is wrapped
// together with llm.ErrPlugin if user code edited the row, otherwise with llm.ErrBackend.
var ErrNoToken = errors.New("no token is left to pick")

// DeadEnd says that what the request is held to and its plugins leave no token together, though each for itself would.
// Nobody has failed: the request cannot be fulfilled as it is. It wraps llm.ErrInvalid and ErrNoToken.
type DeadEnd struct {
	Why string // names all that take part, and has no word of theirs
}

// Error says who forbids what is left.
func (d *DeadEnd) Error() string { return ErrNoToken.Error() + ": " + d.Why }

// Unwrap returns llm.ErrInvalid and ErrNoToken.
func (*DeadEnd) Unwrap() []error { return []error{llm.ErrInvalid, ErrNoToken} }

// fault is an error of user code in the server's own words, which say whose it is. It wraps llm.ErrPlugin.
type fault struct {
	words string
	kind  error // a sentinel, or nil
}

// Error implements error.
func (f *fault) Error() string { return llm.ErrPlugin.Error() + ": " + f.words }

// Unwrap returns llm.ErrPlugin and the sentinel.
func (f *fault) Unwrap() []error { return []error{llm.ErrPlugin, f.kind} }

// Outline is what may be said of it where guards read the text.
func (f *fault) Outline() string { return f.words }

// Chain picks the tokens of one sequence, step after step.
//
// One Chain serves one sequence, also across preemptions. Prepare and Pick must not be
// called concurrently; chains of different sequences share nothing and may run on different
// goroutines. After an error every further call returns the same error.
type Chain struct {
	vocab      int
	seed       uint64
	sample     bool
	topN       int
	raw        bool // report the model's own distribution
	processors []Processor
	builtins   int // how many of them are not user code
	preparers  []Preparer
	forcers    []Forcer // of the processors
	masker     Masker
	sampler    Sampler
	guests     []string
	fork       func() (Plugins, error)
	counts     *tokenCounts // of the built-in penalties
	endTokens  []llm.Token
	warp       warper
	mask       []uint32
	prepared   bool // Prepare was called for the coming pick
	hasMask    bool // the mask for it was computed
	masked     bool // and constrains
	top        []Candidate
	step       Step // of the pick under way; here so that a pick allocates nothing
	reduction  reduction
	rewound    rewound
	explain    *explainer // nil unless picks are explained
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
	// Stop says that a processor ended the sequence at this token; StoppedBy names it.
	Stop      bool
	StoppedBy string
	// Explained tells how the token came to be, if Params.Explain asks for it. The caller owns it.
	Explained *llm.Explanation

	sampled bool // by the sequence's own sampler
}

// New returns the chain of one sequence over a vocabulary of vocab tokens. It refuses
// settings outside the ranges that llm.Params documents, and biases for tokens outside the
// vocabulary, with llm.ErrInvalid. ends are the tokens that end a sequence: if a processor
// stops it, the likeliest of them is picked.
func New(p llm.Params, vocab int, ends []llm.Token, plug Plugins) (*Chain, error) {
	if err := check(p, vocab); err != nil {
		return nil, err
	}
	c := &Chain{
		vocab:     vocab,
		seed:      p.Seed,
		sample:    p.Sample,
		topN:      p.TopN,
		raw:       p.RawLogprobs,
		masker:    plug.Masker,
		sampler:   plug.Sampler,
		guests:    plug.Guests,
		fork:      plug.Fork,
		counts:    new(tokenCounts),
		endTokens: ends,
		warp:      newWarper(p, vocab),
		explain:   newExplainer(p),
	}
	c.processors = builtins(p, c.counts)
	c.builtins = len(c.processors)
	c.addProcessors(plug.Processors)
	if c.masker != nil {
		c.mask = make([]uint32, (vocab+31)/32)
	}
	return c, nil
}

// addProcessors adds the user's processors.
func (c *Chain) addProcessors(list []Processor) {
	c.processors = append(c.processors, list...)
	for _, x := range list {
		if x, ok := x.(Preparer); ok {
			c.preparers = append(c.preparers, x)
		}
		if x, ok := x.(Forcer); ok {
			c.forcers = append(c.forcers, x)
		}
	}
}

// builtins returns the built-in processors that p turns on; they share the counts seen.
func builtins(p llm.Params, seen *tokenCounts) (list []Processor) {
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

// Guests returns the names of Plugins.Guests, which are the same for forks.
func (c *Chain) Guests() []string { return c.guests }

// Prepares reports whether Prepare has anything to do.
func (c *Chain) Prepares() bool { return c.masker != nil || len(c.preparers) > 0 }

// TryMask computes the mask of the next Pick if it is a QuickMasker's. It returns false if that takes long: then Mask
// is to be called, where nobody waits for it, before Prepare and Pick. Errors are those of Prepare.
func (c *Chain) TryMask() (done bool) {
	m, ok := c.masker.(QuickMasker)
	if !ok || c.err != nil || c.prepared || c.hasMask {
		return true
	}
	var err error
	if c.masked, done, err = m.TryMask(c.mask); err != nil {
		c.err = maskerError("mask", err)
		return true
	}
	c.hasMask = done
	return done
}

// Mask computes the mask of the next Pick, however long that takes. Errors are those of Prepare.
func (c *Chain) Mask() {
	if c.err == nil && c.masker != nil && !c.prepared && !c.hasMask {
		c.err = c.computeMask()
	}
}

func (c *Chain) computeMask() (err error) {
	if c.masked, err = c.masker.Mask(c.mask); err != nil {
		return maskerError("mask", err)
	}
	c.hasMask = true
	return nil
}

// Prepare does the work of the next Pick that depends on h alone: the mask, and the
// processors' preparations. It needs no logits, so it may run during the forward pass, on
// another goroutine than Pick if the caller orders the two. Pick calls it if the caller has
// not; a second call before Pick does nothing. Errors are those of Pick.
func (c *Chain) Prepare(h History) error {
	if c.err != nil || c.prepared || !c.Prepares() {
		return c.err
	}
	if c.err = c.prepare(h); c.err == nil {
		c.prepared = true
	}
	return c.err
}

func (c *Chain) prepare(h History) (err error) {
	if c.masker != nil && !c.hasMask {
		if err := c.computeMask(); err != nil {
			return err
		}
	}
	for _, p := range c.preparers {
		if err := p.Prepare(h); err != nil {
			return fmt.Errorf("%w: %w", llm.ErrPlugin, err)
		}
	}
	return nil
}

// maskerError is the error of a masker: one that says that the request is at fault stays as it is.
func maskerError(call string, err error) error {
	if errors.Is(err, llm.ErrInvalid) {
		return err
	}
	return fmt.Errorf("%w: %s: %w", llm.ErrPlugin, call, err)
}

// Pick picks the token that follows h from the logits [vocab] of its last token, which it
// overwrites, and passes it to the masker. The same settings, history and logits always give
// the same pick: the draw depends on the seed, on len(h.Output) and on
// how often Ban was called for there or before.
//
// Errors of user code wrap llm.ErrPlugin, but those of a Masker that wrap llm.ErrInvalid; see also ErrNoToken and
// DeadEnd.
func (c *Chain) Pick(h History, logits []float32) (Pick, error) {
	if err := c.Prepare(h); err != nil {
		return Pick{}, err
	}
	s := scratches.Get().(*scratch)
	defer scratches.Put(s)
	p, err := c.pick(s, h, logits)
	if err != nil {
		c.err = err
		return Pick{}, err
	}
	c.prepared, c.hasMask = false, false
	c.rewound.next()
	return p, nil
}

func (c *Chain) pick(s *scratch, h History, logits []float32) (Pick, error) {
	if len(logits) != c.vocab {
		return Pick{}, fmt.Errorf("BUG: %d logits for a vocabulary of %d tokens", len(logits), c.vocab)
	}
	if c.explain != nil {
		c.explain.begin(h, logits)
	}
	edited := len(c.processors) > 0 || c.masked || c.rewound.edits(h)
	if c.raw && edited {
		s.raw = append(s.raw[:0], logits...)
	}
	st := &c.step
	*st = Step{Logits: logits, Temperature: nan, Force: -1}
	defer func() { st.Logits = nil }() // it is the caller's
	if err := c.process(h, st); err != nil {
		return Pick{}, err
	}
	c.forceByMask(st)
	p, err := c.decide(s, h, st)
	if err != nil {
		return Pick{}, err
	}
	if c.explain != nil {
		p.Explained = c.explain.end(c, st, &p)
	}
	if c.raw {
		if edited {
			logits = s.raw
		}
		c.reportRaw(s, logits, &p)
	}
	if c.masker != nil && !p.Stop {
		if err := c.masker.Accept(p.Token); err != nil {
			return Pick{}, maskerError(fmt.Sprintf("accept token %d", p.Token), err)
		}
	}
	return p, nil
}

// process runs everything that edits the row in place: the built-in processors, the mask,
// then user code, which sees forbidden tokens as -Inf and cannot allow them again.
func (c *Chain) process(h History, st *Step) error {
	for i, p := range c.processors {
		if i == c.builtins {
			c.applyMask(st)
		}
		if c.explain != nil {
			c.explain.ask(st)
		}
		if err := p.Process(h, st); errors.Is(err, llm.ErrDeadEnd) {
			return c.deadEnd(i)
		} else if err != nil {
			return fmt.Errorf("%w: %w", llm.ErrPlugin, err)
		}
		if c.explain != nil {
			c.explainProcessor(i, st)
		}
		if i >= c.builtins {
			if err := c.checkStep(st); err != nil {
				return &fault{fmt.Sprintf("plugin %s: %v", nameOf(p, "server"), err), nil}
			}
		}
	}
	c.applyMask(st)
	if c.explain != nil {
		c.explain.ask(st)
	}
	c.rewound.apply(h, st)
	if c.explain != nil {
		kind := llm.ChangeGuard
		if len(c.rewound.denied) > 0 { // runs of programs have no guards
			kind = llm.ChangeProgram
		}
		c.explain.after(kind, c.rewound.banners(h), st)
	}
	if len(c.rewound.queue) == 0 {
		return nil
	}
	if c.explain != nil {
		c.explain.ask(st)
	}
	c.rewound.insert(st)
	if c.explain != nil {
		c.explain.after(llm.ChangeGuard, c.rewound.from, st)
	}
	return nil
}

// deadEnd is the error where processor i forbids all tokens that are left to it.
func (c *Chain) deadEnd(i int) error {
	before := c.forbidders(i)
	if len(before) == 0 {
		before = append(before, "the model")
	}
	return &DeadEnd{fmt.Sprintf("plugin %s forbids every token that is left by %s", nameOf(c.processors[i], "server"),
		strings.Join(before, " and "))}
}

// forbidders names the mask and those of the first n processors that may forbid tokens.
func (c *Chain) forbidders(n int) (out []string) {
	if c.masked {
		out = append(out, c.maskName())
	}
	for _, p := range c.processors[c.builtins:n] {
		out = append(out, "plugin "+nameOf(p, "server"))
	}
	return out
}

// maskName says whose the mask is.
func (c *Chain) maskName() string { return nameOf(c.masker, "the grammar") }

// forbiddenForce is the error of a forced token that the mask forbids.
func (c *Chain) forbiddenForce(st *Step, t llm.Token) error {
	if len(c.rewound.queue) > 0 { // its text is not told: other guards may be there to keep it back
		return &DeadEnd{fmt.Sprintf("plugin %s inserts a token, which is forbidden by %s", c.rewound.from, c.maskName())}
	}
	if st.ForcedBy != "" {
		return &DeadEnd{fmt.Sprintf("plugin %s forces token %d, which is forbidden by %s", st.ForcedBy, t, c.maskName())}
	}
	return fmt.Errorf("%w: forced token %d: the grammar forbids it", llm.ErrPlugin, t)
}

// forceByMask forces the token that the masker decides on, unless user code or a rewind says otherwise. A beam search
// has none: it compares all ways to go on.
func (c *Chain) forceByMask(st *Step) {
	t, ok := c.forcedByMask()
	if !ok || st.Force >= 0 || st.Stop || int64(t) >= int64(c.vocab) || !(st.Logits[t] > negInf) {
		return
	}
	if c.explain != nil {
		c.explain.ask(st)
	}
	st.Force = int64(t)
	if c.explain != nil {
		c.explain.after(llm.ChangeMask, nameOf(c.masker, "grammar"), st)
	}
}

// forcedByMask returns the token that the masker decides on.
func (c *Chain) forcedByMask() (t llm.Token, ok bool) {
	if m, is := c.masker.(JumpingMasker); is && c.masked {
		return m.Forces()
	}
	return 0, false
}

// applyMask forbids what the mask does, if there is one.
func (c *Chain) applyMask(st *Step) {
	if !c.masked {
		return
	}
	applyMask(c.mask, st.Logits)
	if c.explain != nil {
		c.explain.ask(st)
		c.explain.after(llm.ChangeMask, nameOf(c.masker, "grammar"), st)
	}
}

// checkStep refuses invalid requests of a processor.
func (c *Chain) checkStep(st *Step) error {
	if t := st.Temperature; t == t && (t < 0 || !finite(t)) {
		return fmt.Errorf("temperature must be >= 0 and finite. Given: %v", t)
	}
	if st.Force >= int64(c.vocab) {
		return fmt.Errorf("forced token must be < %d. Given: %d", c.vocab, st.Force)
	}
	return nil
}

// decide picks the token as the step demands: an end token, a forced token, or one from the
// row.
func (c *Chain) decide(s *scratch, h History, st *Step) (Pick, error) {
	w, draw := c.warpOf(st)
	r := row{x: st.Logits, scale: w.scale}
	some := r.findMax()
	switch {
	case st.Stop && len(c.endTokens) > 0:
		p := c.ratedPick(s, &r, c.likeliestEnd(st.Logits), some)
		p.Stop, p.StoppedBy = true, st.StoppedBy
		return p, nil
	case st.Force >= 0 && !st.Stop:
		t := llm.Token(st.Force)
		if c.masked && c.mask[t/32]>>(t%32)&1 == 0 {
			return Pick{}, c.forbiddenForce(st, t)
		}
		return c.ratedPick(s, &r, t, some), nil
	case !some:
		return Pick{}, c.noToken()
	}
	p, err := c.pickFromRow(s, &r, h, &w, draw)
	p.Stop, p.StoppedBy = st.Stop, st.StoppedBy
	return p, err
}

// warpOf returns how the row of a step is narrowed, and whether a token is drawn from it.
func (c *Chain) warpOf(st *Step) (w warper, draw bool) {
	w, draw = c.warp, c.sample
	if t := st.Temperature; t > 0 {
		w.setTemperature(t)
		draw = true
	} else if t == 0 {
		draw = false
	}
	return w, draw
}

// likeliestEnd returns the end token with the greatest logit, the first of equals.
func (c *Chain) likeliestEnd(logits []float32) llm.Token {
	best := c.endTokens[0]
	for _, t := range c.endTokens[1:] {
		if logits[t] > logits[best] {
			best = t
		}
	}
	return best
}

// ratedPick is the pick of a token that was not chosen by its logit (forced tokens, which
// speculative decoding will use, and end tokens). Its log-probability is that of the
// distribution before the warpers; some says that r has a token.
func (c *Chain) ratedPick(s *scratch, r *row, t llm.Token, some bool) Pick {
	p := Pick{Token: t, Logprob: negInf}
	if c.raw || !some {
		return p
	}
	r.computeSums(s.sums)
	s.sums = r.sums
	p.Logprob = r.logprob(t)
	if c.topN > 0 {
		p.Top = c.shownTop(s.topOf(r, c.topWanted()), t)
	}
	return p
}

func (c *Chain) noToken() error {
	switch {
	case c.rewound.banned:
		return fmt.Errorf("%w: %w: %w", llm.ErrPlugin, ErrBanned, ErrNoToken)
	case c.masked || len(c.processors) > c.builtins:
		return &fault{ErrNoToken.Error() + " after what " + strings.Join(c.forbidders(len(c.processors)), " and ") +
			" forbade", ErrNoToken}
	}
	return fmt.Errorf("%w: %w: every logit is -Inf or NaN", llm.ErrBackend, ErrNoToken)
}

// pickFromRow picks from r: through the list of survivors if a warper is active or a sampler
// needs it, otherwise directly from the row.
func (c *Chain) pickFromRow(s *scratch, r *row, h History, w *warper, draw bool) (p Pick, err error) {
	if c.sampler != nil {
		if p, chosen, err := c.pickBySampler(s, r, h, w); chosen || err != nil {
			return p, err
		}
	}
	if w.narrows() {
		w.apply(s, r)
		i := 0
		if draw {
			i = s.draw(c.draw(h))
		} else {
			i = s.best(r.x)
		}
		p = Pick{Token: r.token(s.id[i]), Logprob: s.logprob(i)}
		if c.topN > 0 && !c.raw {
			p.Top = c.shownTop(s.topSurvivors(r, c.topWanted()), p.Token)
		}
		return p, nil
	}
	if !c.raw || draw {
		r.computeSums(s.sums)
		s.sums = r.sums
	}
	at := llm.Token(r.best)
	if draw {
		at = r.draw(c.draw(h))
	}
	p.Token = r.token(at)
	if !c.raw {
		p.Logprob = r.logprob(at)
		if c.topN > 0 {
			p.Top = c.shownTop(s.topOf(r, c.topWanted()), p.Token)
		}
	}
	return p, nil
}

// pickBySampler lets the sequence's own sampler pick among the likeliest survivors. chosen
// is false if it returned NoChoice.
func (c *Chain) pickBySampler(s *scratch, r *row, h History, w *warper) (p Pick, chosen bool, err error) {
	limit := max(c.sampler.Candidates(), 1)
	n := max(limit, c.topWanted())
	var list []Candidate
	if w.narrows() {
		w.apply(s, r)
		list = s.topSurvivors(r, n)
	} else {
		r.computeSums(s.sums)
		s.sums = r.sums
		list = s.topOf(r, n)
	}
	shown := list[:min(limit, len(list))]
	i, err := c.sampler.Sample(h, shown)
	if err != nil {
		return p, false, fmt.Errorf("%w: %w", llm.ErrPlugin, err)
	}
	if i == NoChoice {
		return p, false, nil
	}
	if i < 0 || i >= len(shown) {
		return p, false, &fault{fmt.Sprintf("plugin %s: the sampler picked candidate %d of %d",
			nameOf(c.sampler, "server"), i, len(shown)), nil}
	}
	p = Pick{Token: list[i].Token, Logprob: list[i].Logprob, sampled: true}
	if c.topN > 0 && !c.raw {
		p.Top = c.shownTop(list, p.Token)
	}
	return p, true, nil
}

// reportRaw replaces p's log-probabilities by those of the model's own distribution.
func (c *Chain) reportRaw(s *scratch, logits []float32, p *Pick) {
	r := row{x: logits, scale: 1}
	if !r.findMax() { // only where user code gave numbers to a row that had none
		p.Logprob = negInf
		return
	}
	r.computeSums(s.sums)
	s.sums = r.sums
	p.Logprob = r.logprob(p.Token)
	if c.topN > 0 {
		p.Top = c.shownTop(s.topOf(&r, c.topWanted()), p.Token)
	}
}

// topWanted is of how many tokens shownTop makes the likeliest.
func (c *Chain) topWanted() int { return c.topN + len(c.rewound.hidden) }

// shownTop makes the likeliest tokens of a pick from a list of topWanted tokens, which it changes: as many as without
// those that a guard took back, but for the picked one.
func (c *Chain) shownTop(list []Candidate, picked llm.Token) []Candidate {
	if len(c.rewound.hidden) > 0 {
		list = slices.DeleteFunc(list, func(x Candidate) bool { return x.Token != picked && c.Hides(x.Token) })
	}
	for c.topN < len(list) && list[len(list)-1].Logit < list[c.topN-1].Logit {
		list = list[:len(list)-1]
	}
	return c.copyTop(list)
}

// copyTop copies scratch candidates to the chain's own memory.
func (c *Chain) copyTop(list []Candidate) []Candidate {
	c.top = append(c.top[:0], list...)
	return c.top
}
