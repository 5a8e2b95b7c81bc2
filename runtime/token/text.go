package token

import (
	"strings"
	"unicode/utf8"
)

// span is a half-open range of bytes of the original text.
type span struct{ start, end int }

// text is a stretch of the input on its way through the normalizers and
// pre-tokenizers, with the knowledge of where each of its bytes came from.
// It is a value: what changes it makes a new string.
type text struct {
	s string
	// base is where the stretch starts in the original text.
	base int
	// from[i] is the original character (or characters) that byte i stands
	// for; nil says that s is the original text from base on.
	from []span
}

// slice returns the part [i, j) of x; i and j are character boundaries.
func (x text) slice(i, j int) text {
	if x.from == nil {
		return text{s: x.s[i:j], base: x.base + i}
	}
	y := text{s: x.s[i:j], from: x.from[i:j:j], base: x.base}
	if i < j {
		y.base = x.from[i].start
	}
	return y
}

// origin returns the original range that the bytes [i, j) stand for.
func (x text) origin(i, j int) span {
	if i == j {
		return span{x.base, x.base}
	}
	if x.from != nil {
		return span{x.from[i].start, x.from[j-1].end}
	}
	for i > 0 && !utf8.RuneStart(x.s[i]) {
		i--
	}
	for j < len(x.s) && !utf8.RuneStart(x.s[j]) {
		j++
	}
	return span{x.base + i, x.base + j}
}

// aligned returns x with its table of origins spelled out.
func (x text) aligned() text {
	if x.from != nil {
		return x
	}
	x.from = make([]span, len(x.s))
	for i := 0; i < len(x.s); {
		_, n := runeAt(x.s, i)
		for k := range n {
			x.from[i+k] = span{x.base + i, x.base + i + n}
		}
		i += n
	}
	return x
}

// edit is one character of a transformed text, and what it did to the
// characters before the transformation: 0 takes the place of one, 1 was
// inserted behind the last, -n takes the place of one and removes n more.
type edit struct {
	r     rune
	shift int
}

// transform replaces the characters of x by edits, the first skip characters
// having been removed. Inserted characters share the origin of what precedes
// them. Origins follow the reference library also where edits come out of
// order, as canonical reordering makes them.
func (x text) transform(edits []edit, skip int) text {
	x = x.aligned()
	at := 0 // in x.s
	take := func() {
		_, n := runeAt(x.s, at)
		at += n
	}
	for range skip {
		take()
	}
	var b strings.Builder
	b.Grow(len(x.s))
	from := make([]span, 0, len(x.from)+len(x.from)/8)
	for _, e := range edits {
		o := span{x.base, x.base}
		switch {
		case e.shift <= 0 && at < len(x.from):
			o = x.from[at]
		case at > 0:
			o = x.from[at-1]
		}
		if e.shift <= 0 {
			take()
			for range -e.shift {
				take()
			}
		}
		b.WriteRune(e.r)
		for range utf8.RuneLen(e.r) {
			from = append(from, o)
		}
	}
	return text{s: b.String(), base: x.base, from: from}
}

// prepend puts p in front of x; it shares the origin of x's first character.
// An empty x stays empty.
func (x text) prepend(p string) text {
	if x.s == "" || p == "" {
		return x
	}
	x = x.aligned()
	from := make([]span, len(p)+len(x.from))
	for i := range len(p) {
		from[i] = x.from[0]
	}
	copy(from[len(p):], x.from)
	return text{s: p + x.s, base: x.base, from: from}
}

// match is a range of bytes of a text and whether a pattern matched it; the
// matches of a text are contiguous and cover it.
type match struct {
	start, end int
	hit        bool
}

// replace puts content in the place of every match that is a hit. What is
// inserted shares the origin of the last character replaced.
func (x text) replace(ms []match, content string) text {
	hits := 0
	for _, m := range ms {
		if m.hit {
			hits++
		}
	}
	if hits == 0 {
		return x
	}
	x = x.aligned()
	var b strings.Builder
	from := make([]span, 0, len(x.from)+hits*len(content))
	for _, m := range ms {
		if !m.hit {
			b.WriteString(x.s[m.start:m.end])
			from = append(from, x.from[m.start:m.end]...)
			continue
		}
		o := span{x.base, x.base}
		if m.end > 0 {
			o = x.from[m.end-1]
		}
		b.WriteString(content)
		for range len(content) {
			from = append(from, o)
		}
	}
	return text{s: b.String(), base: x.base, from: from}
}

// charIndex converts between bytes and characters of a valid UTF-8 string.
type charIndex struct {
	s string
	// starts[c] is the byte at which character c starts, with len(s) behind
	// the last; nil when every character is one byte.
	starts []int
}

func newCharIndex(s string) charIndex {
	n := utf8.RuneCountInString(s)
	if n == len(s) {
		return charIndex{s: s}
	}
	starts := make([]int, 0, n+1)
	for i := range s {
		starts = append(starts, i)
	}
	return charIndex{s: s, starts: append(starts, len(s))}
}

// char returns the character that starts at byte b.
func (x charIndex) char(b int) int {
	if x.starts == nil {
		return b
	}
	lo, hi := 0, len(x.starts)
	for lo < hi {
		if mid := (lo + hi) / 2; x.starts[mid] < b {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	return lo
}

// cut returns the characters [i, j).
func (x charIndex) cut(i, j int) string {
	if x.starts == nil {
		return x.s[i:j]
	}
	return x.s[x.starts[i]:x.starts[j]]
}
