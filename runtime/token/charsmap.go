package token

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// maxGrapheme is the longest grapheme, in bytes, that a charsmap is asked for as a whole.
const maxGrapheme = 5

// charsmap is the Precompiled normalizer: the rules that SentencePiece compiles into a model, a double-array trie from
// UTF-8 to places in a text of replacements that end with NUL.
type charsmap struct {
	units        []uint32
	replacements string
	// longest is the most bytes of a replacement.
	longest int
}

// newCharsmap reads the size of the trie in bytes, the trie and the replacements.
func newCharsmap(b []byte) (*charsmap, error) {
	if len(b) < 4 {
		return nil, fmt.Errorf("has %d bytes, want the size of a trie first", len(b))
	}
	size := uint64(binary.LittleEndian.Uint32(b)) / 4
	if b = b[4:]; size > uint64(len(b)/4) {
		return nil, fmt.Errorf("has a trie of %d bytes in %d", 4*size, len(b))
	}
	if size == 0 {
		return nil, fmt.Errorf("has an empty trie")
	}
	m := &charsmap{units: make([]uint32, size), replacements: string(b[4*size:])}
	for i := range m.units {
		m.units[i] = binary.LittleEndian.Uint32(b[4*i:])
	}
	if !utf8.ValidString(m.replacements) {
		return nil, fmt.Errorf("has replacements that are not UTF-8")
	}
	for part := range strings.SplitSeq(m.replacements, "\x00") {
		m.longest = max(m.longest, len(part))
	}
	return m, nil
}

// offset returns the distance, by exclusive or, of a unit from its children.
func offset(unit uint32) uint64 { return uint64(unit>>10) << (unit & (1 << 9) >> 6) }

// replacement returns what a grapheme or a character becomes. As in the reference that is the replacement of the
// shortest rule that s begins with, whatever stands behind it.
func (m *charsmap) replacement(s string) (string, bool) {
	at := offset(m.units[0])
	for i := range len(s) {
		if s[i] == 0 {
			break
		}
		if at ^= uint64(s[i]); at >= uint64(len(m.units)) {
			break
		}
		unit := m.units[at]
		if unit&(1<<31|0xff) != uint32(s[i]) {
			break
		}
		if at ^= offset(unit); unit>>8&1 == 1 {
			return m.replacementAt(at)
		}
	}
	return "", false
}

// replacementAt returns the replacement to which the leaf at a place of the trie points.
func (m *charsmap) replacementAt(at uint64) (string, bool) {
	if at >= uint64(len(m.units)) {
		return "", false
	}
	start := int(m.units[at] & (1<<31 - 1))
	if start > len(m.replacements) || start < len(m.replacements) && !utf8.RuneStart(m.replacements[start]) {
		return "", false // a broken map, at which the reference panics
	}
	s, _, _ := strings.Cut(m.replacements[start:], "\x00")
	return s, true
}

// normalize implements normalizer.
func (m *charsmap) normalize(x text) text {
	s, changed := x.s, false
	edits := make([]edit, 0, len(s))
	for i := 0; i < len(s); {
		end := grapheme(s, i)
		if end-i <= maxGrapheme {
			if to, ok := m.replacement(s[i:end]); ok {
				edits, changed = appendReplaced(edits, s[i:end], to), true
				i = end
				continue
			}
		}
		for i < end {
			r, n := runeAt(s, i)
			if to, ok := m.replacement(s[i : i+n]); ok {
				edits, changed = appendReplaced(edits, s[i:i+n], to), true
			} else {
				edits = append(edits, edit{r, 0})
			}
			i += n
		}
	}
	if !changed {
		return x
	}
	return x.transform(edits, 0)
}

// appendReplaced appends the characters of to, which replace those of from. If there are more, the last ones are
// inserted; if there are fewer, the last character so far, which may be one from before, stands for the rest as well.
// As in the reference, nothing stands for them at the start of a text.
func appendReplaced(edits []edit, from, to string) []edit {
	for _, r := range to {
		edits = append(edits, edit{r, 0})
	}
	switch more := utf8.RuneCountInString(to) - utf8.RuneCountInString(from); {
	case more > 0:
		for i := len(edits) - more; i < len(edits); i++ {
			edits[i].shift = 1
		}
	case more < 0 && len(edits) > 0:
		edits[len(edits)-1].shift += more
	}
	return edits
}

// shrink implements normalizer: a map may remove characters.
func (m *charsmap) shrink() int { return 0 }

// scriptSpan is a range of characters of one script.
type scriptSpan struct {
	lo, hi rune
	script uint8
}

// scriptOf returns the number of a character's script, 0 for those that belong to the script around them.
func scriptOf(r rune) uint8 {
	i, ok := slices.BinarySearchFunc(scriptRanges, r, func(s scriptSpan, r rune) int {
		switch {
		case s.hi < r:
			return -1
		case s.lo > r:
			return 1
		}
		return 0
	})
	if !ok {
		return 0
	}
	return scriptRanges[i].script
}
