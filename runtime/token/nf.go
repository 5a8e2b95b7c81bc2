package token

import (
	"slices"
	"sync"

	"golang.org/x/text/unicode/norm"
)

// form is a Unicode normalization form.
type form struct {
	quick   norm.Form // for the quick check whether anything must change
	decomp  norm.Form // NFD or NFKD: whose decompositions
	compose bool
}

var forms = map[string]form{
	"NFC": {norm.NFC, norm.NFD, true}, "NFKC": {norm.NFKC, norm.NFKD, true},
	"NFD": {norm.NFD, norm.NFD, false}, "NFKD": {norm.NFKD, norm.NFKD, false},
}

// Package norm supplies the data and the quick check. The normalization itself is done here
// because it must track each character, because norm splits runs of more than 30 marks, and
// because characters outside normalRanges (which norm may know) must stay unchanged.

func (f form) apply(x text) text {
	if isASCII(x.s) || f.quick.IsNormalString(x.s) {
		return x
	}
	edits := f.decompose(x.s)
	if f.compose {
		edits = recompose(edits)
	}
	return x.transform(edits, 0)
}

func isASCII(s string) bool {
	for i := range len(s) {
		if s[i] >= 0x80 {
			return false
		}
	}
	return true
}

// ccc is the canonical combining class of r.
func ccc(r rune) uint8 {
	if r < 0x300 || classes.of(r)&normal == 0 {
		return 0
	}
	return norm.NFD.PropertiesString(string(r)).CCC()
}

// Hangul syllables are composed by arithmetic (Unicode 3.12).
const (
	hangulS, hangulL, hangulV, hangulT    = 0xac00, 0x1100, 0x1161, 0x11a7
	hangulLs, hangulVs, hangulTs, hangulN = 19, 21, 28, 11172
)

// decompose returns s in decomposed characters, with marks in canonical order.
func (f form) decompose(s string) []edit {
	edits := make([]edit, 0, len(s))
	marks := make([]uint8, 0, len(s)) // combining class of each edit
	pending := 0                      // start of the run of marks at the end
	emit := func(r rune, shift int) {
		c := ccc(r)
		if c == 0 {
			sortMarks(edits[pending:], marks[pending:])
		}
		edits, marks = append(edits, edit{r, shift}), append(marks, c)
		if c == 0 {
			pending = len(edits)
		}
	}
	for i, r := range s {
		switch {
		case r < 0x80 || classes.of(r)&normal == 0:
			emit(r, 0)
		case r >= hangulS && r < hangulS+hangulN:
			n := r - hangulS
			emit(hangulL+n/(hangulVs*hangulTs), 0)
			emit(hangulV+n%(hangulVs*hangulTs)/hangulTs, 1)
			if t := n % hangulTs; t > 0 {
				emit(hangulT+t, 1)
			}
		default:
			d := f.decomp.PropertiesString(s[i:]).Decomposition()
			if d == nil {
				emit(r, 0)
				break
			}
			for k, c := range string(d) {
				emit(c, min(k, 1))
			}
		}
	}
	sortMarks(edits[pending:], marks[pending:])
	return edits
}

// sortMarks orders a run of marks by combining class, stably.
func sortMarks(edits []edit, marks []uint8) {
	if slices.IsSorted(marks) {
		return
	}
	type marked struct {
		edit
		ccc uint8
	}
	run := make([]marked, len(edits))
	for i := range edits {
		run[i] = marked{edits[i], marks[i]}
	}
	slices.SortStableFunc(run, func(a, b marked) int { return int(a.ccc) - int(b.ccc) })
	for i := range run {
		edits[i], marks[i] = run[i].edit, run[i].ccc
	}
}

// recompose joins decomposed characters where a composed one exists.
func recompose(in []edit) []edit {
	pairs := compositions()
	out := make([]edit, 0, len(in))
	base := -1 // index in out of the last starter
	var last uint8
	for _, e := range in {
		c := ccc(e.r)
		if base >= 0 {
			adjacent := base == len(out)-1
			if adjacent || last < c {
				if r, ok := pairs.join(out[base].r, e.r); ok {
					out[base] = edit{r, out[base].shift + e.shift - 1}
					continue
				}
			}
		}
		if c == 0 {
			base = len(out)
		}
		out, last = append(out, e), c
	}
	return out
}

// pairMap maps a starter and what follows it to the character they compose.
type pairMap map[[2]rune]rune

func (m pairMap) join(a, b rune) (rune, bool) {
	if l, v := a-hangulL, b-hangulV; l >= 0 && l < hangulLs && v >= 0 && v < hangulVs {
		return hangulS + (l*hangulVs+v)*hangulTs, true
	}
	if n, t := a-hangulS, b-hangulT; n >= 0 && n < hangulN && n%hangulTs == 0 && t > 0 && t < hangulTs {
		return a + t, true
	}
	r, ok := m[[2]rune{a, b}]
	return r, ok
}

// compositions is derived from the decompositions: the last composition step of a character
// adds its last mark, unless the character is excluded from composition.
var compositions = sync.OnceValue(func() pairMap {
	m := make(pairMap)
	for _, s := range normalRanges {
		for r := s.lo; r <= s.hi; r++ {
			if r >= hangulS && r < hangulS+hangulN {
				continue
			}
			d := []rune(string(norm.NFD.PropertiesString(string(r)).Decomposition()))
			if len(d) < 2 || norm.NFC.String(string(d)) != string(r) {
				continue
			}
			if head := []rune(norm.NFC.String(string(d[:len(d)-1]))); len(head) == 1 {
				m[[2]rune{head[0], d[len(d)-1]}] = r
			}
		}
	}
	return m
})
