package value

import (
	"slices"
	"strings"
	"unicode/utf8"

	"tgi/plugins/std/jinja/chars"
)

// Origin says where the bytes of a Str came from.
type Origin uint8

// The origins. In a string that is FromBoth, each byte has one of the others.
const (
	FromTemplate Origin = iota
	FromData
	FromBoth
)

// span is a range of bytes that came from the request's values.
type span struct{ lo, hi int }

// Str is Python's str with the provenance of every byte. It is immutable. The
// text is UTF-8; lone surrogates, which Python's strings can hold, become
// U+FFFD.
type Str struct {
	s     string
	from  Origin
	safe  bool // markupsafe.Markup
	marks []span
}

// Type implements Value.
func (*Str) Type() string { return "str" }

// String is the text.
func (x *Str) String() string { return x.s }

// From returns the origin of the whole text.
func (x *Str) From() Origin { return x.from }

// Safe reports whether x is a Markup.
func (x *Str) Safe() bool { return x.safe }

// Spans returns the number of ranges that came from the request, for a string that
// came from both.
func (x *Str) Spans() int { return len(x.marks) }

// Text makes a string that belongs to the template.
func Text(s string) *Str { return &Str{s: s} }

// Data makes a string that belongs to the request.
func Data(s string) *Str { return &Str{s: s, from: FromData} }

// Empty is the empty string.
var Empty = Text("")

// Like returns s with the origin of x. If x has both origins, all of s is data,
// which is the safe choice.
func Like(x *Str, s string) *Str {
	if x.from == FromTemplate {
		return &Str{s: s}
	}
	return &Str{s: s, from: FromData}
}

// Sub is the bytes lo to hi of x.
func (x *Str) Sub(lo, hi int) *Str {
	if lo == 0 && hi == len(x.s) {
		return x
	}
	if lo >= hi {
		return Empty
	}
	if x.from != FromBoth {
		return &Str{s: x.s[lo:hi], from: x.from, safe: x.safe}
	}
	var w Buffer
	w.Sub(x, lo, hi)
	r := w.Done()
	r.safe = x.safe
	return r
}

// Runs calls f for each run of bytes of one origin, in order.
func (x *Str) Runs(f func(part string, data bool)) {
	if x.from != FromBoth {
		f(x.s, x.from == FromData)
		return
	}
	at := 0
	for _, m := range x.marks {
		if at < m.lo {
			f(x.s[at:m.lo], false)
		}
		f(x.s[m.lo:m.hi], true)
		at = m.hi
	}
	if at < len(x.s) {
		f(x.s[at:], false)
	}
}

// MapRuns applies f to every run of one origin. f must treat each character by itself.
func (x *Str) MapRuns(f func(string) string) *Str {
	if x.from != FromBoth {
		return &Str{s: f(x.s), from: x.from}
	}
	var w Buffer
	x.Runs(func(part string, data bool) { w.Put(f(part), data) })
	return w.Done()
}

// IsData reports whether the byte at i came from the request.
func (x *Str) IsData(i int) bool {
	if x.from != FromBoth {
		return x.from == FromData
	}
	for _, m := range x.marks {
		if i < m.hi {
			return i >= m.lo
		}
	}
	return false
}

// Count is the number of characters.
func (x *Str) Count() int { return utf8.RuneCountInString(x.s) }

// ByteAt is the offset of character i; i may be the number of characters.
func (x *Str) ByteAt(i int) int {
	if len(x.s) == x.Count() {
		return i
	}
	off := 0
	for ; i > 0; i-- {
		_, n := utf8.DecodeRuneInString(x.s[off:])
		off += n
	}
	return off
}

// chars splits x into its characters.
func (x *Str) chars() []Value {
	out := make([]Value, 0, len(x.s))
	for i := 0; i < len(x.s); {
		_, n := utf8.DecodeRuneInString(x.s[i:])
		out = append(out, x.Sub(i, i+n))
		i += n
	}
	return out
}

// Buffer builds a string and keeps the origin of each of its parts.
type Buffer struct {
	Bytes []byte
	marks []span
}

// Put appends text; data says whether it came from the request.
func (w *Buffer) Put(s string, data bool) {
	if s == "" {
		return
	}
	lo := len(w.Bytes)
	w.Bytes = append(w.Bytes, s...)
	if data {
		w.Mark(lo, len(w.Bytes))
	}
}

// Text appends text of the template.
func (w *Buffer) Text(s string) { w.Bytes = append(w.Bytes, s...) }

// Mark marks the bytes lo to hi, which must be the last ones written, as the request's.
func (w *Buffer) Mark(lo, hi int) {
	if n := len(w.marks); n > 0 && w.marks[n-1].hi == lo {
		w.marks[n-1].hi = hi
		return
	}
	w.marks = append(w.marks, span{lo, hi})
}

// Str appends a string.
func (w *Buffer) Str(x *Str) {
	switch x.from {
	case FromTemplate:
		w.Bytes = append(w.Bytes, x.s...)
	case FromData:
		w.Put(x.s, true)
	default:
		at := len(w.Bytes)
		w.Bytes = append(w.Bytes, x.s...)
		for _, m := range x.marks {
			w.Mark(at+m.lo, at+m.hi)
		}
	}
}

// Sub appends the bytes lo to hi of a string.
func (w *Buffer) Sub(x *Str, lo, hi int) {
	if lo >= hi {
		return
	}
	if x.from != FromBoth {
		w.Put(x.s[lo:hi], x.from == FromData)
		return
	}
	at := len(w.Bytes) - lo
	w.Bytes = append(w.Bytes, x.s[lo:hi]...)
	for _, m := range x.marks {
		if a, b := max(m.lo, lo), min(m.hi, hi); a < b {
			w.Mark(at+a, at+b)
		}
	}
}

// Done returns the string. The buffer must not be used again.
func (w *Buffer) Done() *Str {
	if len(w.Bytes) == 0 {
		return Empty
	}
	r := &Str{s: string(w.Bytes)}
	switch {
	case len(w.marks) == 0:
	case len(w.marks) == 1 && w.marks[0] == span{0, len(w.Bytes)}:
		r.from = FromData
	default:
		r.from, r.marks = FromBoth, w.marks
	}
	return r
}

// Copied is like Done, for a buffer that is used again.
func (w *Buffer) Copied() *Str {
	r := w.Done()
	r.marks = slices.Clone(r.marks)
	return r
}

// Emptied returns an empty buffer with the capacity of w.
func (w *Buffer) Emptied() Buffer { return Buffer{w.Bytes[:0], w.marks[:0]} }

// Capacity returns the capacity of w, in bytes.
func (w *Buffer) Capacity() int { return cap(w.Bytes) }

// Concat is a + b.
func Concat(a, b *Str) *Str {
	switch {
	case a.s == "" && !a.safe:
		return b
	case b.s == "" && !b.safe:
		return a
	case a.from != FromBoth && a.from == b.from:
		return &Str{s: a.s + b.s, from: a.from}
	}
	w := Buffer{Bytes: make([]byte, 0, len(a.s)+len(b.s))}
	w.Str(a)
	w.Str(b)
	return w.Done()
}

// Repeat is x * n; the caller has charged the length.
func (x *Str) Repeat(n int) *Str {
	if n <= 0 || x.s == "" {
		return Empty
	}
	if x.from != FromBoth {
		return &Str{s: strings.Repeat(x.s, n), from: x.from, safe: x.safe}
	}
	var w Buffer
	for range n {
		w.Str(x)
	}
	return w.Done()
}

// Trim gives the range of s that is left when the characters in cut are
// taken off; cut nil means white space.
func (x *Str) Trim(cut *Str, left, right bool) *Str {
	f := chars.IsSpace
	if cut != nil {
		f = func(r rune) bool { return strings.ContainsRune(cut.s, r) }
	}
	s, lo := x.s, 0
	if left {
		s = strings.TrimLeftFunc(s, f)
		lo = len(x.s) - len(s)
	}
	if right {
		s = strings.TrimRightFunc(s, f)
	}
	return x.Sub(lo, lo+len(s))
}

// MapWhole applies a function that reads neighbouring characters. It maps a string
// of both origins as a whole. If the length stays the same, so do the origins of
// the bytes; otherwise all of it is data.
func (x *Str) MapWhole(f func(string) string) *Str {
	s := f(x.s)
	if x.from != FromBoth {
		return &Str{s: s, from: x.from}
	}
	if len(s) == len(x.s) {
		return &Str{s: s, from: FromBoth, marks: x.marks}
	}
	return &Str{s: s, from: FromData}
}
