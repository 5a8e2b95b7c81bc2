// Package grammar runs grammars natively: given a grammar in the form of package
// ir and a tokenizer's vocabulary it says, at every place of a text, which tokens
// may come next. It owns the preparation of vocabularies, the automata, the parser
// and the cache of masks; it knows neither guests nor the engine.
//
// # Use
//
//	v := grammar.NewVocab(vocabulary, 0)          // once per tokenizer, at load
//	g, err := v.Compile(ctx, irGrammar, limits)   // once per grammar, off the engine's goroutine
//	s := g.Start()                                // once per sequence
//	err = s.Mask(bits)                            // may run while the forward pass does
//	err = s.Accept(token)
//
// Everything but a State is safe for concurrent use.
//
// # What is exact
//
// A token is in the mask exactly when the text so far and the token's bytes, put
// together, begin a text of the grammar; tokens that end a text are in it exactly
// when the text so far is one. Special tokens are never matched by their bytes, only
// where the grammar names them. A state from which no text can be finished is never
// reached: rules without a text are left out by Compile, and terms without one
// are found by search.
//
// # How
//
// Terminals are regular expressions that are derived byte by byte (term.go,
// derive.go): a term is a state, made when a text reaches it, and hash-consed. The
// parser is Earley's, over single bytes and without a scanner, with item sets that
// are hash-consed too: origins are named by what waits there instead of where it was
// (set.go, closure.go). So a grammar is an automaton that grows as texts reach new
// places, with a table lookup per byte where they have been, and its memory is a
// cache that can be forgotten at any time (machine.go).
//
// The mask of a set is put together from masks of its terms (mask.go). That of a
// term (termmask.go) has the tokens that stay within it, and the nodes of the token
// trie where tokens leave it; only behind those the parser is asked. It depends on
// the term alone, so all strings of all grammars share one. It is made without looking
// at each token by itself:
//
//   - Counts make no difference to tokens that are shorter, so the mask of a term with
//     counts is that of the term without them, but for the long tokens (buckets.go).
//   - Most terms treat all small letters alike, all capitals and so on. For these the
//     shapes of tokens are walked, a tenth as many as there are nodes (shape.go).
//   - Other terms walk the trie, but not where a whole slice of the vocabulary is known
//     to be allowed, as inside a string (the slicer is llguidance's idea), not below
//     nodes whose characters the term takes for certain (cover.go) or goes round with
//     (loop.go), and of a term with exclusions only where something excluded may still
//     come (differ.go).
//
// Intersections and complements may have no text at all, and whoever follows one must
// know. That is searched for (alive.go), unless it shows (fits.go).
//
// The reasons behind it: docs/rationale/grammars.md.
package grammar
