package token

import (
	"slices"
	"unicode/utf8"
)

// model is the part of a tokenizer that turns a word, as the pre-tokenizer leaves it, into tokens. Models are immutable
// apart from their caches, and safe for concurrent use.
type model interface {
	// encode appends the tokens of word, which is valid UTF-8 (or raw bytes for a model that reads them) and not empty,
	// to out. It takes O(n log n) at most, apart from a factor that the file bounds.
	encode(word string, out []symbol) []symbol
	// withoutBarred is encode as if the barred tokens were not in the vocabulary.
	withoutBarred(word string, out []symbol) []symbol
	// findBarred makes those of the withheld tokens, with their texts, barred that the model itself can produce.
	findBarred(withheld map[uint32]string)
	// barred reports whether an id is barred, hasBarred whether any is.
	barred(id uint32) bool
	hasBarred() bool
	// segmentEnd returns the end of the first part of s that can be encoded without knowing the rest.
	segmentEnd(s string) int
	// longest returns how many bytes of a word a token can stand for, 0 for any number.
	longest() int
}

// symbol is a token of a word and the number of bytes that it covers.
type symbol struct {
	id   uint32
	size int32
	kind symbolKind
}

// symbolKind tells what is special about a symbol.
type symbolKind uint8

const (
	_ symbolKind = iota // an ordinary symbol
	// shared covers the same bytes as the symbol before it: it is one of the byte tokens of an unknown character.
	shared
	// unspelled is an unknown token whose spelling is that of the text.
	unspelled
)

// barredSet holds the barred ids of a model; nil for none. It implements a part of model.
type barredSet map[uint32]bool

func (b barredSet) barred(id uint32) bool { return b[id] }
func (b barredSet) hasBarred() bool       { return len(b) > 0 }

// barredOf returns the withheld tokens that a model finds in text, but not those whose text could not be encoded
// without them: single characters and byte tokens.
func barredOf(withheld map[uint32]string, find func(string) (uint32, bool)) barredSet {
	out := make(barredSet)
	for id, s := range withheld {
		_, isByte := byteToken(s)
		if found, ok := find(s); ok && found == id && utf8.RuneCountInString(s) > 1 && !isByte {
			out[id] = true
		}
	}
	return out
}

// findBarred tells the model which added tokens must not come from data.
func (t *Tokenizer) findBarred() {
	withheld := make(map[uint32]string)
	for _, a := range slices.Concat(t.rawFinder.tokens, t.normalizedFinder.tokens) {
		if a.withheld {
			withheld[a.id] = a.content
		}
	}
	t.model.findBarred(withheld)
}

// word emits the tokens of a word.
func (e *encoder) word(x text) bool {
	m := e.t.model
	for at := 0; at < len(x.s); {
		end := at + m.segmentEnd(x.s[at:])
		if e.room != nil && !e.room(end-at, e.t.longest) {
			return false
		}
		e.symbols = m.encode(x.s[at:end], e.symbols[:0])
		if m.hasBarred() && e.data != nil && slices.ContainsFunc(e.symbols, func(s symbol) bool {
			return m.barred(s.id)
		}) && e.data.overlaps(x.origin(at, end)) {
			e.symbols = m.withoutBarred(x.s[at:end], e.symbols[:0])
		}
		start := at
		for _, s := range e.symbols {
			if s.kind != shared {
				start, at = at, at+int(s.size)
			}
			value := e.t.tokens[s.id]
			if s.kind == unspelled {
				value = x.s[start:at]
			}
			if !e.emit(s.id, x, start, at, value) {
				return false
			}
		}
		at = end
	}
	return true
}
