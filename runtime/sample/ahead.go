package sample

import "tgi/runtime/llm"

// Draft implements draft.Drafter: the tokens that the mask leaves no choice about, or else those that a processor
// forces. It must not be called during another call of the chain.
func (c *Chain) Draft(h History, ahead, room []llm.Token) (n int) {
	if c.err != nil || len(ahead) > 0 {
		return 0
	}
	if f, ok := c.masker.(Forcer); ok {
		n = f.Forced(h, room)
	}
	for _, f := range c.forcers {
		if n == 0 {
			n = f.Forced(h, room)
		}
	}
	return n
}

// Drafts reports whether Draft may have something to say.
func (c *Chain) Drafts() bool {
	_, ok := c.masker.(Forcer)
	return ok || len(c.forcers) > 0
}

// Admits returns how many of the first tokens the mask allows to follow each other, as far as that can be told at once.
// It must not be called during another call of the chain.
func (c *Chain) Admits(tokens []llm.Token) int {
	if c.err != nil {
		return 0
	}
	if m, ok := c.masker.(WalkingMasker); ok && len(tokens) > 0 {
		return m.Admits(tokens)
	}
	return len(tokens)
}
