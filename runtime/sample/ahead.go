package sample

import (
	"tgi/runtime/draft"
	"tgi/runtime/llm"
)

// Drafters returns what drafts for the chain by its mask and by its processors; nil where they know nothing ahead. They
// must not be called during a call of the chain.
func (c *Chain) Drafters() (mask, processors draft.Drafter) {
	if f, ok := c.masker.(Forcer); ok {
		mask = ahead{c, []Forcer{f}}
	}
	if len(c.forcers) > 0 {
		processors = ahead{c, c.forcers}
	}
	return mask, processors
}

// ahead drafts what the first of several knows.
type ahead struct {
	c    *Chain
	from []Forcer
}

// Draft implements draft.Drafter.
func (a ahead) Draft(h History, ahead, room []llm.Token) int {
	if a.c.err != nil || len(ahead) > 0 {
		return 0
	}
	if n := copy(room, a.c.rewound.queue); n > 0 {
		return n
	}
	for _, f := range a.from {
		if n := f.Forced(h, room); n > 0 {
			return n
		}
	}
	return 0
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
