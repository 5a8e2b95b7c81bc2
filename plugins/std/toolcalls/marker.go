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

// at says which marker s begins with: the longest. Waiting means that more text is needed to know; whole says that none
// will come.
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

// find is the first place at which a marker stands or may stand: what is before it is no part of a marker, whatever
// follows. The marker is empty when none stands there yet.
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
