package token

import (
	"iter"
	"slices"
	"strings"
	"unicode/utf8"
)

// Span is a half-open range of bytes of a text.
type Span struct{ Start, End int }

// EncodeSpans is Encode(text, false) for a text of which the bytes in data are
// someone else's: who wrote them must not be able to write a control token.
// Withheld from data are added tokens with special set, and those without it
// whose text begins with "<" and ends with ">": such a token is recognised only
// where none of its bytes is in data. Where it is withheld it is as if the
// vocabulary did not have it there: shorter tokens that start at the same
// place, and tokens that start inside it, are found, and merges do not make it.
// Other added tokens (plain words, white space) are recognised everywhere, so
// that the ids of harmless text are those of the reference. Three things stay
// as they are for characters that can't be written in another way: the token of
// a single character or byte, byte tokens, and the unknown token.
//
// The spans may overlap and come in any order; what lies outside the text is
// cut off, empty ones count for nothing, and data is not changed. Spans of
// bytes that are not UTF-8 grow to whole U+FFFD. Beyond Encode the cost is that
// of sorting the spans and of one binary search for each withheld token that
// the text spells.
func (t *Tokenizer) EncodeSpans(text string, data []Span) []uint32 {
	s, own := toValidUTF8Spans(text, normalizeSpans(data, len(text)))
	return t.encode(s, own)
}

// EncodeSpanOffsets is EncodeSpans with each token's place in the input, as
// EncodeOffsets has it.
func (t *Tokenizer) EncodeSpanOffsets(text string, data []Span) []Piece {
	return slices.AppendSeq(make([]Piece, 0, len(text)/4+8), t.SpanPieces(text, data))
}

// SpanPieces is EncodeSpanOffsets, one token after the other, as Pieces has it.
func (t *Tokenizer) SpanPieces(text string, data []Span) iter.Seq[Piece] {
	s, own := toValidUTF8Spans(text, normalizeSpans(data, len(text)))
	return t.pieces(s, own, false)
}

// withheld reports whether an added token is recognised only outside data.
func withheld(content string, special bool) bool {
	return special || strings.HasPrefix(content, "<") && strings.HasSuffix(content, ">")
}

// dataSpans are ranges of bytes of the original text, ascending, with a gap
// between each two, and none empty.
type dataSpans []span

// normalizeSpans brings spans of a text of n bytes into order.
func normalizeSpans(data []Span, n int) dataSpans {
	out := make(dataSpans, 0, len(data))
	for _, d := range data {
		if s := (span{max(d.Start, 0), min(d.End, n)}); s.start < s.end {
			out = append(out, s)
		}
	}
	slices.SortFunc(out, func(a, b span) int { return a.start - b.start })
	last := 0
	for i, s := range out {
		if i > 0 && s.start <= out[last].end {
			out[last].end = max(out[last].end, s.end)
			continue
		}
		if i > 0 {
			last++
		}
		out[last] = s
	}
	return out[:min(last+1, len(out))]
}

// overlaps reports whether a byte of s is in data.
func (d dataSpans) overlaps(s span) bool {
	i, _ := slices.BinarySearchFunc(d, s.start, func(e span, at int) int {
		if e.end <= at {
			return -1
		}
		return 1
	})
	return i < len(d) && d[i].start < s.end
}

// toValidUTF8Spans is lossy with ranges that follow their bytes.
func toValidUTF8Spans(s string, data dataSpans) (string, dataSpans) {
	if utf8.ValidString(s) {
		return s, data
	}
	var out strings.Builder
	// Where the character that holds a byte of s starts and ends in out.
	places := make([]span, len(s))
	for i := 0; i < len(s); {
		r, n := utf8.DecodeRuneInString(s[i:])
		if r == utf8.RuneError && n == 1 {
			n, _ = invalidLen([]byte(s[i:min(i+utf8.UTFMax, len(s))]))
		}
		p := span{start: out.Len()}
		out.WriteRune(r)
		p.end = out.Len()
		for range n {
			places[i] = p
			i++
		}
	}
	for i, d := range data {
		data[i] = span{places[d.start].start, places[d.end-1].end}
	}
	return out.String(), data
}

// findBarred notes the withheld tokens that the model can make of characters, so that
// words of data get a look at what became of them. Few files have any.
func (m *bpe) findBarred(tokens []*addedToken) {
	ids := make(map[uint32]bool)
	for _, t := range tokens {
		ids[t.id] = t.withheld
	}
	barred := make(map[uint32]bool)
	for _, id := range m.results {
		if ids[id] {
			barred[id] = true
		}
	}
	if m.ignoreMerges {
		for word, id := range m.vocab {
			if ids[id] && (m.raw && len(word) > 1 || utf8.RuneCountInString(word) > 1) {
				barred[id] = true
			}
		}
	}
	if len(barred) > 0 {
		m.barred = barred
	}
}

// withoutBarred returns the tokens of the bytes [start, end) of a word, given those
// that the model makes of it: without withheld ones where the word has data.
func (e *encoder) withoutBarred(x text, start, end int, symbols []symbol) []symbol {
	m := e.t.model
	if !slices.ContainsFunc(symbols, func(s symbol) bool { return m.barred[s.id] }) || !e.data.overlaps(x.origin(start, end)) {
		return symbols
	}
	return m.merge(m.symbols(x.s[start:end]), symbols[:0], m.barred)
}
