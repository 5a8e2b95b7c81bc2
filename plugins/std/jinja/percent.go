package jinja

import (
	"math"
	"math/big"
	"strconv"
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

func (p *percentArgs) text(s *percentSpec, v Value) (*Str, error) {
	w := &textWriter{st: p.st}
	write := w.repr
	if s.verb == 's' {
		write = w.str
	}
	if err := write(v); err != nil {
		return nil, err
	}
	out := w.done()
	if s.verb == 'a' {
		out = out.mapRuns(asciiEscape)
	}
	if s.verb == 's' && p.f.safe {
		var err error
		if out, err = p.st.htmlEscape(out); err != nil {
			return nil, err
		}
	}
	if s.prec >= 0 && int64(out.count()) > s.prec {
		out = out.sub(0, out.byteAt(int(s.prec)))
	}
	return out, nil
}

func asciiEscape(s string) string {
	var b strings.Builder
	for _, r := range s {
		if r < utf8.RuneSelf {
			b.WriteRune(r)
		} else {
			b.WriteString(escapedRune(r))
		}
	}
	return b.String()
}

func (s *percentSpec) sign(neg bool) string {
	switch {
	case neg:
		return "-"
	case s.plus:
		return "+"
	case s.space:
		return " "
	}
	return ""
}

func percentChar(v Value) (*Str, error) {
	if s, ok := v.(*Str); ok {
		if s.count() != 1 {
			return nil, typeError("%s", "%c requires int or char")
		}
		return s, nil
	}
	n, ok := smallInt(v)
	if !ok {
		return nil, typeError("%s", "%c requires int or char")
	}
	if n < 0 || n > 0x10ffff {
		return nil, raise("OverflowError", "%s", "%c arg not in range(0x110000)")
	}
	return &Str{s: string(rune(n)), from: fromData}, nil // a number may come from the request
}

func percentFloat(v Value) (float64, error) {
	if isUndefined(v) {
		return 0, v.(*Undefined).err()
	}
	if !isNumber(v) {
		return 0, typeError("must be real number, not %s", className(v))
	}
	return asFloat(v)
}

func (st *state) percentInt(s *percentSpec, v Value) (*Str, error) {
	base := map[rune]int{'o': 8, 'x': 16, 'X': 16}[s.verb]
	if base == 0 {
		base = 10
	}
	n, ok := asInt(v)
	if f, isFloat := v.(Float); isFloat && base == 10 {
		whole, err := intOfFloat(float64(f))
		if err != nil {
			return nil, err
		}
		n, ok = asInt(whole)
	}
	if !ok {
		if u, undef := v.(*Undefined); undef && base == 10 {
			return nil, u.err()
		}
		if base == 10 {
			return nil, typeError("%%%c format: a real number is required, not %s", s.verb, className(v))
		}
		return nil, typeError("%%%c format: an integer is required, not %s", s.verb, className(v))
	}
	digits := new(big.Int).Abs(n).Text(base)
	if gap := s.prec - int64(len(digits)); gap > 0 {
		digits = strings.Repeat("0", int(gap)) + digits
	}
	if s.alt && base == 8 {
		digits = "0o" + digits
	} else if s.alt && base == 16 {
		digits = "0x" + digits
	}
	if s.verb == 'X' {
		digits = strings.ToUpper(digits)
	}
	return text(s.sign(n.Sign() < 0) + digits), nil
}

// justify fills a conversion up to its width.
func (st *state) justify(x *Str, s *percentSpec) (*Str, error) {
	gap := s.width - int64(x.count())
	if gap <= 0 {
		return x, nil
	}
	if err := st.grow(gap); err != nil {
		return nil, err
	}
	numeric := strings.ContainsRune("diuoxXeEfFgG", s.verb)
	switch {
	case s.minus:
		return join2(x, text(strings.Repeat(" ", int(gap)))), nil
	case s.zero && numeric:
		at := 0
		if x.s != "" && strings.IndexByte("+- ", x.s[0]) >= 0 {
			at = 1
		}
		if s.alt && len(x.s) > at+1 && x.s[at] == '0' && strings.IndexByte("xXo", x.s[at+1]) >= 0 {
			at += 2
		}
		return text(x.s[:at] + strings.Repeat("0", int(gap)) + x.s[at:]), nil
	}
	return join2(text(strings.Repeat(" ", int(gap))), x), nil
}

// formatFloat writes f >= 0 as C's printf does.
func formatFloat(f float64, verb byte, prec int, alt bool) string {
	upper := verb < 'a'
	var s string
	switch {
	case math.IsNaN(f):
		s = "nan"
	case math.IsInf(f, 0):
		s = "inf"
	case verb|0x20 == 'g':
		s = formatG(f, prec, alt)
	default:
		s = strconv.FormatFloat(f, verb|0x20, prec, 64)
		if alt && prec == 0 && verb|0x20 == 'f' {
			s += "."
		}
	}
	if upper {
		s = strings.ToUpper(s)
	}
	return s
}

// formatG is printf's %g: Go's 'g' switches to exponents at other places.
func formatG(f float64, prec int, alt bool) string {
	prec = max(prec, 1)
	e := strconv.FormatFloat(f, 'e', prec-1, 64)
	exp, _ := strconv.Atoi(e[strings.IndexByte(e, 'e')+1:])
	if exp < -4 || exp >= prec {
		if alt {
			return e
		}
		mant, rest, _ := strings.Cut(e, "e")
		if strings.Contains(mant, ".") {
			mant = strings.TrimRight(strings.TrimRight(mant, "0"), ".")
		}
		return mant + "e" + rest
	}
	s := strconv.FormatFloat(f, 'f', prec-1-exp, 64)
	if !alt && strings.Contains(s, ".") {
		s = strings.TrimRight(strings.TrimRight(s, "0"), ".")
	}
	return s
}
