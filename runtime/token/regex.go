package token

import (
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/dlclark/regexp2"
)

// matchTimeout bounds one search of a pattern that has no scanner of its own.
const matchTimeout = 2 * time.Second

// splitter says where a pattern matches.
type splitter struct {
	// Exactly one is set, in the order in which they are tried.
	scan    scanner
	literal string
	re      *regexp2.Regexp
	runes   func(r rune) bool
}

// newRegex prepares a pattern of the file: a scanner if it is a known one,
// otherwise regexp2.
func newRegex(pattern string) (*splitter, error) {
	if s, ok := scanners[pattern]; ok {
		return &splitter{scan: s}, nil
	}
	re, err := regexp2.Compile(pattern, regexp2.None)
	if err != nil {
		return nil, fmt.Errorf("pattern %q: %w", pattern, err)
	}
	re.MatchTimeout = matchTimeout
	return &splitter{re: re}, nil
}

// matches returns the matches of s in order, covering it.
func (p *splitter) matches(s string) []match {
	if s == "" {
		return nil
	}
	switch {
	case p.scan != nil:
		var ms []match
		for i := 0; i < len(s); {
			end := p.scan(s, i)
			ms = append(ms, match{i, end, true})
			i = end
		}
		return ms
	case p.re != nil:
		return p.regexMatches(s)
	case p.runes != nil:
		return p.runeMatches(s)
	}
	return p.literalMatches(s)
}

func (p *splitter) literalMatches(s string) []match {
	var ms []match
	for at := 0; at < len(s); {
		i := strings.Index(s[at:], p.literal)
		if i < 0 || p.literal == "" {
			return append(ms, match{at, len(s), false})
		}
		if i > 0 {
			ms = append(ms, match{at, at + i, false})
		}
		at += i + len(p.literal)
		ms = append(ms, match{at - len(p.literal), at, true})
	}
	return ms
}

func (p *splitter) runeMatches(s string) []match {
	var ms []match
	done := 0
	for i, r := range s {
		if !p.runes(r) {
			continue
		}
		if done < i {
			ms = append(ms, match{done, i, false})
		}
		done = i + utf8.RuneLen(r)
		ms = append(ms, match{i, done, true})
	}
	if done < len(s) {
		ms = append(ms, match{done, len(s), false})
	}
	return ms
}

// regexMatches runs regexp2. A search that takes longer than matchTimeout
// ends the matching; what is left counts as unmatched, so that a pattern of
// exponential cost gives other tokens, never a stuck request.
func (p *splitter) regexMatches(s string) []match {
	rs := make([]rune, 0, len(s))
	bytes := make([]int, 0, len(s)+1)
	for i, r := range s {
		rs = append(rs, r)
		bytes = append(bytes, i)
	}
	bytes = append(bytes, len(s))
	var ms []match
	done, last := 0, -1
	for at := 0; at <= len(rs); {
		m, err := p.re.FindRunesMatchStartingAt(rs, at)
		if err != nil || m == nil {
			break
		}
		start, end := m.Index, m.Index+m.Length
		if start == end && end == last {
			at++ // no empty match right behind a match
			continue
		}
		at, last = end, end
		if done < start {
			ms = append(ms, match{bytes[done], bytes[start], false})
		}
		ms = append(ms, match{bytes[start], bytes[end], true})
		done = end
	}
	if done < len(rs) {
		ms = append(ms, match{bytes[done], len(s), false})
	}
	return ms
}
