package plugins

import (
	"slices"

	"tgi/plugins/grammar"
)

// jumpBytes is how much of a forced text is cut into tokens at once. What a text is cut into must not depend on who
// asks, or on how much of it fits a step.
const jumpBytes = 512

// jump is how a text goes on where its grammar leaves no choice: by the tokens that the tokenizer makes, whatever the
// model would cut it into.
type jump struct {
	tail   []uint32 // of what comes before the text
	encode func(text string) []uint32
	runs   []forcedRun // in their order; what a rewind leaves goes on as it did before
}

// forcedRun is tokens that were forced behind the first from tokens of a text, of which the first came came.
type forcedRun struct {
	from, came int
	tokens     []uint32
}

// Jump has the text take forced tokens as encode makes them; before are the tokens that the model reads in front of the
// text. It is called before the first mask, and does nothing where a guest computes the masks.
func (c *Constraint) Jump(before []uint32, encode func(text string) []uint32) {
	if c.state != nil {
		c.jump = &jump{tail: slices.Clone(before[max(len(before)-promptTail, 0):]), encode: encode}
	}
}

// Forces returns the token that comes next whatever the model says, after a mask: that of Jump. Other tokens of the
// mask may come all the same.
func (c *Constraint) Forces() (token uint32, ok bool) {
	if rest := c.forcedRest(); len(rest) > 0 {
		return rest[0], true
	}
	return 0, false
}

// forcedRest is what is left of the run that the text is in.
func (c *Constraint) forcedRest() []uint32 {
	if c.jump == nil || len(c.jump.runs) == 0 {
		return nil
	}
	r := &c.jump.runs[len(c.jump.runs)-1]
	if r.from+r.came != c.length() {
		return nil // another token came in between
	}
	return r.tokens[r.came:]
}

// length is the number of tokens so far, where the host runs the grammar.
func (c *Constraint) length() int { return c.state.Len() + len(c.later) }

// findForced begins a run if there is one where the text is. What it finds depends on the text alone: an effort that
// does not suffice is an error.
func (c *Constraint) findForced(e grammar.Effort) error {
	if c.jump == nil || len(c.forcedRest()) > 0 {
		return nil
	}
	tokens, err := c.state.Jump(c.ctx, e, jumpBytes, c.jump.tail, c.jump.encode)
	if err != nil || len(tokens) == 0 {
		return err
	}
	c.jump.runs = append(c.jump.runs, forcedRun{from: c.length(), tokens: tokens})
	return nil
}

// countForced counts a token that is accepted, where rest was to come.
func (c *Constraint) countForced(rest []uint32, token uint32) {
	if len(rest) > 0 && rest[0] == token {
		c.jump.runs[len(c.jump.runs)-1].came++
	}
}

// rewindForced leaves what was known when the text had n tokens.
func (c *Constraint) rewindForced(n int) {
	if c.jump == nil {
		return
	}
	runs := c.jump.runs
	for len(runs) > 0 && runs[len(runs)-1].from > n {
		runs = runs[:len(runs)-1]
	}
	if len(runs) > 0 {
		r := &runs[len(runs)-1]
		r.came = min(r.came, n-r.from)
	}
	c.jump.runs = runs
}

// clone is one for a second text that is where this one is.
func (j *jump) clone() *jump {
	if j == nil {
		return nil
	}
	return &jump{tail: j.tail, encode: j.encode, runs: slices.Clone(j.runs)}
}
