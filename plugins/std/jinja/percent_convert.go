package jinja

import (
	"math"
	"math/big"
	"strconv"
	"strings"
	"unicode/utf8"
)

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
