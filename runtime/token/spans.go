package token

import (
	"iter"
	"slices"
	"strings"
	"unicode/utf8"

	"tgi/runtime/llm"
)

// Span is a half-open range of bytes of a text.
type Span = llm.Span

// EncodeSpans is Encode(text, false) for a text in which the byte ranges data are untrusted:
// their author must not be able to write a control token. Withheld tokens are recognised only
// if none of their bytes is in data: added tokens with special set, and other added tokens
// whose text begins with "<" and ends with ">". A withheld token in data is treated as if it
// were not in the vocabulary: shorter tokens at the same position and tokens inside it are
// found, and merges do not produce it. Other added tokens (plain words, white space) are
// recognised everywhere, so that harmless text has the reference's ids. Three kinds are never
// withheld, because their characters cannot be encoded in another way: tokens of a single
// character or byte, byte tokens, and the unknown token.
//
// Spans may overlap and come in any order; they are clipped to the text, empty ones are
// ignored, and data is not changed. Spans of invalid UTF-8 grow to whole U+FFFD characters.
// The extra cost is sorting the spans and one binary search for each withheld token in the
// text.
func (t *Tokenizer) EncodeSpans(text string, data []Span) []uint32 {
	s, own := toValidUTF8Spans(text, normalizeSpans(data, len(text)))
	return t.encode(s, own)
}

// EncodeSpanOffsets is EncodeSpans with each token's position in the input, as in
// EncodeOffsets.
func (t *Tokenizer) EncodeSpanOffsets(text string, data []Span) []Piece {
	return slices.AppendSeq(make([]Piece, 0, len(text)/4+8), t.SpanPieces(text, data))
}

// SpanPieces is EncodeSpanOffsets as an iterator, as in Pieces.
func (t *Tokenizer) SpanPieces(text string, data []Span) iter.Seq[Piece] {
	s, own := toValidUTF8Spans(text, normalizeSpans(data, len(text)))
	return t.pieces(s, own, false)
}

// withheld reports whether an added token is recognised only outside data.
func withheld(content string, special bool) bool {
	return special || strings.HasPrefix(content, "<") && strings.HasSuffix(content, ">")
}

// dataSpans are ranges of bytes of the original text: ascending, not adjacent, not empty.
type dataSpans []span

// normalizeSpans sorts, clips and merges spans of a text of n bytes.
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

// overlaps reports whether s has a byte in d.
func (d dataSpans) overlaps(s span) bool {
	i, _ := slices.BinarySearchFunc(d, s.start, func(e span, at int) int {
		if e.end <= at {
			return -1
		}
		return 1
	})
	return i < len(d) && d[i].start < s.end
}

// toValidUTF8Spans is toValidUTF8 that also adjusts the ranges.
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

// findBarred implements model: few files have tokens that merges or ignoreMerges make and that are withheld.
func (m *bpe) findBarred(withheld map[uint32]string) {
	barred := make(barredSet)
	for _, id := range m.results {
		if _, ok := withheld[id]; ok {
			barred[id] = true
		}
	}
	if m.ignoreMerges {
		for word, id := range m.vocab {
			if _, ok := withheld[id]; ok && (m.raw && len(word) > 1 || utf8.RuneCountInString(word) > 1) {
				barred[id] = true
			}
		}
	}
	m.barredSet = barred
}

// withoutBarred implements model.
func (m *bpe) withoutBarred(word string, out []symbol) []symbol {
	return m.merge(m.symbols(word), out, m.barredSet)
}
