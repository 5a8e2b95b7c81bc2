package token

import (
	"math"
	"strings"
	"unicode/utf8"
)

// sentencePiece is the SentencePiece normalizer: what SentencePiece itself does to a text before it looks for pieces.
// It is no part of the reference's files: those that are made of a tokenizer.model have it (see Load).
type sentencePiece struct {
	// rules are the charsmap, of which the longest that fits counts; nil for none.
	rules *charsmap
	// user finds the symbols that no rule changes.
	user *prefixTree
	// prefix puts a space before a text, or behind it with suffix; once only at the start of the whole text.
	prefix, suffix, once bool
	// trims removes spaces at both ends and all but one of several.
	trims bool
	// space is what a space becomes.
	space string
}

// part returns what the start of s becomes and how long that is.
func (n *sentencePiece) part(s string) (to string, size int) {
	if n.user != nil {
		if _, size = n.user.longest(s, nil); size > 0 {
			return s[:size], size
		}
	}
	if n.rules != nil {
		if to, size = n.rules.longestPart(s); size > 0 {
			return to, size
		}
	}
	_, size = runeAt(s, 0)
	return s[:size], size
}

// normalize implements normalizer.
func (n *sentencePiece) normalize(x text) text {
	x = x.aligned()
	s, at := x.s, 0
	if n.trims {
		for at < len(s) {
			to, size := n.part(s[at:])
			if to != " " {
				break
			}
			at += size
		}
	}
	empty := text{base: x.base, whole: x.whole}
	if at == len(s) {
		return empty
	}
	var b strings.Builder
	var from []source
	put := func(s string, o source) {
		b.WriteString(s)
		for range len(s) {
			from = append(from, o)
		}
	}
	pads := n.prefix && (!n.once || x.base == 0)
	if pads && !n.suffix {
		put(n.space, x.from[at])
	}
	spaced := n.trims
	for at < len(s) {
		to, size := n.part(s[at:])
		if spaced {
			to = strings.TrimLeft(to, " ")
		}
		for i, word := range strings.Split(to, " ") {
			if i > 0 {
				put(n.space, x.from[at])
			}
			put(word, x.from[at])
		}
		if to != "" {
			spaced = n.trims && to[len(to)-1] == ' '
		}
		at += size
	}
	out := b.String()
	for n.trims && strings.HasSuffix(out, n.space) {
		out = out[:len(out)-len(n.space)]
	}
	from = from[:len(out)]
	if pads && n.suffix {
		b.Reset()
		b.WriteString(out)
		put(n.space, insertedAt(int(x.from[len(s)-1]>>1)))
		out = b.String()
	}
	if out == "" {
		return empty
	}
	return text{s: out, base: x.base, from: from, whole: x.whole}
}

// shrink implements normalizer.
func (n *sentencePiece) shrink() int {
	if n.trims || n.rules != nil {
		return 0
	}
	return 1
}

// grows is how many times longer a text may become.
func (n *sentencePiece) grows() int {
	longest := 1
	if n.rules != nil {
		longest = max(1, n.rules.longest)
	}
	return longest * len(n.space)
}

// maxRule is the longest rule, in bytes, that is looked for: a broken trie may hold circles.
const maxRule = 256

// longestPart returns the replacement of the longest rule that s begins with, and the length of that rule; 0 for none.
func (m *charsmap) longestPart(s string) (to string, size int) {
	at := offset(m.units[0])
	if len(s) > maxRule {
		n := maxRule
		for !utf8.RuneStart(s[n]) {
			n--
		}
		s = s[:n]
	}
	for i := range len(s) {
		if at ^= uint64(s[i]); at >= uint64(len(m.units)) {
			break
		}
		unit := m.units[at]
		if unit&(1<<31|0xff) != uint32(s[i]) {
			break
		}
		if at ^= offset(unit); unit>>8&1 == 1 {
			// A rule that ends inside of a character would leave a rest that is none.
			if found, ok := m.replacementAt(at); ok && (i+1 == len(s) || utf8.RuneStart(s[i+1])) {
				to, size = found, i+1
			}
		}
	}
	return to, size
}

// Kinds of pieces in a vocabulary of SentencePiece.
const (
	pieceNormal = 1
	pieceUser   = 4
	pieceByte   = 6
)

// newPieces returns the unigram model as SentencePiece computes it: with sums in single precision, without lookups of
// pieces that are not ordinary, and with a score for symbols of users that makes them win.
func newPieces(list []treeWord, scores []float64, kinds []int, unk uint32, byteFallback bool) *unigram {
	least, most := float32(math.MaxFloat32), float32(0x1p-126)
	for i, kind := range kinds {
		if kind == pieceNormal {
			least, most = min(least, float32(scores[i])), max(most, float32(scores[i]))
		}
	}
	m := &unigram{scores: make([]float64, len(list)), unk: unk, single: true, cache: newWordCache()}
	m.unkScore = float64(least - unkPenalty)
	var words []treeWord
	bytes := make(map[string]uint32)
	for i, w := range list {
		switch {
		case kinds[i] == pieceNormal:
			m.scores[i] = float64(float32(scores[i]))
			words = append(words, w)
		case kinds[i] == pieceUser:
			m.scores[i] = float64(float32(len(w.text))*most) - 0.1
			words = append(words, w)
		case kinds[i] == pieceByte:
			bytes[w.text] = w.id
		}
	}
	if byteFallback {
		m.fallback = newByteTokens(func(token string) (uint32, bool) {
			id, ok := bytes[token]
			return id, ok
		})
	}
	m.tree = newPrefixTree(words)
	return m
}
