package format

import (
	"math"
	"strings"
	"unicode/utf8"

	"tgi/plugins/std/jinja/chars"
	"tgi/plugins/std/jinja/value"
)

// percentSpec is one conversion of a printf-style format.
type percentSpec struct {
	key                           *value.Str
	minus, plus, space, alt, zero bool
	width, prec                   int64 // prec -1: none
	verb                          rune
	verbAt                        int
}

// percent is Python's format % v.
func Percent(th *value.Thread, f *value.Str, v value.Value) (value.Value, error) {
	p := &percentArgs{th: th, f: f, one: v}
	if t, ok := v.(*value.Tuple); ok {
		p.tuple, p.one = t.Items, nil
	}
	p.dict, _ = v.(*value.Dict)
	var w value.Buffer
	for i := 0; i < len(f.String()); {
		n := strings.IndexByte(f.String()[i:], '%')
		if n < 0 {
			w.Sub(f, i, len(f.String()))
			break
		}
		w.Sub(f, i, i+n)
		at := i + n + 1
		p.pos = at
		spec, err := p.spec()
		if err != nil {
			return nil, err
		}
		i = p.pos
		if spec.verb == '%' && spec.verbAt == at {
			w.Put("%", f.IsData(spec.verbAt))
			continue
		}
		out, err := p.convert(spec)
		if err != nil {
			return nil, err
		}
		if out, err = justify(th, out, spec); err != nil {
			return nil, err
		}
		w.Str(out)
	}
	if err := th.Grow(int64(len(w.Bytes))); err != nil {
		return nil, err
	}
	if !p.used && p.one != nil && !isMapping(v) {
		return nil, value.TypeError("not all arguments converted during string formatting")
	}
	if p.tuple != nil && p.next < len(p.tuple) {
		return nil, value.TypeError("not all arguments converted during string formatting")
	}
	out := w.Done()
	if f.Safe() {
		out = out.Markup()
	}
	return out, nil
}

// isMapping is PyMapping_Check for operands of %: everything that has [] except strings and tuples.
func isMapping(v value.Value) bool {
	switch v.(type) {
	case *value.Dict, *value.List, *value.Range, *value.Undefined:
		return true
	}
	return false
}

// notMapping is the error of a %(key) if v is not a mapping.
func notMapping(v value.Value) error {
	switch x := v.(type) {
	case *value.List, *value.Range:
		return value.TypeError("%s indices must be integers or slices, not str", v.Type())
	case *value.Undefined:
		return x.Err()
	}
	return value.TypeError("format requires a mapping")
}

func isUndefined(v value.Value) bool { _, ok := v.(*value.Undefined); return ok }

// percentArgs returns the arguments of a format in order.
type percentArgs struct {
	th    *value.Thread
	f     *value.Str
	pos   int
	one   value.Value
	used  bool
	tuple []value.Value
	next  int
	dict  *value.Dict
}

func (p *percentArgs) arg() (value.Value, error) {
	if p.one != nil {
		if p.used {
			return nil, value.TypeError("not enough arguments for format string")
		}
		p.used = true
		return p.one, nil
	}
	if p.next >= len(p.tuple) {
		return nil, value.TypeError("not enough arguments for format string")
	}
	p.next++
	return p.tuple[p.next-1], nil
}

func (p *percentArgs) peek() byte {
	if p.pos < len(p.f.String()) {
		return p.f.String()[p.pos]
	}
	return 0
}

func (p *percentArgs) spec() (*percentSpec, error) {
	s := &percentSpec{prec: -1}
	if p.peek() == '(' {
		if p.dict == nil {
			return nil, notMapping(p.one)
		}
		start, open := p.pos+1, 1
		for p.pos++; p.pos < len(p.f.String()) && open > 0; p.pos++ {
			switch p.f.String()[p.pos] {
			case '(':
				open++
			case ')':
				open--
			}
		}
		if open > 0 {
			return nil, value.ValueError("incomplete format key")
		}
		s.key = p.f.Sub(start, p.pos-1)
	}
	for flags := true; flags; {
		switch p.peek() {
		case '-':
			s.minus = true
		case '+':
			s.plus = true
		case ' ':
			s.space = true
		case '#':
			s.alt = true
		case '0':
			s.zero = true
		default:
			flags = false
			continue
		}
		p.pos++
	}
	var err error
	if s.width, err = p.number(); err != nil {
		return nil, err
	}
	if s.width < 0 {
		s.minus, s.width = true, -s.width
	}
	if p.peek() == '.' {
		p.pos++
		if s.prec, err = p.number(); err != nil {
			return nil, err
		}
		s.prec = max(s.prec, 0)
	}
	for strings.IndexByte("hlL", p.peek()) >= 0 && p.peek() != 0 {
		p.pos++
	}
	if p.pos >= len(p.f.String()) {
		return nil, value.ValueError("incomplete format")
	}
	r, n := utf8.DecodeRuneInString(p.f.String()[p.pos:])
	s.verb, s.verbAt = r, p.pos
	p.pos += n
	return s, nil
}

// number reads a width or precision, which may be an argument.
func (p *percentArgs) number() (int64, error) {
	if p.peek() == '*' {
		p.pos++
		v, err := p.arg()
		if err != nil {
			return 0, err
		}
		n, ok := value.AsInt64(v)
		if _, isBig := v.(*value.BigInt); isBig {
			return 0, value.Raise("OverflowError", "Python int too large to convert to C ssize_t")
		}
		if !ok {
			return 0, value.TypeError("* wants int")
		}
		return max(min(n, 1<<32), -1<<32), nil
	}
	n := int64(0)
	for chars.IsASCIIDigit(p.peek()) {
		if n = n*10 + int64(p.peek()-'0'); n > 1<<32 {
			return 0, p.th.Grow(-1)
		}
		p.pos++
	}
	return n, nil
}

func (p *percentArgs) convert(s *percentSpec) (*value.Str, error) {
	var v value.Value
	var err error
	if s.key != nil {
		var ok bool
		if v, ok, err = p.dict.Get(s.key); err == nil && !ok {
			err = value.Raise("KeyError", "%s", value.Repr(s.key))
		}
		p.used = true
	} else {
		v, err = p.arg()
	}
	if err != nil {
		return nil, err
	}
	if !strings.ContainsRune("sradiuoxXeEfFgGc", s.verb) {
		return nil, value.ValueError("unsupported format character '%c' (0x%x) at index %d", s.verb, s.verb,
			utf8.RuneCountInString(p.f.String()[:s.verbAt]))
	}
	if s.prec > 1<<20 {
		return nil, p.th.Grow(-1)
	}
	switch s.verb {
	case 's', 'r', 'a':
		return p.text(s, v)
	case 'c':
		return percentChar(v)
	case 'e', 'E', 'f', 'F', 'g', 'G':
		f, err := percentFloat(v)
		if err != nil {
			return nil, err
		}
		prec := s.prec
		if prec < 0 {
			prec = 6
		}
		return value.Text(s.sign(f < 0 || math.Signbit(f) && !math.IsNaN(f)) +
			Float(math.Abs(f), byte(s.verb), int(prec), s.alt)), nil
	}
	return percentInt(p.th, s, v)
}
