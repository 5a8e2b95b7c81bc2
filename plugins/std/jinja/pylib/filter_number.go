package pylib

import (
	"math"
	"math/big"
	"strconv"
	"strings"

	"tgi/plugins/std/jinja/chars"
	"tgi/plugins/std/jinja/format"
	"tgi/plugins/std/jinja/value"
)

func filterAbs(_ *value.Thread, a []value.Value) (value.Value, error) {
	switch v := a[0].(type) {
	case value.Float:
		return value.Float(math.Abs(float64(v))), nil
	case *value.Undefined:
		return nil, value.TypeError("bad operand type for abs(): 'Undefined'")
	}
	n, ok := value.AsInt(a[0])
	if !ok {
		return nil, value.TypeError("bad operand type for abs(): '%s'", value.ClassName(a[0]))
	}
	return value.NewInt(new(big.Int).Abs(n)), nil
}

// parseFloat is Python's float(str).
func parseFloat(s string) (float64, bool) {
	s = strings.TrimFunc(s, chars.IsSpace)
	clean := strings.ReplaceAll(s, "_", "")
	if clean != s && (strings.Contains(s, "__") || strings.HasPrefix(s, "_") || strings.HasSuffix(s, "_") ||
		strings.ContainsAny(s, "nN") || strings.Contains(s, "_.") || strings.Contains(s, "._") ||
		strings.Contains(s, "_e") || strings.Contains(s, "e_")) {
		return 0, false
	}
	if strings.ContainsAny(clean, "xXpP") {
		return 0, false
	}
	f, err := strconv.ParseFloat(clean, 64)
	if err != nil && !math.IsInf(f, 0) {
		return 0, false
	}
	return f, true
}

// parseInt is Python's int(str, base).
func parseInt(s string, base int64) (*big.Int, bool) {
	s = strings.TrimFunc(s, chars.IsSpace)
	neg := strings.HasPrefix(s, "-")
	if neg || strings.HasPrefix(s, "+") {
		s = s[1:]
	}
	prefixes := map[int64]string{2: "0b", 8: "0o", 16: "0x"}
	for b, p := range prefixes {
		if (base == b || base == 0) && len(s) > 2 && strings.EqualFold(s[:2], p) {
			s, base = strings.TrimPrefix(s[2:], "_"), b
			break
		}
	}
	if base == 0 {
		base = 10
		if strings.HasPrefix(s, "0") && strings.Trim(s, "0_") != "" {
			return nil, false
		}
	}
	if s == "" || strings.Contains(s, "__") || s[0] == '_' || s[len(s)-1] == '_' || s[0] == '-' || s[0] == '+' ||
		len(s) > 4300 {
		return nil, false
	}
	n, ok := new(big.Int).SetString(strings.ReplaceAll(s, "_", ""), int(base))
	if ok && neg {
		n.Neg(n)
	}
	return n, ok
}

func filterInt(_ *value.Thread, a []value.Value) (value.Value, error) {
	def := a[1]
	if def == nil {
		def = value.Int(0)
	}
	base, err := optInt(a[2], 10)
	if err != nil {
		return nil, err
	}
	switch v := a[0].(type) {
	case *value.Undefined:
		return nil, v.Err()
	case value.Float:
		n, err := value.TruncateFloat(float64(v))
		if value.IsClass(err, "ValueError") {
			return def, nil
		}
		return n, err
	case *value.Str:
		if base == 0 || base >= 2 && base <= 36 {
			if n, ok := parseInt(v.String(), base); ok {
				return value.NewInt(n), nil
			}
		}
		if f, ok := parseFloat(v.String()); ok {
			if n, err := value.TruncateFloat(f); err == nil {
				return n, nil
			}
		}
		return def, nil
	}
	if n, ok := value.AsInt(a[0]); ok {
		return value.NewInt(n), nil
	}
	return def, nil
}

func filterFloat(_ *value.Thread, a []value.Value) (value.Value, error) {
	def := a[1]
	if def == nil {
		def = value.Float(0)
	}
	switch v := a[0].(type) {
	case *value.Undefined:
		return nil, v.Err()
	case *value.Str:
		if f, ok := parseFloat(v.String()); ok {
			return value.Float(f), nil
		}
		return def, nil
	}
	if !value.IsNumber(a[0]) {
		return def, nil
	}
	f, err := value.AsFloat(a[0])
	return value.Float(f), err
}

func filterRound(th *value.Thread, a []value.Value) (value.Value, error) {
	precision, err := optInt(a[1], 0)
	if err != nil {
		return nil, err
	}
	how := "common"
	if a[2] != nil {
		s, _ := a[2].(*value.Str)
		if s == nil || s.String() != "common" && s.String() != "ceil" && s.String() != "floor" {
			return nil, value.Raise("FilterArgumentError", "method must be common, ceil or floor")
		}
		how = s.String()
	}
	if how == "common" {
		return roundNumber(a[0], precision)
	}
	if precision > 400 || precision < -400 {
		return nil, value.Raise("OverflowError", "int too large to convert to float")
	}
	scale, err := th.Pow(big.NewInt(10), big.NewInt(precision))
	if err != nil {
		return nil, err
	}
	scaled, err := Binary(th, value.Mul, a[0], scale)
	if err != nil {
		return nil, err
	}
	if !value.IsNumber(scaled) {
		return nil, value.TypeError("must be real number, not %s", value.ClassName(scaled))
	}
	var whole value.Value = scaled
	if f, ok := scaled.(value.Float); ok {
		r := math.Floor(float64(f))
		if how == "ceil" {
			r = math.Ceil(float64(f))
		}
		if whole, err = value.TruncateFloat(r); err != nil {
			return nil, err
		}
	}
	return Binary(th, value.Div, whole, scale)
}

// roundNumber is Python's round(v, digits): exact decimal, half to even.
func roundNumber(v value.Value, digits int64) (value.Value, error) {
	f, ok := v.(value.Float)
	if !ok {
		n, isInt := value.AsInt(v)
		if !isInt {
			if u, undef := v.(*value.Undefined); undef {
				return nil, value.TypeError("type %s doesn't define __round__ method", u.Type())
			}
			return nil, value.TypeError("type %s doesn't define __round__ method", value.ClassName(v))
		}
		return roundInt(n, digits), nil
	}
	if digits > 323 || math.IsNaN(float64(f)) || math.IsInf(float64(f), 0) {
		return f, nil
	}
	if digits < -308 {
		return value.Float(math.Copysign(0, float64(f))), nil
	}
	if digits >= 0 {
		r, err := strconv.ParseFloat(strconv.FormatFloat(float64(f), 'f', int(digits), 64), 64)
		if err != nil {
			return nil, value.Raise("OverflowError", "rounded value too large to represent")
		}
		return value.Float(r), nil
	}
	whole, _ := new(big.Rat).SetString(strconv.FormatFloat(float64(f), 'f', -1, 64))
	scale := new(big.Rat).SetInt(new(big.Int).Exp(big.NewInt(10), big.NewInt(-digits), nil))
	q := new(big.Rat).Quo(whole, scale)
	r := roundRat(q)
	out, _ := new(big.Rat).Mul(new(big.Rat).SetInt(r), scale).Float64()
	if out == 0 {
		out = math.Copysign(0, float64(f))
	}
	return value.Float(out), nil
}

// roundRat rounds to the nearest int, half to even.
func roundRat(q *big.Rat) *big.Int {
	twice := new(big.Int).Lsh(q.Num(), 1)
	twice.Add(twice, q.Denom())
	den := new(big.Int).Lsh(q.Denom(), 1)
	n, rem := value.FloorDivMod(twice, den)
	if rem.Sign() == 0 && n.Bit(0) == 1 {
		n.Sub(n, big.NewInt(1))
	}
	return n
}

func roundInt(n *big.Int, digits int64) value.Value {
	if digits >= 0 {
		return value.NewInt(n)
	}
	if digits < -4300 {
		return value.Int(0)
	}
	scale := new(big.Int).Exp(big.NewInt(10), big.NewInt(-digits), nil)
	r := roundRat(new(big.Rat).SetFrac(n, scale))
	return value.NewInt(r.Mul(r, scale))
}

func filterFileSize(th *value.Thread, a []value.Value) (value.Value, error) {
	binary, err := flagArg(th, a[1], false)
	if err != nil {
		return nil, err
	}
	var size float64
	if s, ok := a[0].(*value.Str); ok {
		if size, ok = parseFloat(s.String()); !ok {
			return nil, value.ValueError("could not convert string to float: %s", value.Repr(s))
		}
	} else if value.IsNumber(a[0]) {
		if size, err = value.AsFloat(a[0]); err != nil {
			return nil, err
		}
	} else if u, ok := a[0].(*value.Undefined); ok {
		return nil, u.Err()
	} else {
		return nil, value.TypeError("float() argument must be a string or a real number, not '%s'",
			value.ClassName(a[0]))
	}
	step, suffix := 1000.0, "B"
	if binary {
		step, suffix = 1024, "iB"
	}
	if size == 1 {
		return value.Text("1 Byte"), nil
	}
	if size < step {
		n, err := value.TruncateFloat(size)
		if err != nil {
			return nil, err
		}
		return value.Text(value.Repr(n) + " Bytes"), nil
	}
	units := "kMGTPEZY"
	if binary {
		units = "KMGTPEZY"
	}
	unit := step
	for i := range units {
		unit *= step
		if size < unit || i == len(units)-1 {
			return value.Text(format.Float(step*size/unit, 'f', 1, false) + " " + units[i:i+1] + suffix), nil
		}
	}
	return nil, value.TypeError("BUG: no unit")
}
