package wire

import (
	"math"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// kind of a scalar value.
type kind uint8

const (
	null kind = iota
	boolean
	text
	natural  // an integer of 0 to 2^64-1
	negative // an integer of -2^63 to -1
	float    // any other number
)

// value is a scalar as it was read; the field of its kind is set.
type value struct {
	kind kind
	b    bool
	s    string
	u    uint64
	i    int64
	f    float64
}

// describe names the value as serde does in "invalid type".
func (v value) describe() string {
	switch v.kind {
	case boolean:
		return "boolean `" + strconv.FormatBool(v.b) + "`"
	case text:
		return "string " + quote(v.s)
	case natural:
		return "integer `" + strconv.FormatUint(v.u, 10) + "`"
	case negative:
		return "integer `" + strconv.FormatInt(v.i, 10) + "`"
	case float:
		return "floating point `" + string(appendFloat(nil, v.f, 64)) + "`"
	}
	return "null"
}

// scalar reads a value that is no array and no object.
func (r *Reader) scalar() (value, error) {
	c, ok := r.peek()
	switch {
	case !ok:
		return value{}, r.syntax("EOF while parsing a value")
	case c == 'n':
		return value{}, r.word("null")
	case c == 't':
		return value{kind: boolean, b: true}, r.word("true")
	case c == 'f':
		return value{kind: boolean}, r.word("false")
	case c == '"':
		s, err := r.text()
		return value{kind: text, s: s}, err
	case c == '-' || '0' <= c && c <= '9':
		return r.number()
	}
	return value{}, r.syntaxNext("expected value")
}

func (r *Reader) word(w string) error {
	for i := range len(w) {
		if r.at == len(r.buf) {
			return r.syntax("EOF while parsing a value")
		}
		if r.buf[r.at] != w[i] {
			return r.syntaxNext("expected ident")
		}
		r.at++
	}
	return nil
}

// number reads a number by JSON's grammar. Integers that fit 64 bits stay
// exact, others become floats; a float past the range is an error.
func (r *Reader) number() (value, error) {
	start, whole := r.at, true
	if r.buf[r.at] == '-' {
		r.at++
	}
	switch n := r.digits(); {
	case n == 0:
		return value{}, r.badNumber()
	case n > 1 && r.buf[r.at-n] == '0':
		r.at -= n - 1
		return value{}, r.syntaxNext("invalid number")
	}
	if r.at < len(r.buf) && r.buf[r.at] == '.' {
		whole = false
		r.at++
		if r.digits() == 0 {
			return value{}, r.badNumber()
		}
	}
	if r.at < len(r.buf) && r.buf[r.at]|0x20 == 'e' {
		whole = false
		r.at++
		if r.at < len(r.buf) && (r.buf[r.at] == '+' || r.buf[r.at] == '-') {
			r.at++
		}
		if r.digits() == 0 {
			return value{}, r.badNumber()
		}
	}
	s := string(r.buf[start:r.at])
	if whole {
		if u, err := strconv.ParseUint(s, 10, 64); err == nil {
			return value{kind: natural, u: u}, nil
		}
		if i, err := strconv.ParseInt(s, 10, 64); err == nil && i < 0 {
			return value{kind: negative, i: i}, nil
		}
	}
	f, err := strconv.ParseFloat(s, 64)
	if err != nil || math.IsInf(f, 0) {
		return value{}, r.syntax("number out of range")
	}
	return value{kind: float, f: f}, nil
}

func (r *Reader) badNumber() error {
	if r.at == len(r.buf) {
		return r.syntax("EOF while parsing a value")
	}
	return r.syntaxNext("invalid number")
}

// digits passes decimal digits and counts them.
func (r *Reader) digits() int {
	start := r.at
	for r.at < len(r.buf) && '0' <= r.buf[r.at] && r.buf[r.at] <= '9' {
		r.at++
	}
	return r.at - start
}

// text reads the string at the cursor.
func (r *Reader) text() (string, error) { return r.quoted(true) }

// quoted is text, which is only kept where it is wanted: what is skipped can be long.
func (r *Reader) quoted(keep bool) (string, error) {
	r.at++
	start := r.at
	var out []byte // set once an escape was met
	for r.at < len(r.buf) {
		switch c := r.buf[r.at]; {
		case c == '"':
			chunk := r.buf[start:r.at]
			if !utf8.Valid(chunk) {
				return "", r.syntax("invalid unicode code point")
			}
			r.at++
			switch {
			case !keep:
				return "", nil
			case out == nil:
				return string(chunk), nil
			}
			return string(append(out, chunk...)), nil
		case c == '\\':
			chunk := r.buf[start:r.at]
			if !utf8.Valid(chunk) {
				return "", r.syntax("invalid unicode code point")
			}
			r.at++
			ch, err := r.escape()
			if err != nil {
				return "", err
			}
			if keep {
				out = utf8.AppendRune(append(out, chunk...), ch)
			}
			start = r.at
		case c < 0x20:
			return "", r.syntaxNext("control character (\\u0000-\\u001F) found while parsing a string")
		default:
			r.at++
		}
	}
	return "", r.syntax("EOF while parsing a string")
}

// escape reads what follows a backslash.
func (r *Reader) escape() (rune, error) {
	if r.at == len(r.buf) {
		return 0, r.syntax("EOF while parsing a string")
	}
	c := r.buf[r.at]
	r.at++
	switch c {
	case '"', '\\', '/':
		return rune(c), nil
	case 'b':
		return '\b', nil
	case 'f':
		return '\f', nil
	case 'n':
		return '\n', nil
	case 'r':
		return '\r', nil
	case 't':
		return '\t', nil
	case 'u':
		return r.hexEscape()
	}
	return 0, r.syntax("invalid escape")
}

// hexEscape reads the digits after \u, and the second half of a pair.
func (r *Reader) hexEscape() (rune, error) {
	hi, err := r.hex4()
	if err != nil || !utf16.IsSurrogate(hi) {
		return hi, err
	}
	if hi >= 0xDC00 {
		return 0, r.syntax("lone leading surrogate in hex escape")
	}
	if r.at+2 > len(r.buf) {
		r.at = len(r.buf)
		return 0, r.syntax("EOF while parsing a string")
	}
	if r.buf[r.at] != '\\' || r.buf[r.at+1] != 'u' {
		return 0, r.syntaxNext("unexpected end of hex escape")
	}
	r.at += 2
	lo, err := r.hex4()
	if err != nil {
		return 0, err
	}
	if lo < 0xDC00 || lo > 0xDFFF {
		return 0, r.syntax("lone leading surrogate in hex escape")
	}
	return utf16.DecodeRune(hi, lo), nil
}

func (r *Reader) hex4() (rune, error) {
	if r.at+4 > len(r.buf) {
		r.at = len(r.buf)
		return 0, r.syntax("EOF while parsing a string")
	}
	n, err := strconv.ParseUint(string(r.buf[r.at:r.at+4]), 16, 16)
	r.at += 4
	if err != nil {
		return 0, r.syntax("invalid escape")
	}
	return rune(n), nil
}
