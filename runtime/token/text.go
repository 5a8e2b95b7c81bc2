package token

import (
	"slices"
	"strings"
	"unicode/utf8"
)

// span is a half-open range of bytes of the original text.
type span struct{ start, end int }

// text is a segment of the input in the normalizers and pre-tokenizers, with the origin of
// each of its bytes. It is immutable: changes create a new string.
type text struct {
	s string
	// base is where the segment starts in the original text.
	base int
	// from[i] is the original character of byte i; nil if s is the original text from base on.
	from []source
	// whole is the original text.
	whole string
	// late says that a pattern took too long for a part of it. A pre-tokenizer then also passes on a text that says
	// nothing else.
	late bool
}

// source is a character of the original text, or none: the byte at which it starts, times two,
// plus one for none. This takes a quarter of a span's memory, which matters for large texts.
type source uint32

func sourceAt(start int) source { return source(start) << 1 }
func insertedAt(at int) source  { return source(at)<<1 | 1 }

// span returns the bytes of the character.
func (x text) span(p source) span {
	start := int(p >> 1)
	if p&1 != 0 {
		return span{start, start}
	}
	_, n := runeAt(x.whole, start)
	return span{start, start + n}
}

// original returns a whole input.
func original(s string) text { return text{s: s, whole: s} }

// slice returns the part [i, j) of x; i and j are character boundaries.
func (x text) slice(i, j int) text {
	y := text{s: x.s[i:j], base: x.base, whole: x.whole}
	switch {
	case x.from == nil:
		y.base += i
	default:
		y.from = x.from[i:j:j]
		if i < j {
			y.base = int(x.from[i] >> 1)
		}
	}
	return y
}

// origin returns the original range that the bytes [i, j) stand for.
func (x text) origin(i, j int) span {
	if i == j {
		return span{x.base, x.base}
	}
	if x.from != nil {
		return span{int(x.from[i] >> 1), x.span(x.from[j-1]).end}
	}
	for i > 0 && !utf8.RuneStart(x.s[i]) {
		i--
	}
	for j < len(x.s) && !utf8.RuneStart(x.s[j]) {
		j++
	}
	return span{x.base + i, x.base + j}
}

// aligned returns x with an explicit table of origins.
func (x text) aligned() text {
	if x.from != nil {
		return x
	}
	x.from = make([]source, len(x.s))
	for i := 0; i < len(x.s); {
		_, n := runeAt(x.s, i)
		for k := range n {
			x.from[i+k] = sourceAt(x.base + i)
		}
		i += n
	}
	return x
}

// edit is one character of a transformed text. shift relates it to the original characters: 0
// replaces one, 1 was inserted after the last, -n replaces one and removes n more.
type edit struct {
	r     rune
	shift int
}

// transform removes the first skip characters of x and replaces the rest by edits. Inserted
// characters share the origin of the character before them. Origins follow the reference
// library also if edits are out of order, as after canonical reordering.
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
	from := make([]source, 0, len(x.from)+len(x.from)/8)
	for _, e := range edits {
		o := insertedAt(x.base)
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
	return text{s: b.String(), base: x.base, from: from, whole: x.whole}
}

// prepend puts p in front of x; it shares the origin of x's first character.
// An empty x stays empty.
func (x text) prepend(p string) text {
	if x.s == "" || p == "" {
		return x
	}
	x = x.aligned()
	from := make([]source, len(p)+len(x.from))
	for i := range len(p) {
		from[i] = x.from[0]
	}
	copy(from[len(p):], x.from)
	return text{s: p + x.s, base: x.base, from: from, whole: x.whole}
}

// match is a range of bytes of a text and whether a pattern matched it; the
// matches of a text are contiguous and cover it.
type match struct {
	start, end int
	hit        bool
}

// replace replaces every match that is a hit by content, which gets the origin of the last
// replaced character.
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
	b.Grow(len(x.s) + hits*len(content))
	from := make([]source, 0, len(x.from)+hits*len(content))
	for _, m := range ms {
		if !m.hit {
			b.WriteString(x.s[m.start:m.end])
			from = append(from, x.from[m.start:m.end]...)
			continue
		}
		o := insertedAt(x.base)
		if m.end > 0 {
			o = x.from[m.end-1]
		}
		b.WriteString(content)
		for range len(content) {
			from = append(from, o)
		}
	}
	return text{s: b.String(), base: x.base, from: from, whole: x.whole}
}

// charIndex converts between bytes and characters of a valid UTF-8 string.
type charIndex struct {
	s string
	// counts[k] is how many characters start before byte k*charStride; nil when
	// every character is one byte.
	counts []uint32
}

// charStride is the most bytes that a conversion has to scan.
const charStride = 64

func newCharIndex(s string) charIndex {
	if isASCII(s) {
		return charIndex{s: s}
	}
	counts := make([]uint32, 0, len(s)/charStride+1)
	n := uint32(0)
	for i := range len(s) {
		if i%charStride == 0 {
			counts = append(counts, n)
		}
		if utf8.RuneStart(s[i]) {
			n++
		}
	}
	return charIndex{s: s, counts: counts}
}

// char returns the first character that starts at byte b or after it.
func (x charIndex) char(b int) int {
	if x.counts == nil {
		return b
	}
	k := min(b/charStride, len(x.counts)-1)
	n := int(x.counts[k])
	for i := k * charStride; i < b; i++ {
		if utf8.RuneStart(x.s[i]) {
			n++
		}
	}
	return n
}

// byte returns where character c starts; len(s) for the one after the last.
func (x charIndex) byte(c int) int {
	if x.counts == nil {
		return c
	}
	k, _ := slices.BinarySearch(x.counts, uint32(c)+1) // the first with more
	k = max(k-1, 0)
	n := int(x.counts[k])
	for i := k * charStride; i < len(x.s); i++ {
		if !utf8.RuneStart(x.s[i]) {
			continue
		}
		if n == c {
			return i
		}
		n++
	}
	return len(x.s)
}

// cut returns the characters [i, j).
func (x charIndex) cut(i, j int) string { return x.s[x.byte(i):x.byte(j)] }
