package token

import (
	"strings"
	"unicode/utf8"
)

// wordPiece is the model of BERT: the longest token that a word begins with, then the longest that the rest begins
// with among those with the prefix of a continuation. A word that leaves a rest is unknown.
type wordPiece struct {
	barredSet
	// first holds the tokens for the start of a word, which are all, and rest those for the others, without the prefix.
	first, rest *prefixTree
	unk         uint32
	// most is the most characters of a word; longer ones are unknown.
	most int
}

func newWordPiece(words []treeWord, prefix string, unk uint32, most int) *wordPiece {
	m := &wordPiece{unk: unk, most: most}
	var rest []treeWord
	for _, w := range words {
		if s, ok := strings.CutPrefix(w.text, prefix); ok {
			rest = append(rest, treeWord{s, w.id})
		}
	}
	m.first, m.rest = newPrefixTree(words), newPrefixTree(rest)
	return m
}

// encode implements model.
func (m *wordPiece) encode(word string, out []symbol) []symbol { return m.greedy(word, out, nil) }

// withoutBarred implements model.
func (m *wordPiece) withoutBarred(word string, out []symbol) []symbol {
	return m.greedy(word, out, m.barredSet)
}

func (m *wordPiece) greedy(word string, out []symbol, skip barredSet) []symbol {
	from := len(out)
	unknown := utf8.RuneCountInString(word) > m.most
	for at, tree := 0, m.first; at < len(word) && !unknown; tree = m.rest {
		id, size := tree.longest(word[at:], skip)
		out = append(out, symbol{id: id, size: int32(size)})
		at, unknown = at+size, size == 0
	}
	if unknown {
		out = append(out[:from], symbol{id: m.unk, size: int32(len(word))})
	}
	return out
}

// findBarred implements model.
func (m *wordPiece) findBarred(withheld map[uint32]string) {
	m.barredSet = barredOf(withheld, m.first.find)
}

// segmentEnd implements model.
func (m *wordPiece) segmentEnd(s string) int { return len(s) }

// longest implements model: any word can be unknown.
func (m *wordPiece) longest() int { return 0 }

// wordLevel is the model that knows whole words only.
type wordLevel struct {
	barredSet
	vocab map[string]uint32
	unk   uint32
}

// encode implements model.
func (m *wordLevel) encode(word string, out []symbol) []symbol {
	id, ok := m.vocab[word]
	if !ok {
		id = m.unk
	}
	return append(out, symbol{id: id, size: int32(len(word))})
}

// withoutBarred implements model.
func (m *wordLevel) withoutBarred(word string, out []symbol) []symbol {
	id, ok := m.vocab[word]
	if !ok || m.barredSet[id] {
		id = m.unk
	}
	return append(out, symbol{id: id, size: int32(len(word))})
}

// findBarred implements model.
func (m *wordLevel) findBarred(withheld map[uint32]string) {
	m.barredSet = barredOf(withheld, func(s string) (uint32, bool) {
		id, ok := m.vocab[s]
		return id, ok
	})
}

// segmentEnd implements model.
func (m *wordLevel) segmentEnd(s string) int { return len(s) }

// longest implements model: any word can be unknown.
func (m *wordLevel) longest() int { return 0 }
