package generatetest

import (
	"context"
	"slices"
	"sync"

	"tgi/runtime/llm"
	"tgi/runtime/sample"
	"tgi/server/generate"
)

// Grammars take any grammar and hold nothing to it. Its fields must not change
// while it is in use.
type Grammars struct {
	// Refuse, when set, is what Compile returns; RefuseBegin what Begin does.
	Refuse, RefuseBegin error
	// Drops is what each grammar is not held to.
	Drops []generate.Dropped

	mu       sync.Mutex
	compiled []generate.Grammar
	bound    int // grammars that were not closed
	maskers  int // sequences whose masker was not released
	seeds    []uint64
}

// Compiled returns the grammars that Compile was given, in order.
func (g *Grammars) Compiled() []generate.Grammar {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Clone(g.compiled)
}

// Open counts what Compile and Sequence returned and was not given back.
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

// Compile implements generate.Grammars.
func (g *Grammars) Compile(_ context.Context, in *generate.Grammar) (generate.BoundGrammar, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.compiled = append(g.compiled, *in)
	if g.Refuse != nil {
		return nil, g.Refuse
	}
	g.bound++
	return grammar{g}, nil
}

type grammar struct{ all *Grammars }

// Begin implements generate.BoundGrammar.
func (g grammar) Begin(_ context.Context, seed uint64, n int) error {
	g.all.mu.Lock()
	defer g.all.mu.Unlock()
	for i := range n {
		g.all.seeds = append(g.all.seeds, llm.SeedFor(seed, i))
	}
	return g.all.RefuseBegin
}

// Sequence implements generate.BoundGrammar.
func (g grammar) Sequence(int) sample.Plugins {
	g.all.count(1)
	return sample.Plugins{Masker: free{}, Close: func() { g.all.count(-1) }}
}

func (g *Grammars) count(maskers int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.maskers += maskers
}

// Dropped implements generate.BoundGrammar.
func (g grammar) Dropped() []generate.Dropped { return g.all.Drops }

// Close implements generate.BoundGrammar.
func (g grammar) Close() {
	g.all.mu.Lock()
	defer g.all.mu.Unlock()
	g.all.bound--
}

// free is a masker that allows every token.
type free struct{}

// Mask implements sample.Masker.
func (free) Mask([]uint32) (bool, error) { return false, nil }

// Accept implements sample.Masker.
func (free) Accept(llm.Token) error { return nil }
