// Package grammar runs grammars natively: given a grammar as package ir represents it and a tokenizer's vocabulary, it
// computes which tokens may come next at each position of a text. It owns the preparation of vocabularies, the
// automata, the parser and the cache of masks; it does not depend on the sandbox or the engine.
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
// A token is in the mask exactly if the text so far followed by the token's bytes is a prefix of a text of the grammar.
// Tokens that end a text are in it exactly if the text so far is complete. Special tokens are never matched by their
// bytes, only where the grammar names them. A state from which no text can be completed is never reached: Compile
// removes rules that match no text, and a search finds terms that match none.
//
// # How
//
// Terminals are regular expressions, matched by derivatives byte by byte (term.go, derive.go): a term is a state,
// created when a text reaches it, and hash-consed. The parser is Earley's, over single bytes and without a scanner. Its
// item sets are hash-consed too: origins are identified by their content instead of their position (set.go,
// closure.go). So a grammar is an automaton that grows as texts reach new states, known transitions cost a table lookup
// per byte, and its memory is a cache that can be emptied at any time (machine.go).
//
// Terms that differ in one place alone are merged (union.go, counts.go), and so is what follows threads (expr.go): what
// is left of a counted repeat is one term for each place within the repetition, with a set of counts. So the work for a
// text that can be read in many ways grows with the places, not with the ways.
//
// The mask of a set is composed of the masks of its terms (mask.go). The mask of a term (termmask.go) has the tokens
// that stay within it, and the nodes of the token trie where tokens leave it; the parser runs only beyond those. It
// depends on the term alone, so all strings of all grammars share one. It is computed without testing each token:
//
//   - Counts make no difference to shorter tokens, so the mask of a term with counts is that of the term without them,
//     except for long tokens (buckets.go).
//   - Most terms treat all lower-case letters alike, all capitals and so on. For these the walk is over the shapes of
//     tokens, a tenth as many as there are trie nodes (shape.go).
//   - Other terms walk the trie, but skip slices of the vocabulary that are known to be allowed as a whole, as inside a
//     string (llguidance's slicer), and the descendants of nodes whose characters the term certainly accepts (cover.go)
//     or loops on (loop.go). For a term with exclusions they visit only nodes where an excluded text may still follow
//     (differ.go).
//
// Intersections and complements may match no text at all, which must be known before a state is entered. A search finds
// it (alive.go), unless the structure proves it (fits.go).
//
// The reasons for this design are in docs/rationale/grammars.md.
package grammar
