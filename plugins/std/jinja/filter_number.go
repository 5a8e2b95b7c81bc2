package jinja

import (
	"math"
	"math/big"
	"strconv"
	"strings"
)

func filterAbs(_ *state, a []Value) (Value, error) {
	switch v := a[0].(type) {
	case Float:
		return Float(math.Abs(float64(v))), nil
	case *Undefined:
		return nil, typeError("bad operand type for abs(): 'Undefined'")
	}
	n, ok := asInt(a[0])
	if !ok {
		return nil, typeError("bad operand type for abs(): '%s'", className(a[0]))
	}
	return normInt(new(big.Int).Abs(n)), nil
}

// parseFloat is Python's float(str).
func parseFloat(s string) (float64, bool) {
	s = strings.TrimFunc(s, isSpace)
	clean := strings.ReplaceAll(s, "_", "")
	if clean != s && (strings.Contains(s, "__") || strings.HasPrefix(s, "_") || strings.HasSuffix(s, "_") ||
		strings.ContainsAny(s, "nN") || strings.Contains(s, "_.") || strings.Contains(s, "._") || strings.Contains(s, "_e") || strings.Contains(s, "e_")) {
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
	s = strings.TrimFunc(s, isSpace)
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
	if s == "" || strings.Contains(s, "__") || s[0] == '_' || s[len(s)-1] == '_' || s[0] == '-' || s[0] == '+' || len(s) > 4300 {
		return nil, false
	}
	n, ok := new(big.Int).SetString(strings.ReplaceAll(s, "_", ""), int(base))
	if ok && neg {
		n.Neg(n)
	}
	return n, ok
}

// intOfFloat is Python's int(float).
func intOfFloat(f float64) (Value, error) {
	if math.IsNaN(f) {
		return nil, valueError("cannot convert float NaN to integer")
	}
	if math.IsInf(f, 0) {
		return nil, raise("OverflowError", "cannot convert float infinity to integer")
	}
	n, _ := new(big.Float).SetFloat64(f).Int(nil)
	return normInt(n), nil
}

func filterInt(_ *state, a []Value) (Value, error) {
	def := a[1]
	if def == nil {
		def = Int(0)
	}
	base, err := optInt(a[2], 10)
	if err != nil {
		return nil, err
	}
	switch v := a[0].(type) {
	case *Undefined:
		return nil, v.err()
	case Float:
		n, err := intOfFloat(float64(v))
		if isClass(err, "ValueError") {
			return def, nil
		}
		return n, err
	case *Str:
		if base == 0 || base >= 2 && base <= 36 {
			if n, ok := parseInt(v.s, base); ok {
				return normInt(n), nil
			}
		}
		if f, ok := parseFloat(v.s); ok {
			if n, err := intOfFloat(f); err == nil {
				return n, nil
			}
		}
		return def, nil
	}
	if n, ok := asInt(a[0]); ok {
		return normInt(n), nil
	}
	return def, nil
}

func filterFloat(_ *state, a []Value) (Value, error) {
	def := a[1]
	if def == nil {
		def = Float(0)
	}
	switch v := a[0].(type) {
	case *Undefined:
		return nil, v.err()
	case *Str:
		if f, ok := parseFloat(v.s); ok {
			return Float(f), nil
		}
		return def, nil
	}
	if !isNumber(a[0]) {
		return def, nil
	}
	f, err := asFloat(a[0])
	return Float(f), err
}

func filterRound(st *state, a []Value) (Value, error) {
	precision, err := optInt(a[1], 0)
	if err != nil {
		return nil, err
	}
	how := "common"
	if a[2] != nil {
		s, _ := a[2].(*Str)
		if s == nil || s.s != "common" && s.s != "ceil" && s.s != "floor" {
			return nil, raise("FilterArgumentError", "method must be common, ceil or floor")
		}
		how = s.s
	}
	if how == "common" {
		return roundNumber(a[0], precision)
	}
	if precision > 400 || precision < -400 {
		return nil, raise("OverflowError", "int too large to convert to float")
	}
	scale, err := st.intPow(big.NewInt(10), big.NewInt(precision))
	if err != nil {
		return nil, err
	}
	scaled, err := st.binaryOp(tMul, a[0], scale)
	if err != nil {
		return nil, err
	}
	if !isNumber(scaled) {
		return nil, typeError("must be real number, not %s", className(scaled))
	}
	var whole Value = scaled
	if f, ok := scaled.(Float); ok {
		r := math.Floor(float64(f))
		if how == "ceil" {
			r = math.Ceil(float64(f))
		}
		if whole, err = intOfFloat(r); err != nil {
			return nil, err
		}
	}
	return st.binaryOp(tDiv, whole, scale)
}

// roundNumber is Python's round(v, digits): exact decimal, half to even.
func roundNumber(v Value, digits int64) (Value, error) {
	f, ok := v.(Float)
	if !ok {
		n, isInt := asInt(v)
		if !isInt {
			if u, undef := v.(*Undefined); undef {
				return nil, typeError("type %s doesn't define __round__ method", u.pyType())
			}
			return nil, typeError("type %s doesn't define __round__ method", className(v))
		}
		return roundInt(n, digits), nil
	}
	if digits > 323 || math.IsNaN(float64(f)) || math.IsInf(float64(f), 0) {
		return f, nil
	}
	if digits < -308 {
		return Float(math.Copysign(0, float64(f))), nil
	}
	if digits >= 0 {
		r, err := strconv.ParseFloat(strconv.FormatFloat(float64(f), 'f', int(digits), 64), 64)
		if err != nil {
			return nil, raise("OverflowError", "rounded value too large to represent")
		}
		return Float(r), nil
	}
	whole, _ := new(big.Rat).SetString(strconv.FormatFloat(float64(f), 'f', -1, 64))
	scale := new(big.Rat).SetInt(new(big.Int).Exp(big.NewInt(10), big.NewInt(-digits), nil))
	q := new(big.Rat).Quo(whole, scale)
	r := roundRat(q)
	out, _ := new(big.Rat).Mul(new(big.Rat).SetInt(r), scale).Float64()
	if out == 0 {
		out = math.Copysign(0, float64(f))
	}
	return Float(out), nil
}

// roundRat rounds to the nearest int, half to even.
func roundRat(q *big.Rat) *big.Int {
	twice := new(big.Int).Lsh(q.Num(), 1)
	twice.Add(twice, q.Denom())
	den := new(big.Int).Lsh(q.Denom(), 1)
	n, rem := floorDivMod(twice, den)
	if rem.Sign() == 0 && n.Bit(0) == 1 {
		n.Sub(n, big.NewInt(1))
	}
	return n
}

func roundInt(n *big.Int, digits int64) Value {
	if digits >= 0 {
		return normInt(n)
	}
	if digits < -4300 {
		return Int(0)
	}
	scale := new(big.Int).Exp(big.NewInt(10), big.NewInt(-digits), nil)
	r := roundRat(new(big.Rat).SetFrac(n, scale))
	return normInt(r.Mul(r, scale))
}

func filterFileSize(st *state, a []Value) (Value, error) {
	binary, err := st.flag(a[1], false)
	if err != nil {
		return nil, err
	}
	var size float64
	if s, ok := a[0].(*Str); ok {
		if size, ok = parseFloat(s.s); !ok {
			return nil, valueError("could not convert string to float: %s", reprText(s))
		}
	} else if isNumber(a[0]) {
		if size, err = asFloat(a[0]); err != nil {
			return nil, err
		}
	} else if u, ok := a[0].(*Undefined); ok {
		return nil, u.err()
	} else {
		return nil, typeError("float() argument must be a string or a real number, not '%s'", className(a[0]))
	}
	step, suffix := 1000.0, "B"
	if binary {
		step, suffix = 1024, "iB"
	}
	if size == 1 {
		return text("1 Byte"), nil
	}
	if size < step {
		n, err := intOfFloat(size)
		if err != nil {
			return nil, err
		}
		return text(reprText(n) + " Bytes"), nil
	}
	units := "kMGTPEZY"
	if binary {
		units = "KMGTPEZY"
	}
	unit := step
	for i := range units {
		unit *= step
		if size < unit || i == len(units)-1 {
			return text(formatFloat(step*size/unit, 'f', 1, false) + " " + units[i:i+1] + suffix), nil
		}
	}
	return nil, typeError("BUG: no unit")
}
