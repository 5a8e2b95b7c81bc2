package jinja

import (
	"slices"
	"strings"
	"unicode/utf8"
)

// origin says where the bytes of a Str came from.
type origin uint8

const (
	fromTemplate origin = iota
	fromData
	fromBoth // marks tell which
)

// span is a range of bytes that came from the request's values.
type span struct{ lo, hi int }

// Str is Python's str with the provenance of every byte. It is immutable. The
// text is UTF-8; lone surrogates, which Python's strings can hold, become
// U+FFFD.
type Str struct {
	s     string
	from  origin
	safe  bool // markupsafe.Markup
	marks []span
}

func (*Str) pyType() string { return "str" }

// text makes a string that belongs to the template.
func text(s string) *Str { return &Str{s: s} }

var emptyStr = text("")

// like gives s the provenance of x where x is not mixed; where it is mixed the
// whole of s counts as data, which is the safe side.
func like(x *Str, s string) *Str {
	if x.from == fromTemplate {
		return &Str{s: s}
	}
	return &Str{s: s, from: fromData}
}

// sub is the bytes lo to hi of x.
func (x *Str) sub(lo, hi int) *Str {
	if lo == 0 && hi == len(x.s) {
		return x
	}
	if lo >= hi {
		return emptyStr
	}
	if x.from != fromBoth {
		return &Str{s: x.s[lo:hi], from: x.from, safe: x.safe}
	}
	var w sbuf
	w.sub(x, lo, hi)
	r := w.done()
	r.safe = x.safe
	return r
}

// runs calls f for each stretch of one origin, in order.
func (x *Str) runs(f func(part string, data bool)) {
	if x.from != fromBoth {
		f(x.s, x.from == fromData)
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

// mapRuns applies f, which must treat each character alone, to every stretch.
func (x *Str) mapRuns(f func(string) string) *Str {
	if x.from != fromBoth {
		return &Str{s: f(x.s), from: x.from}
	}
	var w sbuf
	x.runs(func(part string, data bool) { w.put(f(part), data) })
	return w.done()
}

// isData reports whether the byte at i came from the request.
func (x *Str) isData(i int) bool {
	if x.from != fromBoth {
		return x.from == fromData
	}
	for _, m := range x.marks {
		if i < m.hi {
			return i >= m.lo
		}
	}
	return false
}

// count is the number of characters.
func (x *Str) count() int { return utf8.RuneCountInString(x.s) }

// byteAt is the offset of character i; i may be the number of characters.
func (x *Str) byteAt(i int) int {
	if len(x.s) == x.count() {
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
		out = append(out, x.sub(i, i+n))
		i += n
	}
	return out
}

// sbuf builds a string and keeps the provenance of what is put into it.
type sbuf struct {
	b     []byte
	marks []span
}

func (w *sbuf) put(s string, data bool) {
	if s == "" {
		return
	}
	lo := len(w.b)
	w.b = append(w.b, s...)
	if data {
		w.mark(lo, len(w.b))
	}
}

func (w *sbuf) text(s string) { w.b = append(w.b, s...) }

func (w *sbuf) mark(lo, hi int) {
	if n := len(w.marks); n > 0 && w.marks[n-1].hi == lo {
		w.marks[n-1].hi = hi
		return
	}
	w.marks = append(w.marks, span{lo, hi})
}

func (w *sbuf) str(x *Str) {
	switch x.from {
	case fromTemplate:
		w.b = append(w.b, x.s...)
	case fromData:
		w.put(x.s, true)
	default:
		at := len(w.b)
		w.b = append(w.b, x.s...)
		for _, m := range x.marks {
			w.mark(at+m.lo, at+m.hi)
		}
	}
}

func (w *sbuf) sub(x *Str, lo, hi int) {
	if lo >= hi {
		return
	}
	if x.from != fromBoth {
		w.put(x.s[lo:hi], x.from == fromData)
		return
	}
	at := len(w.b) - lo
	w.b = append(w.b, x.s[lo:hi]...)
	for _, m := range x.marks {
		if a, b := max(m.lo, lo), min(m.hi, hi); a < b {
			w.mark(at+a, at+b)
		}
	}
}

func (w *sbuf) done() *Str {
	if len(w.b) == 0 {
		return emptyStr
	}
	r := &Str{s: string(w.b)}
	switch {
	case len(w.marks) == 0:
	case len(w.marks) == 1 && w.marks[0] == span{0, len(w.b)}:
		r.from = fromData
	default:
		r.from, r.marks = fromBoth, w.marks
	}
	return r
}

// copied is done for a buffer that is used again.
func (w *sbuf) copied() *Str {
	r := w.done()
	r.marks = slices.Clone(r.marks)
	return r
}

// join2 is a + b.
func join2(a, b *Str) *Str {
	switch {
	case a.s == "" && !a.safe:
		return b
	case b.s == "" && !b.safe:
		return a
	case a.from != fromBoth && a.from == b.from:
		return &Str{s: a.s + b.s, from: a.from}
	}
	w := sbuf{b: make([]byte, 0, len(a.s)+len(b.s))}
	w.str(a)
	w.str(b)
	return w.done()
}

// repeat is x * n; the caller has charged the length.
func (x *Str) repeat(n int) *Str {
	if n <= 0 || x.s == "" {
		return emptyStr
	}
	if x.from != fromBoth {
		return &Str{s: strings.Repeat(x.s, n), from: x.from, safe: x.safe}
	}
	var w sbuf
	for range n {
		w.str(x)
	}
	return w.done()
}
