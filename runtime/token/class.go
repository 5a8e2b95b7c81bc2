package token

import (
	"unicode"
	"unicode/utf8"
)

// class is a set of character classes.
type class uint16

const (
	letter      class = 1 << iota // \p{L}
	number                        // \p{N}
	space                         // \s, the White_Space property
	word                          // \w of added tokens' single_word
	digit                         // what the Digits pre-tokenizer takes for a number
	normal                        // touched by Unicode normalization
	unassigned                    // \p{Cn}
	punctuation                   // what the Punctuation pre-tokenizer takes
	control                       // what BertNormalizer removes with clean_text
	nonspacing                    // what it removes with strip_accents
	combining                     // what StripAccents removes
)

// span32 is an inclusive range of code points.
type span32 struct{ lo, hi rune }

// lowerSpan says that every step-th code point of [lo, hi] has its lower case
// at a distance of delta.
type lowerSpan struct{ lo, hi, delta, step rune }

// newerSpan says that code points of [lo, hi] are like old.
type newerSpan struct{ lo, hi, old rune }

// classTable maps code points to classes in two stages: pages of 256 code
// points, of which most are equal and stored once.
type classTable struct {
	page  [(unicode.MaxRune + 1) >> 8]uint16
	pages [][256]class
}

var classes = newClassTable()

// of returns the classes of r; zero if r is not a code point.
func (t *classTable) of(r rune) class {
	if uint32(r) > unicode.MaxRune {
		return 0
	}
	return t.pages[t.page[r>>8]][r&0xff]
}

func newClassTable() *classTable {
	flat := make([]class, unicode.MaxRune+1)
	fill := func(rs []span32, c class) {
		for _, s := range rs {
			for r := s.lo; r <= s.hi; r++ {
				flat[r] |= c
			}
		}
	}
	fill(letterRanges, letter|word)
	fill(numberRanges, number|digit)
	fill(spaceRanges, space)
	fill(wordRanges, word)
	fill(digitRanges, digit)
	fill(normalRanges, normal)
	fill(unassignedRanges, unassigned)
	fill(punctuationRanges, punctuation)
	fill(controlRanges, control)
	fill(nonspacingRanges, nonspacing)
	fill(combiningRanges, combining)
	t := &classTable{}
	seen := make(map[[256]class]uint16)
	for i := range t.page {
		var p [256]class
		copy(p[:], flat[i<<8:])
		n, ok := seen[p]
		if !ok {
			n = uint16(len(t.pages))
			seen[p] = n
			t.pages = append(t.pages, p)
		}
		t.page[i] = n
	}
	return t
}

// toLower returns the lower case of r if that is one code point, otherwise r.
func toLower(r rune) rune {
	lo, hi := 0, len(lowerOf)
	for lo < hi {
		mid := (lo + hi) / 2
		if lowerOf[mid].hi < r {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	if lo < len(lowerOf) {
		if s := lowerOf[lo]; s.lo <= r && (r-s.lo)%s.step == 0 {
			return r + s.delta
		}
	}
	return r
}

// runeAt decodes the character at s[i:], which is valid UTF-8, and its length; 0 at the end.
func runeAt(s string, i int) (rune, int) {
	if i < len(s) && s[i] < utf8.RuneSelf {
		return rune(s[i]), 1
	}
	r, n := utf8.DecodeRuneInString(s[i:])
	return r, n
}
