// Package stop finds stop strings in a text that arrives in pieces. The engine ends
// sequences by it, and the server withholds by it what may become a stop string.
//
// The reasons behind it: docs/rationale/server.md.
package stop

import "slices"

// Matcher finds the first place where one of several strings ends in a text that
// arrives in pieces. It is linear in the text for each string, however the text is cut.
// It belongs to one goroutine.
type Matcher struct {
	stops []stopString
}

type stopString struct {
	text string
	// fail[i] is the length of the longest proper prefix of text that is also a
	// suffix of text[:i+1] (Knuth, Morris, Pratt).
	fail []int
	have int // bytes of text that the end of the input matches
}

// New returns a matcher; empty strings are left out.
func New(stops []string) *Matcher {
	m := &Matcher{}
	for _, s := range stops {
		if s == "" {
			continue
		}
		fail := make([]int, len(s))
		for i, k := 1, 0; i < len(s); i++ {
			for k > 0 && s[i] != s[k] {
				k = fail[k-1]
			}
			if s[i] == s[k] {
				k++
			}
			fail[i] = k
		}
		m.stops = append(m.stops, stopString{text: s, fail: fail})
	}
	return m
}

// Clone returns a matcher that has seen the same text.
func (m *Matcher) Clone() *Matcher { return &Matcher{slices.Clone(m.stops)} }

// Reset has the matcher see no text so far.
func (m *Matcher) Reset() {
	for i := range m.stops {
		m.stops[i].have = 0
	}
}

// Feed takes the next piece. If a stop string ends in it, Feed returns the string and
// the number of bytes of the piece up to its end; of several that end at the same byte,
// the first in the list. Otherwise it returns "", 0. What follows in the piece is
// not looked at.
func (m *Matcher) Feed(piece string) (stop string, cut int) {
	for i := 0; i < len(piece); i++ {
		for j := range m.stops { // all of them see the byte: the text may go on
			if s := &m.stops[j]; s.step(piece[i]) && stop == "" {
				stop, cut = s.text, i+1
			}
		}
		if stop != "" {
			return stop, cut
		}
	}
	return "", 0
}

func (s *stopString) step(c byte) (matched bool) {
	if s.have == len(s.text) { // behind a match
		s.have = s.fail[s.have-1]
	}
	for s.have > 0 && s.text[s.have] != c {
		s.have = s.fail[s.have-1]
	}
	if s.text[s.have] == c {
		s.have++
	}
	return s.have == len(s.text)
}

// Pending returns the length of the longest beginning of a stop string that the text
// ends with: so many of its last bytes may be a part of one.
func (m *Matcher) Pending() (longest int) {
	for i := range m.stops {
		longest = max(longest, m.stops[i].have)
	}
	return longest
}
