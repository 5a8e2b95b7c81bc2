package sample

import (
	"fmt"
	"maps"
	"slices"

	"tgi/runtime/llm"
)

// ForkingMasker is a Masker that a beam search can use without Plugins.Fork: it has
// nothing to close.
type ForkingMasker interface {
	Masker
	// Fork returns an independent Masker that has accepted the same tokens. It is called
	// in place of Accept and should be cheap.
	Fork() Masker
}

// CanFork returns nil if the sequence's user code can be forked, otherwise an error that
// wraps llm.ErrInvalid and names the reason.
func (c *Chain) CanFork() error {
	if c.sampler != nil {
		return fmt.Errorf("%w: beam search picks the tokens itself and cannot run beside a plugin that does",
			llm.ErrInvalid)
	}
	if len(c.processors) > c.builtins && c.fork == nil {
		return fmt.Errorf("%w: beam search needs plugins whose state can be cloned, and a processor's cannot",
			llm.ErrInvalid)
	}
	if _, ok := c.masker.(ForkingMasker); c.masker != nil && !ok && c.fork == nil {
		return fmt.Errorf("%w: beam search needs a grammar whose state can be cloned", llm.ErrInvalid)
	}
	return nil
}

// Fork returns an independent copy of c in its present state; CanFork must have returned
// nil. The caller calls close, if it is not nil, once after the last use of the new chain,
// and after an error too. Errors wrap llm.ErrPlugin.
func (c *Chain) Fork() (twin *Chain, close func(), err error) {
	t := *c
	t.top, t.step, t.prepared, t.hasMask = nil, Step{}, false, false
	t.reduction = reduction{}
	t.explain = c.explain.fork()
	t.processors, t.preparers, t.forcers = nil, nil, nil
	seen := c.counts.clone()
	for _, p := range c.processors[:c.builtins] {
		t.processors = append(t.processors, withCounts(p, seen))
	}
	t.counts = seen
	var masker Masker
	if c.fork != nil {
		plug, err := c.fork()
		if err != nil {
			return nil, nil, fmt.Errorf("%w: clone: %w", llm.ErrPlugin, err)
		}
		close, masker, t.fork = plug.Close, plug.Masker, plug.Fork
		t.addProcessors(plug.Processors)
	}
	if c.masker != nil {
		if m, ok := c.masker.(ForkingMasker); ok && masker == nil {
			masker = m.Fork()
		}
		if masker == nil {
			return nil, close, fmt.Errorf("%w: BUG: the clone of a sequence with a mask has none", llm.ErrPlugin)
		}
		t.masker, t.mask = masker, make([]uint32, len(c.mask))
	}
	return &t, close, nil
}

// withCounts returns the built-in processor with other counts.
func withCounts(p Processor, seen *tokenCounts) Processor {
	switch p := p.(type) {
	case repetition:
		p.seen = seen
		return p
	case frequency:
		p.seen = seen
		return p
	case presence:
		p.seen = seen
		return p
	}
	return p // stateless
}

func (t *tokenCounts) clone() *tokenCounts {
	c := *t
	c.index, c.counts = maps.Clone(t.index), slices.Clone(t.counts)
	return &c
}

// Join combines the user code of a and b, a first. At most one of them may have a Masker,
// one a Sampler and one a Drafter. The result can fork if both can, or do not need to.
func Join(a, b Plugins) Plugins {
	j := a
	j.Processors = slices.Concat(a.Processors, b.Processors)
	j.Guards = slices.Concat(a.Guards, b.Guards)
	j.Guests = slices.Concat(a.Guests, b.Guests)
	j.Proposers = slices.Concat(a.Proposers, b.Proposers)
	if b.Masker != nil {
		j.Masker = b.Masker
	}
	if b.Sampler != nil {
		j.Sampler = b.Sampler
	}
	if b.Drafter != nil {
		j.Drafter = b.Drafter
	}
	if a.Close != nil && b.Close != nil {
		j.Close = func() { a.Close(); b.Close() }
	} else if b.Close != nil {
		j.Close = b.Close
	}
	j.Fork = nil
	if (a.Fork != nil || b.Fork != nil) && a.canFork() && b.canFork() {
		j.Fork = func() (Plugins, error) { return forkBoth(a, b) }
	}
	return j
}

// canFork reports whether all of p that has to can be cloned.
func (p Plugins) canFork() bool {
	_, byItself := p.Masker.(ForkingMasker)
	return p.Fork != nil || len(p.Processors) == 0 && (p.Masker == nil || byItself)
}

func forkBoth(a, b Plugins) (Plugins, error) {
	var f, g Plugins
	var err error
	if a.Fork != nil {
		if f, err = a.Fork(); err != nil {
			return Plugins{}, err
		}
	}
	if b.Fork != nil {
		if g, err = b.Fork(); err != nil {
			if f.Close != nil {
				f.Close()
			}
			return Plugins{}, err
		}
	}
	return Join(f, g), nil
}
