package sample

import (
	"fmt"

	"tgi/runtime/llm"
)

// Rewinder is a Masker, Processor or Sampler that can take tokens back.
type Rewinder interface {
	// Rewind brings the state to what it was when h was the history, which is a beginning of the latest one: later
	// calls go on from there, with other tokens. It is called between two picks.
	Rewind(h History) error
}

// CanRewind returns nil if the sequence's user code can take tokens back, otherwise an error that wraps llm.ErrInvalid
// and names the reason.
func (c *Chain) CanRewind() error {
	if _, ok := c.masker.(Rewinder); c.masker != nil && !ok {
		return fmt.Errorf("%w: tokens cannot be taken back from a grammar that a plugin follows", llm.ErrInvalid)
	}
	for _, p := range c.processors[c.builtins:] {
		if _, ok := p.(Rewinder); !ok {
			return fmt.Errorf("%w: tokens cannot be taken back from a processor that keeps what it saw", llm.ErrInvalid)
		}
	}
	if _, ok := c.sampler.(Rewinder); c.sampler != nil && !ok {
		return fmt.Errorf("%w: tokens cannot be taken back from a sampler that keeps what it saw", llm.ErrInvalid)
	}
	return nil
}

// Rewind brings the chain to where it was when h was the history, a beginning of the latest one: the next Pick is that
// behind h. CanRewind must have returned nil. Errors are those of Pick, and come again at every further call.
func (c *Chain) Rewind(h History) error {
	if c.err != nil {
		return c.err
	}
	// the counts of the penalties notice that the history is shorter
	c.prepared, c.hasMask, c.masked, c.reduction = false, false, false, reduction{}
	for _, x := range c.rewinders() {
		if err := x.Rewind(h); err != nil {
			c.err = fmt.Errorf("%w: take tokens back: %w", llm.ErrPlugin, err)
			return c.err
		}
	}
	return nil
}

// rewinders returns the user code that keeps a state.
func (c *Chain) rewinders() (list []Rewinder) {
	if x, ok := c.masker.(Rewinder); ok {
		list = append(list, x)
	}
	for _, p := range c.processors[c.builtins:] {
		if x, ok := p.(Rewinder); ok {
			list = append(list, x)
		}
	}
	if x, ok := c.sampler.(Rewinder); ok {
		list = append(list, x)
	}
	return list
}
