package jinja

import (
	"math"
	"strings"
	"unicode/utf8"
)

// percentSpec is one conversion of a printf-style format.
type percentSpec struct {
	key                           *Str
	minus, plus, space, alt, zero bool
	width, prec                   int64 // prec -1: none
	verb                          rune
	verbAt                        int
}

// percent is Python's format % v.
func (st *state) percent(f *Str, v Value) (Value, error) {
	p := &percentArgs{st: st, f: f, one: v}
	if t, ok := v.(*Tuple); ok {
		p.tuple, p.one = t.items, nil
	}
	p.dict, _ = v.(*Dict)
	var w sbuf
	for i := 0; i < len(f.s); {
		n := strings.IndexByte(f.s[i:], '%')
		if n < 0 {
			w.sub(f, i, len(f.s))
			break
		}
		w.sub(f, i, i+n)
		at := i + n + 1
		p.pos = at
		spec, err := p.spec()
		if err != nil {
			return nil, err
		}
		i = p.pos
		if spec.verb == '%' && spec.verbAt == at {
			w.put("%", f.isData(spec.verbAt))
			continue
		}
		out, err := p.convert(spec)
		if err != nil {
			return nil, err
		}
		if out, err = st.justify(out, spec); err != nil {
			return nil, err
		}
		w.str(out)
	}
	if err := st.grow(int64(len(w.b))); err != nil {
		return nil, err
	}
	if !p.used && p.one != nil && !isMapping(v) {
		return nil, typeError("not all arguments converted during string formatting")
	}
	if p.tuple != nil && p.next < len(p.tuple) {
		return nil, typeError("not all arguments converted during string formatting")
	}
	out := w.done()
	if f.safe {
		out = out.markup()
	}
	return out, nil
}

// isMapping is PyMapping_Check for what % may take: whatever has [] but strings and tuples.
func isMapping(v Value) bool {
	switch v.(type) {
	case *Dict, *List, *rangeObj, *Undefined:
		return true
	}
	return false
}

// notMapping is the error of a %(key) that v cannot answer.
func notMapping(v Value) error {
	switch x := v.(type) {
	case *List, *rangeObj:
		return typeError("%s indices must be integers or slices, not str", v.pyType())
	case *Undefined:
		return x.err()
	}
	return typeError("format requires a mapping")
}

func isUndefined(v Value) bool { _, ok := v.(*Undefined); return ok }

// percentArgs hands out the arguments of a format.
type percentArgs struct {
	st    *state
	f     *Str
	pos   int
	one   Value
	used  bool
	tuple []Value
	next  int
	dict  *Dict
}

func (p *percentArgs) arg() (Value, error) {
	if p.one != nil {
		if p.used {
			return nil, typeError("not enough arguments for format string")
		}
		p.used = true
		return p.one, nil
	}
	if p.next >= len(p.tuple) {
		return nil, typeError("not enough arguments for format string")
	}
	p.next++
	return p.tuple[p.next-1], nil
}

func (p *percentArgs) peek() byte {
	if p.pos < len(p.f.s) {
		return p.f.s[p.pos]
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
		for p.pos++; p.pos < len(p.f.s) && open > 0; p.pos++ {
			switch p.f.s[p.pos] {
			case '(':
				open++
			case ')':
				open--
			}
		}
		if open > 0 {
			return nil, valueError("incomplete format key")
		}
		s.key = p.f.sub(start, p.pos-1)
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
	if p.pos >= len(p.f.s) {
		return nil, valueError("incomplete format")
	}
	r, n := utf8.DecodeRuneInString(p.f.s[p.pos:])
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
		n, ok := smallInt(v)
		if _, isBig := v.(*bigInt); isBig {
			return 0, raise("OverflowError", "Python int too large to convert to C ssize_t")
		}
		if !ok {
			return 0, typeError("* wants int")
		}
		return max(min(n, 1<<32), -1<<32), nil
	}
	n := int64(0)
	for isDigit(p.peek()) {
		if n = n*10 + int64(p.peek()-'0'); n > 1<<32 {
			return 0, p.st.grow(-1)
		}
		p.pos++
	}
	return n, nil
}

func (p *percentArgs) convert(s *percentSpec) (*Str, error) {
	var v Value
	var err error
	if s.key != nil {
		var ok bool
		if v, ok, err = p.dict.get(s.key); err == nil && !ok {
			err = raise("KeyError", "%s", reprText(s.key))
		}
		p.used = true
	} else {
		v, err = p.arg()
	}
	if err != nil {
		return nil, err
	}
	if !strings.ContainsRune("sradiuoxXeEfFgGc", s.verb) {
		return nil, valueError("unsupported format character '%c' (0x%x) at index %d", s.verb, s.verb, utf8.RuneCountInString(p.f.s[:s.verbAt]))
	}
	if s.prec > 1<<20 {
		return nil, p.st.grow(-1)
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
		return text(s.sign(f < 0 || math.Signbit(f) && !math.IsNaN(f)) + formatFloat(math.Abs(f), byte(s.verb), int(prec), s.alt)), nil
	}
	return p.st.percentInt(s, v)
}
