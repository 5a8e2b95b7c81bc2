// Package params reads the JSON of configuration and parameters one value at a
// time, without reflection: a guest that imports encoding/json is half as
// large again and starts more slowly.
//
//	r := params.Read(raw)
//	for key := range r.Object() {
//		switch key {
//		case "n":
//			n = r.Uint()
//		default:
//			r.Fail("unknown parameter: " + key)
//		}
//	}
//	if err := r.Close(); err != nil {
//		return nil, err
//	}
//
// A Reader keeps its first error. After it every call does nothing and returns
// a zero value, so it is enough to check the error of Close at the end.
package params

import (
	"errors"
	"iter"
	"math"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// Depth is the deepest allowed nesting of objects and arrays.
const Depth = 64

// Reader reads one JSON value from its beginning to its end.
type Reader struct {
	b     []byte
	at    int
	depth int
	key   string // name of the member that is being read, "" outside objects
	err   error
}

// Read returns a Reader of b. b must not change while it is in use.
func Read(b []byte) *Reader { return &Reader{b: b} }

// Fail records an error, unless there is one already.
func (r *Reader) Fail(why string) {
	if r.err == nil {
		r.err = errors.New(why)
	}
	r.at = len(r.b)
}

// want records that a value is not what is wanted. The error names the member.
func (r *Reader) want(what string) {
	if r.key != "" {
		what = "want " + what + " for " + r.key
	} else {
		what = "want " + what
	}
	r.Fail(what)
}

// Err returns the first error.
func (r *Reader) Err() error { return r.err }

// Close returns the first error. Anything after the value is an error too.
func (r *Reader) Close() error {
	if r.space(); r.err == nil && r.at < len(r.b) {
		r.Fail("something follows the JSON value")
	}
	return r.err
}

func (r *Reader) space() {
	for r.at < len(r.b) && (r.b[r.at] == ' ' || r.b[r.at] == '\n' || r.b[r.at] == '\t' || r.b[r.at] == '\r') {
		r.at++
	}
}

// Peek returns the first byte of the next value without reading it: '0' for any
// number, 0 at the end of the input or after an error.
func (r *Reader) Peek() byte {
	r.space()
	if r.at >= len(r.b) {
		return 0
	}
	switch c := r.b[r.at]; {
	case c == '-' || '0' <= c && c <= '9':
		return '0'
	case c == '{' || c == '[' || c == '"' || c == 't' || c == 'f' || c == 'n':
		return c
	}
	return 0
}

// take skips c if it is the next byte.
func (r *Reader) take(c byte) bool {
	r.space()
	if r.at >= len(r.b) || r.b[r.at] != c {
		return false
	}
	r.at++
	return true
}

// Object ranges over the names of an object. The loop body must read or Skip each value.
func (r *Reader) Object() iter.Seq[string] {
	return func(yield func(string) bool) {
		outer := r.key
		r.list('{', '}', "a JSON object", func() bool {
			r.key = ""
			key := r.String()
			r.key = key
			if r.err == nil && !r.take(':') {
				r.Fail("want a colon in JSON")
			}
			return r.err == nil && yield(key)
		})
		r.key = outer
	}
}

// Array ranges over the indexes of an array. The loop body must read or Skip each value.
func (r *Reader) Array() iter.Seq[int] {
	return func(yield func(int) bool) {
		i := -1
		r.list('[', ']', "a JSON array", func() bool {
			i++
			return yield(i)
		})
	}
}

func (r *Reader) list(open, shut byte, want string, each func() bool) {
	if !r.take(open) {
		r.want(want)
		return
	}
	if r.depth++; r.depth > Depth {
		r.Fail("JSON is nested deeper than 64")
		return
	}
	for first := true; r.err == nil; first = false {
		if r.take(shut) {
			r.depth--
			return
		}
		if r.at >= len(r.b) {
			r.Fail("JSON ends too early")
			return
		}
		if !first && !r.take(',') {
			r.Fail("want a comma in JSON")
			return
		}
		if !each() {
			return
		}
	}
}

// String reads a string.
func (r *Reader) String() string {
	if r.Peek() != '"' {
		r.want("a JSON string")
		return ""
	}
	var s []byte // what came before the last escape
	for r.at++; ; {
		run := r.at
		r.plain()
		if r.at >= len(r.b) {
			r.Fail("a JSON string has no end")
			return ""
		}
		c := r.b[r.at]
		part := r.b[run:r.at]
		r.at++
		switch {
		case c == '"' && s == nil:
			return string(part)
		case c == '"':
			return string(append(s, part...))
		case c != '\\':
			r.Fail("a control character in a JSON string")
			return ""
		}
		v, ok := r.escape()
		if !ok {
			return ""
		}
		s = utf8.AppendRune(append(s, part...), v)
	}
}

// plain skips characters that are not escaped.
func (r *Reader) plain() {
	b, i := r.b, r.at // locals, because this loop takes most of the time
	for i < len(b) && b[i] != '"' && b[i] != '\\' && b[i] >= 32 {
		i++
	}
	r.at = i
}

// escape reads an escape after its backslash.
func (r *Reader) escape() (rune, bool) {
	if r.at >= len(r.b) {
		r.Fail("a JSON string has no end")
		return 0, false
	}
	c := r.b[r.at]
	r.at++
	switch c {
	case '"', '\\', '/':
		return rune(c), true
	case 'b':
		return '\b', true
	case 'f':
		return '\f', true
	case 'n':
		return '\n', true
	case 'r':
		return '\r', true
	case 't':
		return '\t', true
	case 'u':
		if v, ok := r.hex(); ok {
			return r.pair(v), true
		}
	}
	r.Fail("a bad escape in a JSON string")
	return 0, false
}

func (r *Reader) hex() (rune, bool) {
	if len(r.b)-r.at < 4 {
		return 0, false
	}
	v, err := strconv.ParseUint(string(r.b[r.at:r.at+4]), 16, 16)
	r.at += 4
	return rune(v), err == nil
}

// pair joins the halves of a surrogate pair. A half without the other becomes U+FFFD.
func (r *Reader) pair(v rune) rune {
	if !utf16.IsSurrogate(v) {
		return v
	}
	back := r.at
	if len(r.b)-r.at >= 6 && r.b[r.at] == '\\' && r.b[r.at+1] == 'u' {
		r.at += 2
		if low, ok := r.hex(); ok {
			if joined := utf16.DecodeRune(v, low); joined != utf8.RuneError {
				return joined
			}
		}
	}
	r.at = back
	return utf8.RuneError
}

// Float reads a number. A number too large for a float64 becomes an infinity.
func (r *Reader) Float() float64 {
	if r.Peek() != '0' {
		r.want("a JSON number")
		return 0
	}
	start := r.at
	if r.b[r.at] == '-' {
		r.at++
	}
	whole := r.digits()
	bad := whole == 0 || whole > 1 && r.b[r.at-whole] == '0'
	if r.at < len(r.b) && r.b[r.at] == '.' {
		r.at++
		bad = r.digits() == 0 || bad
	}
	if r.at < len(r.b) && r.b[r.at]|0x20 == 'e' {
		r.at++
		if r.at < len(r.b) && (r.b[r.at] == '+' || r.b[r.at] == '-') {
			r.at++
		}
		bad = r.digits() == 0 || bad
	}
	if bad {
		r.Fail("a bad JSON number")
		return 0
	}
	v, _ := strconv.ParseFloat(string(r.b[start:r.at]), 64) // the only possible error is the range
	return v
}

func (r *Reader) digits() (n int) {
	for r.at < len(r.b) && '0' <= r.b[r.at] && r.b[r.at] <= '9' {
		r.at++
		n++
	}
	return n
}

// Uint reads a whole number from 0 to 4294967295.
func (r *Reader) Uint() uint32 {
	v := r.Float()
	if r.err == nil && (v < 0 || v > math.MaxUint32 || v != math.Trunc(v)) {
		r.want("a whole number from 0 to 4294967295")
		return 0
	}
	return uint32(v)
}

// Bool reads true or false.
func (r *Reader) Bool() bool {
	switch c := r.Peek(); {
	case c == 't' && r.word("true"):
		return true
	case c == 'f' && r.word("false"):
	default:
		r.want("true or false in JSON")
	}
	return false
}

func (r *Reader) word(w string) bool {
	if len(r.b)-r.at < len(w) || string(r.b[r.at:r.at+len(w)]) != w {
		return false
	}
	r.at += len(w)
	return true
}

// Null reports whether the next value is null, and if so reads it.
func (r *Reader) Null() bool { return r.Peek() == 'n' && r.word("null") }

// Raw reads a value of any type and returns its JSON, which is a part of the
// slice given to Read; nil after an error.
func (r *Reader) Raw() []byte {
	r.space()
	start := r.at
	r.Skip()
	if r.err != nil {
		return nil
	}
	return r.b[start:r.at:r.at]
}

// Skip skips a value of any type.
func (r *Reader) Skip() {
	switch r.Peek() {
	case '{':
		for range r.Object() {
			r.Skip()
		}
	case '[':
		for range r.Array() {
			r.Skip()
		}
	case '"':
		r.skipString()
	case '0':
		r.Float()
	case 'n':
		if !r.word("null") {
			r.Fail("want null in JSON")
		}
	default:
		r.Bool()
	}
}

// skipString skips a string. A string without escapes is not copied.
func (r *Reader) skipString() {
	start := r.at
	r.at++
	if r.plain(); r.at < len(r.b) && r.b[r.at] == '"' {
		r.at++
		return
	}
	r.at = start
	_ = r.String()
}
