package token

import "slices"

// graphemeClass is what a character means for the borders of graphemes, characters as readers see them (UAX 29).
type graphemeClass uint8

const (
	graphemeOther graphemeClass = iota
	graphemeControl
	graphemeExtend
	graphemeZWJ
	graphemeSpacing
	graphemePrepend
	graphemeL // Hangul letters: leading, vowel, trailing, and syllables
	graphemeV
	graphemeT
	graphemeLV
	graphemeLVT
	graphemeRegional
	graphemePicture
	graphemeConsonant
)

type graphemeSpan struct {
	lo, hi rune
	class  graphemeClass
}

func graphemeOf(r rune) graphemeClass {
	if r >= ' ' && r < 0x7f {
		return graphemeOther
	}
	i, ok := slices.BinarySearchFunc(graphemeRanges, r, func(s graphemeSpan, r rune) int {
		switch {
		case s.hi < r:
			return -1
		case s.lo > r:
			return 1
		}
		return 0
	})
	if !ok {
		return graphemeOther
	}
	return graphemeRanges[i].class
}

// isLinker reports whether r joins the consonants on both sides.
func isLinker(r rune) bool {
	return slices.ContainsFunc(linkerRanges, func(s span32) bool { return s.lo <= r && r <= s.hi })
}

// grapheme returns the end of the grapheme that starts at byte i of s.
func grapheme(s string, i int) int {
	r, n := runeAt(s, i)
	end := i + n
	class := graphemeOf(r)
	regionals := 0   // of the run that ends here
	picture := false // a picture, with marks only behind it
	var consonant, linked bool
	for {
		switch class {
		case graphemeRegional:
			regionals++
		case graphemePicture:
			picture = true
		case graphemeConsonant:
			consonant, linked = true, false
		case graphemeExtend, graphemeZWJ:
			linked = linked || isLinker(r)
		default:
			picture, consonant = false, false
		}
		if end == len(s) {
			return end
		}
		before := r
		r, n = runeAt(s, end)
		next := graphemeOf(r)
		switch {
		case before == '\r' && r == '\n':
		case class == graphemeControl || next == graphemeControl:
			return end
		case next == graphemeExtend || next == graphemeZWJ || next == graphemeSpacing || class == graphemePrepend:
		case hangul(class, next):
		case next == graphemePicture && class == graphemeZWJ && picture:
		case next == graphemeConsonant && consonant && linked:
		case next == graphemeRegional && class == graphemeRegional && regionals%2 == 1:
		default:
			return end
		}
		end, class = end+n, next
	}
}

// hangul reports whether two Hangul characters belong to one syllable.
func hangul(a, b graphemeClass) bool {
	switch a {
	case graphemeL:
		return b == graphemeL || b == graphemeV || b == graphemeLV || b == graphemeLVT
	case graphemeLV, graphemeV:
		return b == graphemeV || b == graphemeT
	case graphemeLVT, graphemeT:
		return b == graphemeT
	}
	return false
}
