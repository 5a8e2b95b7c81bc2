package toolcalls

import (
	"slices"
	"strings"
	"unicode/utf8"
)

// markers is a set of texts to look for.
type markers struct {
	list  []string // longest first
	first [256]bool
}

func newMarkers(lists ...[]string) *markers {
	m := &markers{list: slices.Concat(lists...)}
	slices.SortStableFunc(m.list, func(a, b string) int { return len(b) - len(a) })
	for _, s := range m.list {
		m.first[s[0]] = true
	}
	return m
}

// at returns the longest marker that s begins with. Waiting means that more text is needed to decide; whole says that
// no more text follows.
func (m *markers) at(s string, whole bool) (marker string, waiting bool) {
	if s == "" {
		return "", !whole
	}
	if !m.first[s[0]] {
		return "", false
	}
	for _, k := range m.list {
		switch {
		case len(s) >= len(k):
			if s[:len(k)] == k {
				return k, false
			}
		case !whole && k[:len(s)] == s:
			return "", true
		}
		if !whole && cutInside(s, k) {
			return "", true
		}
	}
	return "", false
}

// replacement is what the host writes for a character that the end of the text cut.
const replacement = "\uFFFD"

// cutInside reports whether s is the beginning of a marker up to the middle of a character.
func cutInside(s, marker string) bool {
	begin, ok := strings.CutSuffix(s, replacement)
	return ok && len(begin) < len(marker) && marker[:len(begin)] == begin && marker[len(begin)] >= utf8.RuneSelf
}

// find returns the first position of a complete or possible marker: text before it is not part of a marker, whatever
// follows. The marker is empty if it is not complete yet.
func (m *markers) find(s string, whole bool) (at int, marker string) {
	for i := 0; i < len(s); i++ {
		if !m.first[s[i]] {
			continue
		}
		if k, waiting := m.at(s[i:], whole); k != "" || waiting {
			return i, k
		}
	}
	return len(s), ""
}
