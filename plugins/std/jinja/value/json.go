package value

import (
	"fmt"
	"math/big"
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"tgi/plugins/std/jinja/chars"
)

// decoder reads JSON into values. Like Python's json it keeps the order of keys and
// distinguishes ints from floats. It allocates from slabs, because a conversation
// is hundreds of small objects with the same lifetime.
type decoder struct {
	src     string // UTF-8
	pos     int
	from    Origin
	strs    []Str // slabs
	dicts   []Dict
	rooms   []Entry
	entries []Entry // of the objects that are being read, the outermost first
	items   []Value // of the arrays that are being read
}

// DecodeObject reads a JSON object. Strings get the origin that from returns for
// the top-level name that they are under.
func DecodeObject(src []byte, from func(name string) Origin) (*Dict, error) {
	d := &decoder{src: string(src)}
	if !utf8.ValidString(d.src) {
		d.src = strings.ToValidUTF8(d.src, "\uFFFD")
	}
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
	for d.pos < len(d.src) {
		if c := d.src[d.pos]; c > ' ' || c != ' ' && c != '\n' && c != '\t' && c != '\r' {
			return
		}
		d.pos++
	}
}

// newStr makes a string of what is read now.
func (d *decoder) newStr(s string) *Str {
	if len(d.strs) == 0 {
		d.strs = make([]Str, 64)
	}
	x := &d.strs[0]
	d.strs = d.strs[1:]
	x.s, x.from = s, d.from
	return x
}

// take skips white space and then one byte if it is c.
func (d *decoder) take(c byte) bool {
	d.space()
	if d.pos < len(d.src) && d.src[d.pos] == c {
		d.pos++
		return true
	}
	return false
}

// newDict is newDict from the slabs.
func (d *decoder) newDict(entries []Entry) *Dict {
	n := len(entries)
	if len(d.dicts) == 0 {
		d.dicts = make([]Dict, 32)
	}
	if len(d.rooms) < n {
		d.rooms = make([]Entry, max(n, 64))
	}
	out := &d.dicts[0]
	out.entries = d.rooms[:0:n]
	d.dicts, d.rooms = d.dicts[1:], d.rooms[n:]
	out.Fill(entries)
	return out
}

func (d *decoder) object(depth int, from func(string) Origin) (*Dict, error) {
	if depth > MaxDepth {
		return nil, d.fail("nested too deep")
	}
	if !d.take('{') {
		return nil, d.fail("expected {")
	}
	if d.take('}') {
		return &Dict{}, nil
	}
	base := len(d.entries)
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
			key = Text(key.s)
		}
		v, err := d.value(depth + 1)
		if err != nil {
			return nil, err
		}
		d.entries = append(d.entries, Entry{key, v})
		if d.take('}') {
			out := d.newDict(d.entries[base:])
			d.entries = d.entries[:base]
			return out, nil
		}
		if !d.take(',') {
			return nil, d.fail("expected , or }")
		}
	}
}

func (d *decoder) array(depth int) (Value, error) {
	if depth > MaxDepth {
		return nil, d.fail("nested too deep")
	}
	d.take('[')
	if d.take(']') {
		return &List{}, nil
	}
	base := len(d.items)
	for {
		v, err := d.value(depth + 1)
		if err != nil {
			return nil, err
		}
		d.items = append(d.items, v)
		if d.take(']') {
			out := &List{slices.Clone(d.items[base:])}
			d.items = d.items[:base]
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
	switch d.src[d.pos] {
	case '{':
		return d.object(depth, nil)
	case '[':
		return d.array(depth)
	case '"':
		return d.str()
	case 't':
		return d.word("true", Bool(true))
	case 'f':
		return d.word("false", Bool(false))
	case 'n':
		return d.word("null", None)
	}
	return d.number()
}

func (d *decoder) word(w string, v Value) (Value, error) {
	if !strings.HasPrefix(d.src[d.pos:], w) {
		return nil, d.fail("unknown word")
	}
	d.pos += len(w)
	return v, nil
}

func (d *decoder) number() (Value, error) {
	start := d.pos
	digits := func() int {
		n := d.pos
		for d.pos < len(d.src) && chars.IsASCIIDigit(d.src[d.pos]) {
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
	return NewInt(n), nil
}

func (d *decoder) str() (*Str, error) {
	if d.pos >= len(d.src) || d.src[d.pos] != '"' {
		return nil, d.fail("expected a string")
	}
	d.pos++
	var b []byte
	end := -1 // of the first quote that is not behind pos
	for {     // a stretch without escapes at a time: IndexByte is much faster than a loop
		if end < d.pos {
			n := strings.IndexByte(d.src[d.pos:], '"')
			if n < 0 {
				d.pos = len(d.src)
				return nil, d.fail("unterminated string")
			}
			end = d.pos + n
		}
		rest := d.src[d.pos:end]
		back := strings.IndexByte(rest, '\\')
		if back < 0 {
			d.pos = end + 1
			if b == nil {
				return d.newStr(rest), nil
			}
			return d.newStr(string(append(b, rest...))), nil
		}
		b = append(b, rest[:back]...)
		d.pos += back + 1
		r, err := d.escape()
		if err != nil {
			return nil, err
		}
		b = utf8.AppendRune(b, r)
	}
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
	n, ok := chars.ParseHex(d.src[d.pos:], 4)
	if !ok {
		return 0, d.fail("bad \\u escape")
	}
	d.pos += 4
	r := rune(n)
	if utf16.IsSurrogate(r) && strings.HasPrefix(d.src[d.pos:], `\u`) {
		if low, ok := chars.ParseHex(d.src[d.pos+2:], 4); ok {
			if both := utf16.DecodeRune(r, rune(low)); both != utf8.RuneError {
				d.pos += 6
				return both, nil
			}
		}
	}
	return r, nil // appending half a surrogate pair writes U+FFFD
}
