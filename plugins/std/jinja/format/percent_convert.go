package format

import (
	"math"
	"math/big"
	"strconv"
	"strings"
	"unicode/utf8"

	"tgi/plugins/std/jinja/chars"
	"tgi/plugins/std/jinja/value"
)

func (p *percentArgs) text(s *percentSpec, v value.Value) (*value.Str, error) {
	w := &value.Writer{Thread: p.th}
	write := w.Repr
	if s.verb == 's' {
		write = w.Str
	}
	if err := write(v); err != nil {
		return nil, err
	}
	out := w.Done()
	if s.verb == 'a' {
		out = out.MapRuns(asciiEscape)
	}
	if s.verb == 's' && p.f.Safe() {
		var err error
		if out, err = p.th.EscapeHTML(out); err != nil {
			return nil, err
		}
	}
	if s.prec >= 0 && int64(out.Count()) > s.prec {
		out = out.Sub(0, out.ByteAt(int(s.prec)))
	}
	return out, nil
}

func asciiEscape(s string) string {
	var b strings.Builder
	for _, r := range s {
		if r < utf8.RuneSelf {
			b.WriteRune(r)
		} else {
			b.WriteString(chars.Escape(r))
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

func percentChar(v value.Value) (*value.Str, error) {
	if s, ok := v.(*value.Str); ok {
		if s.Count() != 1 {
			return nil, value.TypeError("%s", "%c requires int or char")
		}
		return s, nil
	}
	n, ok := value.AsInt64(v)
	if !ok {
		return nil, value.TypeError("%s", "%c requires int or char")
	}
	if n < 0 || n > 0x10ffff {
		return nil, value.Raise("OverflowError", "%s", "%c arg not in range(0x110000)")
	}
	return value.Data(string(rune(n))), nil // a number may come from the request
}

func percentFloat(v value.Value) (float64, error) {
	if isUndefined(v) {
		return 0, v.(*value.Undefined).Err()
	}
	if !value.IsNumber(v) {
		return 0, value.TypeError("must be real number, not %s", value.ClassName(v))
	}
	return value.AsFloat(v)
}

func percentInt(th *value.Thread, s *percentSpec, v value.Value) (*value.Str, error) {
	base := map[rune]int{'o': 8, 'x': 16, 'X': 16}[s.verb]
	if base == 0 {
		base = 10
	}
	n, ok := value.AsInt(v)
	if f, isFloat := v.(value.Float); isFloat && base == 10 {
		whole, err := value.TruncateFloat(float64(f))
		if err != nil {
			return nil, err
		}
		n, ok = value.AsInt(whole)
	}
	if !ok {
		if u, undef := v.(*value.Undefined); undef && base == 10 {
			return nil, u.Err()
		}
		if base == 10 {
			return nil, value.TypeError("%%%c format: a real number is required, not %s", s.verb, value.ClassName(v))
		}
		return nil, value.TypeError("%%%c format: an integer is required, not %s", s.verb, value.ClassName(v))
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
	return value.Text(s.sign(n.Sign() < 0) + digits), nil
}

// justify pads a conversion to its width.
func justify(th *value.Thread, x *value.Str, s *percentSpec) (*value.Str, error) {
	gap := s.width - int64(x.Count())
	if gap <= 0 {
		return x, nil
	}
	if err := th.Grow(gap); err != nil {
		return nil, err
	}
	numeric := strings.ContainsRune("diuoxXeEfFgG", s.verb)
	switch {
	case s.minus:
		return value.Concat(x, value.Text(strings.Repeat(" ", int(gap)))), nil
	case s.zero && numeric:
		at := 0
		if x.String() != "" && strings.IndexByte("+- ", x.String()[0]) >= 0 {
			at = 1
		}
		if s.alt && len(x.String()) > at+1 && x.String()[at] == '0' && strings.IndexByte("xXo", x.String()[at+1]) >= 0 {
			at += 2
		}
		return value.Text(x.String()[:at] + strings.Repeat("0", int(gap)) + x.String()[at:]), nil
	}
	return value.Concat(value.Text(strings.Repeat(" ", int(gap))), x), nil
}

// Float writes f >= 0 as C's printf does.
func Float(f float64, verb byte, prec int, alt bool) string {
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
