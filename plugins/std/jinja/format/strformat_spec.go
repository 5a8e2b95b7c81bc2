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

// formatSpec is Python's format specification mini-language.
type formatSpec struct {
	fill        string
	align, sign byte
	alt, zero   bool
	width       int64
	group       byte
	prec        int64
	verb        byte
}

func parseSpec(s string) (*formatSpec, error) {
	f := &formatSpec{fill: " ", prec: -1}
	if _, n := utf8.DecodeRuneInString(s); len(s) > n && strings.IndexByte("<>=^", s[n]) >= 0 && n > 0 {
		f.fill, f.align = s[:n], s[n]
		s = s[n+1:]
	} else if s != "" && strings.IndexByte("<>=^", s[0]) >= 0 {
		f.align = s[0]
		s = s[1:]
	}
	next := func(set string) byte {
		if s != "" && strings.IndexByte(set, s[0]) >= 0 {
			c := s[0]
			s = s[1:]
			return c
		}
		return 0
	}
	number := func() (int64, bool) {
		n, any := int64(0), false
		for s != "" && chars.IsASCIIDigit(s[0]) {
			n, any = min(n*10+int64(s[0]-'0'), 1<<40), true
			s = s[1:]
		}
		return n, any
	}
	f.sign = next("+- ")
	f.alt = next("#") != 0
	if next("0") != 0 {
		f.zero = true
		if f.align == 0 {
			f.align, f.fill = '=', "0"
		}
	}
	f.width, _ = number()
	f.group = next(",_")
	if next(".") != 0 {
		var any bool
		if f.prec, any = number(); !any {
			return f, value.ValueError("Format specifier missing precision")
		}
	}
	if len(s) > 1 {
		return nil, value.ValueError("Invalid format specifier")
	}
	if s != "" {
		f.verb = s[0]
	}
	return f, nil
}

// formatValue is Python's format(v, spec).
func formatValue(th *value.Thread, v value.Value, spec string) (*value.Str, error) {
	if spec == "" {
		return th.Str(v)
	}
	_, isStr := v.(*value.Str)
	if !isStr && !value.IsNumber(v) {
		return nil, value.TypeError("unsupported format string passed to %s.__format__", v.Type())
	}
	f, err := parseSpec(spec)
	if err != nil {
		if f != nil {
			return nil, err
		}
		return nil, value.ValueError("Invalid format specifier '%s' for object of type '%s'", spec, v.Type())
	}
	if f.prec > 1<<20 {
		return nil, th.Grow(-1)
	}
	if isStr {
		return formatStr(th, f, v.(*value.Str))
	}
	return formatNumber(th, f, v)
}

func formatStr(th *value.Thread, f *formatSpec, s *value.Str) (*value.Str, error) {
	switch {
	case f.verb != 0 && f.verb != 's':
		return nil, value.ValueError("Unknown format code '%c' for object of type 'str'", f.verb)
	case f.sign != 0:
		return nil, value.ValueError("Sign not allowed in string format specifier")
	case f.alt:
		return nil, value.ValueError("Alternate form (#) not allowed in string format specifier")
	case f.align == '=' && !f.zero:
		return nil, value.ValueError("'=' alignment not allowed in string format specifier")
	case f.group != 0:
		return nil, value.ValueError("Cannot specify '%c' with 's'.", f.group)
	}
	if f.prec >= 0 && int64(s.Count()) > f.prec {
		s = s.Sub(0, s.ByteAt(int(f.prec)))
	}
	align := f.align
	if align == 0 || align == '=' {
		align = '<'
	}
	return alignStr(th, f, s, align, 0)
}

// alignStr pads s; sign is how many bytes at its start stay left of = padding.
func alignStr(th *value.Thread, f *formatSpec, s *value.Str, align byte, sign int) (*value.Str, error) {
	gap := f.width - int64(s.Count())
	if gap <= 0 {
		return s, nil
	}
	if err := th.GrowTimes(gap, int64(len(f.fill))); err != nil {
		return nil, err
	}
	pad := func(n int64) *value.Str { return value.Text(strings.Repeat(f.fill, int(n))) }
	switch align {
	case '<':
		return value.Concat(s, pad(gap)), nil
	case '^':
		return value.Concat(value.Concat(pad(gap/2), s), pad(gap-gap/2)), nil
	case '=':
		return value.Concat(value.Concat(s.Sub(0, sign), pad(gap)), s.Sub(sign, len(s.String()))), nil
	}
	return value.Concat(pad(gap), s), nil
}

func formatNumber(th *value.Thread, f *formatSpec, v value.Value) (*value.Str, error) {
	_, isFloat := v.(value.Float)
	class := v.Type()
	if f.verb == 's' && f.group != 0 {
		return nil, value.ValueError("Cannot specify '%c' with 's'.", f.group)
	}
	if f.verb == 's' {
		return nil, value.ValueError("Unknown format code 's' for object of type '%s'", class)
	}
	if b, ok := v.(value.Bool); ok {
		n, _ := value.AsInt64(b)
		v = value.Int(n)
	}
	neg, digits := false, ""
	switch {
	case isFloat || f.verb != 0 && strings.IndexByte("eEfFgG%", f.verb) >= 0:
		x, err := value.AsFloat(v)
		if err != nil {
			return nil, err
		}
		if f.verb != 0 && strings.IndexByte("eEfFgG%n", f.verb) < 0 {
			return nil, value.ValueError("Unknown format code '%c' for object of type 'float'", f.verb)
		}
		neg, digits = math.Signbit(x) && !math.IsNaN(x), f.float(math.Abs(x))
	default:
		n, _ := value.AsInt(v)
		if f.prec >= 0 {
			return nil, value.ValueError("Precision not allowed in integer format specifier")
		}
		base := map[byte]int{0: 10, 'd': 10, 'n': 10, 'b': 2, 'o': 8, 'x': 16, 'X': 16}[f.verb]
		if _, isBig := v.(*value.BigInt); isBig && f.verb == 'c' {
			return nil, value.Raise("OverflowError", "Python int too large to convert to C long")
		}
		if f.verb == 'c' {
			c, err := percentChar(v)
			if err != nil {
				return nil, err
			}
			return alignStr(th, f, c, max(f.align, '<'), 0)
		}
		if base == 0 {
			return nil, value.ValueError("Unknown format code '%c' for object of type '%s'", f.verb, class)
		}
		neg, digits = n.Sign() < 0, new(big.Int).Abs(n).Text(base)
		if f.verb == 'X' {
			digits = strings.ToUpper(digits)
		}
	}
	return assemble(th, f, neg, digits)
}

// assemble puts sign, prefix, digits and padding together.
func assemble(th *value.Thread, f *formatSpec, neg bool, digits string) (*value.Str, error) {
	sign := (&percentSpec{plus: f.sign == '+', space: f.sign == ' '}).sign(neg)
	if f.alt && strings.IndexByte("boxX", f.verb) >= 0 && f.verb != 0 {
		sign += "0" + string(f.verb)
	}
	if f.group != 0 {
		every, least := 3, 0
		if strings.IndexByte("boxX", f.verb) >= 0 && f.verb != 0 {
			every = 4
		}
		if f.fill == "0" && f.align == '=' {
			least = int(min(f.width, 1<<20)) - len(sign)
		}
		end := len(digits)
		if every == 3 {
			if i := strings.IndexAny(digits, ".e%"); i >= 0 {
				end = i
			}
		}
		digits = groupDigits(digits[:end], digits[end:], f.group, every, least)
	}
	align := f.align
	if align == 0 {
		align = '>'
	}
	return alignStr(th, f, value.Text(sign+digits), align, len(sign))
}

// groupDigits puts a separator between groups of the whole part, which is
// filled with zeros up to least characters.
func groupDigits(whole, rest string, sep byte, every, least int) string {
	var out []byte
	for i := 0; i < len(whole) || len(out)+len(rest) < least; i++ {
		if i > 0 && i%every == 0 {
			out = append(out, sep)
		}
		c := byte('0')
		if i < len(whole) {
			c = whole[len(whole)-1-i]
		}
		out = append(out, c)
	}
	for i, j := 0, len(out)-1; i < j; i, j = i+1, j-1 {
		out[i], out[j] = out[j], out[i]
	}
	return string(out) + rest
}

// float writes x >= 0.
func (f *formatSpec) float(x float64) string {
	prec := int(f.prec)
	switch f.verb {
	case 0:
		if prec < 0 {
			return value.FloatRepr(x)
		}
		s := formatG(x, prec, f.alt)
		if math.IsInf(x, 0) || math.IsNaN(x) {
			return Float(x, 'f', 0, false)
		}
		if e := strings.IndexByte(s, 'e'); e < 0 && !strings.Contains(s, ".") {
			if len(s) < max(prec, 1) || prec > 1 && len(s) < prec {
				return s + ".0"
			}
			return expForm(x, prec, s)
		}
		return s
	case '%':
		if prec < 0 {
			prec = 6
		}
		return Float(x*100, 'f', prec, f.alt) + "%"
	case 'n':
		if prec < 0 {
			prec = 6
		}
		return Float(x, 'g', prec, f.alt)
	}
	if prec < 0 {
		prec = 6
	}
	return Float(x, f.verb, prec, f.alt)
}

// expForm writes a float whose digits s are all before the point, in a format with a
// precision and no type: with an exponent if the digits reach the precision, else with ".0".
func expForm(x float64, prec int, s string) string {
	if prec <= len(s) && x != 0 {
		e := strconv.FormatFloat(x, 'e', max(prec-1, 0), 64)
		mant, rest, _ := strings.Cut(e, "e")
		if strings.Contains(mant, ".") {
			mant = strings.TrimRight(strings.TrimRight(mant, "0"), ".")
		}
		return mant + "e" + rest
	}
	return s + ".0"
}
