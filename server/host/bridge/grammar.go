package bridge

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"tgi/plugins"
	"tgi/runtime/llm"
	"tgi/runtime/sample"
	"tgi/server/generate"
)

// Grammars returns the plugins of kind grammar in set as requests want them.
func Grammars(set *plugins.Set) generate.Grammars { return grammars{set} }

// grammars implements generate.Grammars.
type grammars struct{ set *plugins.Set }

// Compile implements generate.Grammars.
func (g grammars) Compile(ctx context.Context, in *generate.Grammar) (generate.BoundGrammar, error) {
	b, err := g.set.Compile(ctx, plugins.GrammarCall{Plugin: in.Plugin, Language: in.Language, Source: in.Source,
		Params: in.Params})
	if err != nil {
		return nil, grammarError(err, in)
	}
	return &boundGrammar{grammar: b, of: generate.Grammar{Field: in.Field, Client: in.Client}}, nil
}

// grammarError says what an error of a grammar means to a request.
func grammarError(err error, g *generate.Grammar) error {
	var no *plugins.BindError
	unknown := errors.Is(err, plugins.ErrUnknown)
	if !errors.As(err, &no) || !unknown && !errors.Is(err, plugins.ErrParams) {
		return bindError(err)
	}
	if g.Client == nil {
		return &generate.Invalid{Msg: "grammar is not valid: " + no.Text, Field: g.Field}
	}
	said, tool := g.Client(no.Text)
	if tool != "" {
		said = "tool `" + tool + "`: " + said
	}
	refused := &generate.ToolError{Msg: said}
	if unknown {
		refused.Err = generate.ErrLanguage
	}
	return refused
}

// boundGrammar is the grammar of one request.
type boundGrammar struct {
	grammar *plugins.Grammar
	of      generate.Grammar // what errors need of it

	mu    sync.Mutex
	texts []*plugins.Constraint // nil where the engine has it
}

// Begin implements generate.BoundGrammar.
func (b *boundGrammar) Begin(ctx context.Context, seed uint64, n int) error {
	for i := range n {
		c, err := b.grammar.Sequence(ctx, llm.SeedFor(seed, i))
		if err != nil {
			return grammarError(err, &b.of)
		}
		b.texts = append(b.texts, c)
	}
	return nil
}

// Sequence implements generate.BoundGrammar.
func (b *boundGrammar) Sequence(i int) sample.Plugins {
	b.mu.Lock()
	defer b.mu.Unlock()
	c := b.texts[i]
	if c == nil {
		panic(fmt.Sprintf("BUG: the grammar of sequence %d is handed out twice, or after Close", i))
	}
	b.texts[i] = nil
	if c.Native() {
		return sample.Plugins{Masker: forkingMasker{c}, Close: c.Close}
	}
	return guestMasker(c)
}

// guestMasker is a text that a guest follows, as the engine wants it.
func guestMasker(c *plugins.Constraint) sample.Plugins {
	return sample.Plugins{
		Masker: c,
		Guests: []string{c.Plugin()},
		Close:  c.CloseLater,
		Fork: func() (sample.Plugins, error) {
			twin, err := c.Clone()
			if err != nil {
				return sample.Plugins{}, err
			}
			return guestMasker(twin), nil
		},
	}
}

// Dropped implements generate.BoundGrammar.
func (b *boundGrammar) Dropped() []generate.Dropped {
	var out []generate.Dropped
	for _, d := range b.grammar.Dropped() {
		if b.of.Client != nil {
			d.Pointer, _ = b.of.Client(d.Pointer)
		}
		if !slices.Contains(out, d) { // the grammar of tools has a tool in several places
			out = append(out, d)
		}
	}
	return out
}

// Close implements generate.BoundGrammar.
func (b *boundGrammar) Close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i, c := range b.texts {
		if c != nil {
			c.Close()
			b.texts[i] = nil
		}
	}
	b.grammar.Close()
}

// forkingMasker is a masker that beam search can use: the host runs its grammar,
// so that a clone costs nothing and needs no Close.
type forkingMasker struct{ *plugins.Constraint }

// Fork implements sample.ForkingMasker.
func (m forkingMasker) Fork() sample.Masker {
	twin, err := m.Clone()
	if err != nil {
		panic("BUG: a grammar that the host runs cannot be cloned: " + err.Error())
	}
	return forkingMasker{twin}
}
