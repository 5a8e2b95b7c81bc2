package token

import (
	"fmt"
	"strings"
	"sync"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/dlclark/regexp2"
)

// matchTimeout limits one search of a pattern without a scanner.
const matchTimeout = 2 * time.Second

// splitter finds the matches of a pattern. Exactly one field is set.
type splitter struct {
	scan    scanner
	literal string
	re      *regexp2.Regexp
	runes   func(r rune) bool
}

// digits is what the Digits pre-tokenizer matches.
var digits = &splitter{runes: func(r rune) bool { return classes.of(r)&digit != 0 }}

// What the Punctuation and WhitespaceSplit pre-tokenizers match, and what Whitespace separates from words.
var (
	punctuations = &splitter{runes: func(r rune) bool { return classes.of(r)&punctuation != 0 }}
	whiteSpace   = &splitter{runes: func(r rune) bool { return classes.of(r)&space != 0 }}
	notWords     = &splitter{runes: func(r rune) bool { return classes.of(r)&word == 0 }}
)

// newRegex compiles a pattern of the file: a scanner if it is well known, otherwise regexp2,
// provided that it means the same there.
func newRegex(pattern string) (*splitter, error) {
	if s, ok := scanners[pattern]; ok {
		return &splitter{scan: s}, nil
	}
	if err := checkPattern(pattern); err != nil {
		return nil, fmt.Errorf("pattern %q: %w", pattern, err)
	}
	// Oniguruma's ^ and $ match at every line; (?m) is something else there.
	re, err := regexp2.Compile(foldLongS.Replace(pattern), regexp2.Multiline)
	if err != nil {
		return nil, fmt.Errorf("pattern %q: %w", pattern, err)
	}
	re.MatchTimeout = matchTimeout
	return &splitter{re: re}, nil
}

// foldLongS adds the one case folding of contractions that Oniguruma has and regexp2 lacks: ſ
// is an s; and it writes the one intersection of classes that models have in regexp2's way.
var foldLongS = strings.NewReplacer(
	contractionsGPT, "(?i:'[sſ]|'t|'re|'ve|'m|'ll|'d)",
	contractionsTiktoken, "(?i:[sſdmt]|ll|ve|re)",
	notHan, `-[\p{Han}]]`,
)

// notHan ends a class that leaves out Chinese characters, which regexp2 writes as a subtraction.
const notHan = `&&[^\p{Han}]]`

// The two forms of contractions in patterns.
const (
	contractionsGPT      = "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
	contractionsTiktoken = "(?i:[sdmt]|ll|ve|re)"
)

// checkPattern refuses syntax that both Oniguruma, the reference's engine, and regexp2 accept
// but interpret differently.
func checkPattern(p string) error {
	inClass := false
	for i := 0; i < len(p); i++ {
		bad := ""
		rest := p[i:]
		switch {
		case p[i] == '\\' && len(rest) > 1:
			if strings.IndexByte("wWbBhHRXKNOyYG", rest[1]) >= 0 {
				bad = rest[:2]
			}
			i++
		case inClass && p[i] == ']':
			inClass = false
		case inClass && strings.HasPrefix(rest, notHan):
			i += len(notHan) - 1
			inClass = false
		case inClass:
			if p[i] == '[' {
				bad = "["
			} else if strings.HasPrefix(rest, "&&") {
				bad = "&&"
			}
		case p[i] == '[':
			inClass = true
			if strings.HasPrefix(rest, "[]") || strings.HasPrefix(rest, "[^]") {
				bad = "[]"
			}
		case strings.HasPrefix(rest, "{,"):
			bad = "{,"
		case strings.HasPrefix(rest, "(?"):
			if !plainGroup(rest) {
				bad = rest[:min(len(rest), 3)]
			}
		}
		if bad != "" {
			return fmt.Errorf("%q is not supported here", bad)
		}
	}
	return nil
}

// plainGroup reports whether the group at the start of p means the same in both engines:
// look-around, atomic, non-capturing, or case-insensitive contractions.
func plainGroup(p string) bool {
	for _, start := range []string{"(?:", "(?=", "(?!", "(?<=", "(?<!", "(?>", contractionsGPT, contractionsTiktoken} {
		if strings.HasPrefix(p, start) {
			return true
		}
	}
	return false
}

// matches returns the matches of s in order, covering it, and whether a search for them took too long.
func (p *splitter) matches(s string) (ms []match, late bool) {
	if s != "" && p.scan == nil && p.re != nil {
		return p.regexMatches(s)
	}
	return p.quickMatches(s), false
}

// quickMatches are the matches of what is no pattern of a file.
func (p *splitter) quickMatches(s string) []match {
	switch {
	case s == "":
		return nil
	case p.scan != nil:
		var ms []match
		for i := 0; i < len(s); {
			end := p.scan(s, i)
			ms = append(ms, match{i, end, true})
			i = end
		}
		return ms
	case p.runes != nil:
		return p.runeMatches(s)
	}
	return p.literalMatches(s)
}

func (p *splitter) literalMatches(s string) []match {
	ms := make([]match, 0, 2*strings.Count(s, p.literal)+1)
	for at := 0; at < len(s); {
		i := strings.Index(s[at:], p.literal)
		if i < 0 {
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

// regexMatches runs regexp2. If a search takes longer than matchTimeout, the rest of the text
// counts as unmatched and late is true: a pattern of exponential cost never hangs a request, and
// gives other tokens only where those do not matter.
func (p *splitter) regexMatches(s string) (ms []match, late bool) {
	rs := make([]rune, 0, len(s))
	bytes := make([]int, 0, len(s)+1)
	for i, r := range s {
		rs = append(rs, unicodeStandIn(r))
		bytes = append(bytes, i)
	}
	bytes = append(bytes, len(s))
	done, last := 0, -1
	for at := 0; at <= len(rs); {
		m, err := p.re.FindRunesMatchStartingAt(rs, at)
		if late = err != nil; late || m == nil {
			break
		}
		start, end := m.Index, m.Index+m.Length
		if start == end && end == last {
			at++ // no empty match directly after a match
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
	return ms, late
}

// unicodeStandIn returns the code point that regexp2, which uses the toolchain's Unicode
// tables, gets in place of r: if those tables and the reference's differ on whether r is
// assigned, another code point of the reference's category.
func unicodeStandIn(r rune) rune {
	if r < utf8.RuneSelf {
		return r
	}
	if classes.of(r)&unassigned != 0 {
		return firstUnassigned
	}
	if old, ok := standIns()[r]; ok {
		return old
	}
	return r
}

// firstUnassigned is the first code point that no edition assigns.
const firstUnassigned = '\u0378'

var standIns = sync.OnceValue(func() map[rune]rune {
	m := make(map[rune]rune)
	for _, s := range newerRanges {
		want := category(s.old)
		for r := s.lo; r <= s.hi; r++ {
			if !unicode.Is(want, r) {
				m[r] = s.old
			}
		}
	}
	return m
})

// category returns the table of r's general category.
func category(r rune) *unicode.RangeTable {
	for name, table := range unicode.Categories {
		if len(name) == 2 && name != "LC" && unicode.Is(table, r) { // LC is no category of its own
			return table
		}
	}
	return &unicode.RangeTable{}
}
