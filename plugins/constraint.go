package plugins

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"tgi/plugins/grammar"
	"tgi/plugins/grammar/kind"
	"tgi/plugins/internal/guest"
	"tgi/plugins/internal/sandbox"
)

// Constraint is the state of one text in a grammar. It is used by one goroutine at a time; clones are independent.
// Where a guest computes the masks, an error is a [*BindError] or the context's cause, and comes again at every further
// call. Close it.
type Constraint struct {
	// ctx is the context of the request: a Constraint is the state of one of its sequences. It is a field because the
	// steps of the token loop, which it ends too, have no context as a parameter.
	ctx context.Context

	state   *grammar.State   // nil where a guest computes the masks
	later   []uint32         // tokens that the state is behind
	quick   time.Duration    // what TryMask may take
	counts  *maskCounts      // of the state
	turns   *Turns           // for masks that take long
	client  string           // whose turns they are
	spent   *maskTime        // by the texts of the request
	account *sandbox.Account // of the host's work
	jump    *jump            // nil unless forced tokens are taken as they are

	grammar *Grammar
	part    *part
	seed    uint64
	session *guest.Session // nil after Close
	stepper *kind.Stepper
	tokens  []uint32 // accepted
	err     error
	faulty  bool

	follower *follower // of a shadow; nil for none
}

// begin gets an instance from open and replays the tokens so far in it.
func (c *Constraint) begin(open func(seed uint64, cancel <-chan struct{}) (*guest.Session, error)) error {
	s, err := open(c.part.seed(c.seed), c.ctx.Done())
	if err != nil {
		return c.part.chatError(c.ctx, c.grammar.set, err)
	}
	stepper, err := kind.Begin(s, c.grammar.call, c.grammar.prepared.masks)
	if err == nil {
		err = stepper.Accept(c.tokens...)
	}
	if err != nil {
		s.Close()
		return c.part.chatError(c.ctx, c.grammar.set, err)
	}
	c.session, c.stepper = s, stepper
	return nil
}

// Native reports whether the host runs the grammar: Clone is cheap then and can't fail.
func (c *Constraint) Native() bool { return c.state != nil }

// Plugin returns the name of the plugin whose guest steps through the grammar; "" for a native one.
func (c *Constraint) Plugin() string {
	if c.part == nil {
		return ""
	}
	return c.part.name
}

// What TryMask may take, about. Few masks take more than quickMask. Behind one that did the next is likely to do so
// too, and is tried for less.
const (
	quickMask   = time.Millisecond
	quickerMask = quickMask / 10
	// quickGuess is what Forced and Admits may take, about: they are asked for one sequence after the other.
	quickGuess = quickMask / 4
)

// allowance is an effort for several calls of a state together.
type allowance struct {
	grammar.Effort
	began time.Time
}

func allow(e grammar.Effort) allowance { return allowance{e, time.Now()} }

// left is what is left of an allowance. In the end that is next to nothing: what is cached still comes.
func (a allowance) left() grammar.Effort {
	e := a.Effort
	if e.Time > 0 {
		e.Time = max(e.Time-time.Since(a.began), 1)
	}
	return e
}

// TryMask is Mask where that takes little. Otherwise done is false and nothing has changed: Mask is to be called, where
// nobody else waits for it.
func (c *Constraint) TryMask(bits []uint32) (constrained, done bool, err error) {
	if c.state == nil {
		constrained, err = c.Mask(bits)
		return constrained, true, err
	}
	if err := c.spent.over(); err != nil {
		return false, true, c.costError(err)
	}
	began := time.Now()
	err = c.follow(grammar.Effort{Time: c.quick}, bits)
	took := time.Since(began)
	c.spent.add(took)
	if errors.Is(err, grammar.ErrLimit) {
		c.quick = quickerMask
		c.counts.abandon(took)
		return false, false, nil
	}
	c.quick = quickMask
	c.counts.add(took, err)
	return true, true, c.costError(err)
}

// Mask sets bits, one for each id of the vocabulary, to the tokens that may come next: bit t%32 of word t/32 for token
// t. Tokens that end the sequence are among them where the text may end. false means that all tokens may come, and the
// bits nothing. Where the host runs the grammar, the call waits for a processor as [Turns] says.
func (c *Constraint) Mask(bits []uint32) (constrained bool, err error) {
	if c.state != nil {
		return true, c.maskInTurn(bits)
	}
	if c.err != nil {
		return false, c.err
	}
	if constrained, err = c.stepper.Mask(bits); err == nil {
		c.follower.masked(len(c.tokens), bits, constrained)
	}
	return constrained, c.recordError(err)
}

// maskInTurn is Mask of a state, on a processor that others do not need more.
func (c *Constraint) maskInTurn(bits []uint32) error {
	if err := c.spent.over(); err != nil {
		return c.costError(err)
	}
	t := c.turns.begin(c.client)
	if !t.take(c.ctx) {
		t.end()
		return context.Cause(c.ctx)
	}
	p := pace(c.account, t)
	err := c.follow(grammar.Effort{Yield: func() { p.yield(c.ctx) }}, bits)
	p.charge()
	took := t.end()
	c.spent.add(took)
	c.counts.add(took, err)
	if err != nil && c.ctx.Err() != nil {
		return cancelCause(c.ctx, err)
	}
	return c.costError(err)
}

// follow makes the mask of where the text is.
func (c *Constraint) follow(e grammar.Effort, bits []uint32) error {
	a := allow(e)
	if err := c.catchUp(a); err != nil {
		return err
	}
	if err := c.state.MaskWith(c.ctx, a.left(), bits); err != nil {
		return err
	}
	return c.findForced(a.left())
}

// AcceptLater is Accept for a token of the last mask. Where the host runs the grammar it takes no time: the next mask
// pays for it.
func (c *Constraint) AcceptLater(token uint32) error {
	if c.state == nil {
		return c.Accept(token)
	}
	c.countForced(c.forcedRest(), token)
	c.later = append(c.later, token)
	return nil
}

// catchUp brings the state to where the text is.
func (c *Constraint) catchUp(a allowance) error {
	for len(c.later) > 0 {
		if err := c.state.AcceptWith(c.ctx, a.left(), c.later[0]); err != nil {
			return err
		}
		c.later = slices.Delete(c.later, 0, 1)
	}
	return nil
}

// Accept moves on by a token. One that may not come is an error, and leaves a grammar that the host runs as it was.
func (c *Constraint) Accept(token uint32) error {
	if c.state != nil {
		if err := c.catchUp(allowance{}); err != nil {
			return c.costError(err)
		}
		rest := c.forcedRest()
		err := c.state.Accept(token)
		if err == nil {
			c.countForced(rest, token)
		}
		return c.costError(err)
	}
	if c.err != nil {
		return c.err
	}
	c.tokens = append(c.tokens, token)
	err := c.stepper.Accept(token)
	if err == nil {
		c.follower.accepted(token)
	}
	return c.recordError(err)
}

// costError is the request's error where the host runs the grammar: one that takes too much to follow is the client's.
// That shows only on the way, since it depends on the text.
func (c *Constraint) costError(err error) error {
	if errors.Is(err, grammar.ErrLimit) {
		return &BindError{Text: fmt.Sprintf("after %d tokens of the text: %s", c.length(), err), Err: ErrParams}
	}
	return err
}

// What Forced looks at for each token that it may return, and of the prompt.
const (
	forcedBytes = 16
	promptTail  = 8
)

// Forced fills room with the next tokens that the grammar leaves no choice about but that of white space, as encode
// makes them of a text, and returns their number: none where that takes more than quickGuess. Where a guest computes
// the masks they are what it forces. prompt is what comes before the text.
func (c *Constraint) Forced(prompt []uint32, encode func(text string) []uint32, room []uint32) int {
	if c.state == nil {
		return c.stepper.Ahead(room)
	}
	a := allow(grammar.Effort{Time: quickGuess})
	defer func() { c.spent.add(time.Since(a.began)) }()
	if c.catchUp(a) != nil || c.findForced(a.left()) != nil {
		return 0
	}
	if rest := c.forcedRest(); len(rest) > 0 {
		return copy(room, rest)
	}
	tokens, err := c.state.Likely(c.ctx, a.left(), forcedBytes*len(room), prompt[max(len(prompt)-promptTail, 0):],
		encode)
	if err != nil {
		return 0
	}
	return copy(room, tokens)
}

// Admits returns how many of the first tokens may follow one after the other; fewer where telling takes more than
// quickGuess, and all where a guest computes the masks.
func (c *Constraint) Admits(tokens []uint32) int {
	a := allow(grammar.Effort{Time: quickGuess})
	if c.state == nil {
		return len(tokens)
	}
	defer func() { c.spent.add(time.Since(a.began)) }()
	if c.catchUp(a) != nil {
		return 0
	}
	ahead := c.state.Clone()
	for i, t := range tokens {
		if ahead.AcceptWith(c.ctx, a.left(), t) != nil {
			return i
		}
	}
	return len(tokens)
}

// Rollback removes the last n tokens; there must be as many. A guest begins anew for it and gets all the
// others.
func (c *Constraint) Rollback(n int) error {
	switch {
	case c.state != nil:
		if err := c.catchUp(allowance{}); err != nil {
			return c.costError(err)
		}
		c.rewindForced(c.length() - n)
		return c.state.Rollback(n)
	case c.err != nil:
		return c.err
	case n < 0 || n > len(c.tokens):
		return fmt.Errorf("BUG: rollback of %d tokens of %d", n, len(c.tokens))
	case n == 0:
		return nil
	}
	c.tokens = c.tokens[:len(c.tokens)-n]
	c.session.Close()
	c.session = nil
	if c.err = c.begin(c.part.version.guest.OpenNow); c.err == nil {
		c.follower.rolledBack(n)
	}
	return c.err
}

// Rewind takes back all but the first n tokens; there must be as many. It is for texts whose grammar the host runs, and
// an error is that of a grammar that takes too much.
func (c *Constraint) Rewind(n int) error {
	c.rewindForced(n)
	back := c.length() - n
	if back <= len(c.later) {
		c.later = c.later[:len(c.later)-back]
		return nil
	}
	back -= len(c.later)
	c.later = c.later[:0]
	return c.costError(c.state.Rollback(back))
}

// Clone is a second text that is where this one is. It is to be closed as well.
func (c *Constraint) Clone() (*Constraint, error) {
	if c.state != nil {
		twin := *c
		twin.state, twin.later, twin.jump = c.state.Clone(), slices.Clone(c.later), c.jump.clone()
		return &twin, nil
	}
	if c.err != nil {
		return nil, c.err
	}
	p := &part{version: c.part.version, name: c.part.name, client: c.part.client, verdict: c.part.verdict}
	twin := &Constraint{grammar: c.grammar, part: p, ctx: c.ctx, seed: c.seed, tokens: slices.Clone(c.tokens)}
	if err := twin.beginAt(c); err != nil {
		return nil, err
	}
	c.grammar.open.Add(1)
	twin.follower = c.follower.cloned()
	return twin, nil
}

// beginAt takes an instance that is where another text's is: a copy, or a fresh one that is told the tokens where the
// guest keeps state that can't be copied.
func (c *Constraint) beginAt(other *Constraint) error {
	if !c.part.version.guest.CanClone() {
		return c.begin(c.part.version.guest.OpenNow)
	}
	s, err := other.session.Clone(c.part.seed(c.seed), c.ctx.Done())
	if err != nil {
		return c.part.chatError(c.ctx, c.grammar.set, err)
	}
	c.session, c.stepper = s, other.stepper.Clone(s)
	return nil
}

func (c *Constraint) recordError(err error) error {
	if err != nil {
		c.follower.leave()
		c.err = c.stepError(err)
	}
	return c.err
}

// CloseLater is Close on a goroutine that Set.Close awaits, as Sequence.ReleaseLater is.
func (c *Constraint) CloseLater() {
	if c.grammar != nil {
		c.grammar.set.releasing.Go(c.Close)
	}
}

// Close ends the text. Closing twice is fine.
func (c *Constraint) Close() {
	if c.grammar == nil {
		return
	}
	if c.session != nil {
		c.session.Close()
		c.session = nil
	}
	if !c.faulty && c.err == nil && len(c.tokens) > 0 {
		c.part.recordSuccess(c.grammar.set)
	}
	c.part.cancelTrial()
	c.follower.close()
	c.grammar.unref()
	c.grammar = nil
}
