package jinja

import (
	"fmt"
	"math/big"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// decoder reads JSON into values, keeping the order of keys and telling ints
// from floats as Python's json does.
type decoder struct {
	src  string
	pos  int
	from origin
}

// decodeObject reads a JSON object. Strings get the origin that from gives for
// their top-level name.
func decodeObject(src []byte, from func(name string) origin) (*Dict, error) {
	d := &decoder{src: string(src)}
	v, err := d.object(0, from)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrInput, err)
	}
	if d.space(); d.pos < len(d.src) {
		return nil, fmt.Errorf("%w: %w", ErrInput, d.fail("text after the object"))
	}
	return v, nil
}

func (d *decoder) fail(what string) error { return fmt.Errorf("JSON at byte %d: %s", d.pos, what) }

func (d *decoder) space() {
	for d.pos < len(d.src) && strings.IndexByte(" \t\r\n", d.src[d.pos]) >= 0 {
		d.pos++
	}
}

// take skips white space and one byte, if it is c.
func (d *decoder) take(c byte) bool {
	d.space()
	if d.pos < len(d.src) && d.src[d.pos] == c {
		d.pos++
		return true
	}
	return false
}

func (d *decoder) object(depth int, from func(string) origin) (*Dict, error) {
	if depth > maxDepth {
		return nil, d.fail("nested too deep")
	}
	if !d.take('{') {
		return nil, d.fail("expected {")
	}
	out := &Dict{}
	if d.take('}') {
		return out, nil
	}
	for {
		d.space()
		key, err := d.str()
		if err != nil {
			return nil, err
		}
		if !d.take(':') {
			return nil, d.fail("expected :")
		}
		if from != nil {
			d.from = from(key.s)
			key = text(key.s)
		}
		v, err := d.value(depth + 1)
		if err != nil {
			return nil, err
		}
		if err := out.set(key, v); err != nil {
			return nil, err
		}
		if d.take('}') {
			return out, nil
		}
		if !d.take(',') {
			return nil, d.fail("expected , or }")
		}
	}
}

func (d *decoder) array(depth int) (Value, error) {
	if depth > maxDepth {
		return nil, d.fail("nested too deep")
	}
	d.take('[')
	out := &List{}
	if d.take(']') {
		return out, nil
	}
	for {
		v, err := d.value(depth + 1)
		if err != nil {
			return nil, err
		}
		out.items = append(out.items, v)
		if d.take(']') {
			return out, nil
		}
		if !d.take(',') {
			return nil, d.fail("expected , or ]")
		}
	}
}

func (d *decoder) value(depth int) (Value, error) {
	d.space()
	if d.pos >= len(d.src) {
		return nil, d.fail("unexpected end")
	}
	switch c := d.src[d.pos]; c {
	case '{':
		return d.object(depth, nil)
	case '[':
		return d.array(depth)
	case '"':
		return d.str()
	case 't', 'f', 'n':
		for word, v := range map[string]Value{"true": Bool(true), "false": Bool(false), "null": none} {
			if strings.HasPrefix(d.src[d.pos:], word) {
				d.pos += len(word)
				return v, nil
			}
		}
		return nil, d.fail("unknown word")
	}
	return d.number()
}

func (d *decoder) number() (Value, error) {
	start := d.pos
	digits := func() int {
		n := d.pos
		for d.pos < len(d.src) && isDigit(d.src[d.pos]) {
			d.pos++
		}
		return d.pos - n
	}
	if d.pos < len(d.src) && d.src[d.pos] == '-' {
		d.pos++
	}
	whole := d.pos
	if n := digits(); n == 0 || n > 1 && d.src[whole] == '0' {
		return nil, d.fail("unexpected character or leading zero")
	}
	isFloat := false
	if d.pos < len(d.src) && d.src[d.pos] == '.' {
		isFloat = true
		d.pos++
		if digits() == 0 {
			return nil, d.fail("expected a digit")
		}
	}
	if d.pos < len(d.src) && d.src[d.pos]|0x20 == 'e' {
		isFloat = true
		d.pos++
		if d.pos < len(d.src) && (d.src[d.pos] == '-' || d.src[d.pos] == '+') {
			d.pos++
		}
		if digits() == 0 {
			return nil, d.fail("expected a digit")
		}
	}
	s := d.src[start:d.pos]
	if isFloat {
		f, _ := strconv.ParseFloat(s, 64) // out of range gives infinity, as in Python
		return Float(f), nil
	}
	if n, err := strconv.ParseInt(s, 10, 64); err == nil {
		return Int(n), nil
	}
	if len(s) > 4300 {
		return nil, d.fail("an int of more than 4300 digits")
	}
	n, _ := new(big.Int).SetString(s, 10)
	return normInt(n), nil
}

func (d *decoder) str() (*Str, error) {
	if d.pos >= len(d.src) || d.src[d.pos] != '"' {
		return nil, d.fail("expected a string")
	}
	d.pos++
	end := strings.IndexAny(d.src[d.pos:], "\"\\")
	if end >= 0 && d.src[d.pos+end] == '"' {
		s := d.src[d.pos : d.pos+end]
		d.pos += end + 1
		return &Str{s: strings.ToValidUTF8(s, "\uFFFD"), from: d.from}, nil
	}
	var b []byte
	for d.pos < len(d.src) {
		c := d.src[d.pos]
		d.pos++
		switch c {
		case '"':
			return &Str{s: strings.ToValidUTF8(string(b), "\uFFFD"), from: d.from}, nil
		case '\\':
			r, err := d.escape()
			if err != nil {
				return nil, err
			}
			b = utf8.AppendRune(b, r)
		default:
			b = append(b, c)
		}
	}
	return nil, d.fail("unterminated string")
}

func (d *decoder) escape() (rune, error) {
	if d.pos >= len(d.src) {
		return 0, d.fail("unterminated string")
	}
	c := d.src[d.pos]
	d.pos++
	if i := strings.IndexByte(`"\/bfnrt`, c); i >= 0 {
		return rune("\"\\/\b\f\n\r\t"[i]), nil
	}
	if c != 'u' {
		return 0, d.fail("unknown escape")
	}
	n, ok := hexRune(d.src[d.pos:], 4)
	if !ok {
		return 0, d.fail("bad \\u escape")
	}
	d.pos += 4
	r := rune(n)
	if utf16.IsSurrogate(r) && strings.HasPrefix(d.src[d.pos:], `\u`) {
		if low, ok := hexRune(d.src[d.pos+2:], 4); ok {
			if both := utf16.DecodeRune(r, rune(low)); both != utf8.RuneError {
				d.pos += 6
				return both, nil
			}
		}
	}
	return r, nil // a lone surrogate becomes U+FFFD as it is appended
}
