package generatetest

import (
	"slices"
	"sync"

	"tgi/runtime/llm"
	"tgi/runtime/sample"
	"tgi/server/generate"
)

// Grammars take any grammar and hold nothing to it. Its fields must not change
// while it is in use.
type Grammars struct {
	// Refuse, when set, is what compiling fails with; RefuseBegin what beginning the sequences does.
	Refuse, RefuseBegin error
	// Drops is what each grammar is not held to.
	Drops []generate.Dropped

	mu       sync.Mutex
	compiled []generate.Grammar
	bound    int // grammars that were not closed
	maskers  int // sequences whose masker was not released
	seeds    []uint64
}

// Compiled returns the grammars that were asked for, in order.
func (g *Grammars) Compiled() []generate.Grammar {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Clone(g.compiled)
}

// Open counts the grammars and maskers that were not given back.
func (g *Grammars) Open() (bound, maskers int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.bound, g.maskers
}

// Seeds are those of the sequences that were begun.
func (g *Grammars) Seeds() []uint64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Clone(g.seeds)
}

// compile notes a grammar and begins n sequences of it.
func (g *Grammars) compile(call *generate.Grammar, seed uint64, n int) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.compiled = append(g.compiled, *call)
	if g.Refuse != nil {
		return g.Refuse
	}
	g.bound++
	for i := range n {
		g.seeds = append(g.seeds, llm.SeedFor(seed, i))
	}
	return nil
}

// sequence is the user code of a sequence of a grammar.
func (g *Grammars) sequence() sample.Plugins {
	g.count(0, 1)
	return sample.Plugins{Masker: free{}, Close: func() { g.count(0, -1) }}
}

func (g *Grammars) count(bound, maskers int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.bound += bound
	g.maskers += maskers
}

// free is a masker that allows every token.
type free struct{}

// Mask implements sample.Masker.
func (free) Mask([]uint32) (bool, error) { return false, nil }

// Accept implements sample.Masker.
func (free) Accept(llm.Token) error { return nil }
