package value

import (
	"math"
	"math/big"
)

func floatOp(op Op, x, y float64) (Value, error) {
	switch op {
	case Add:
		return Float(x + y), nil
	case Sub:
		return Float(x - y), nil
	case Mul:
		return Float(x * y), nil
	case Div:
		if y == 0 {
			return nil, Raise("ZeroDivisionError", "float division by zero")
		}
		return Float(x / y), nil
	case Pow:
		return floatPow(x, y)
	}
	if y == 0 {
		if op == Mod {
			return nil, Raise("ZeroDivisionError", "float modulo")
		}
		return nil, Raise("ZeroDivisionError", "float floor division by zero")
	}
	q, r := floatDivMod(x, y)
	if op == Mod {
		return Float(r), nil
	}
	return Float(q), nil
}

// floatDivMod is CPython's float_divmod.
func floatDivMod(x, y float64) (q, r float64) {
	r = math.Mod(x, y)
	div := (x - r) / y
	if r != 0 {
		if (y < 0) != (r < 0) {
			r += y
			div--
		}
	} else {
		r = math.Copysign(0, y)
	}
	if div == 0 {
		return math.Copysign(0, x/y), r
	}
	q = math.Floor(div)
	if div-q > 0.5 {
		q++
	}
	return q, r
}

// pow is x ** y. Go's math.Pow can differ from C's by a few ulp, so exponents that
// are whole or half numbers, all that templates use, are computed exactly.
func pow(x, y float64) float64 {
	twice := 2 * y
	if x == 0 || math.IsInf(x, 0) || math.IsNaN(x) || twice != math.Trunc(twice) || math.Abs(y) > 1024 || y == 0 {
		return math.Pow(x, y)
	}
	n := int(math.Abs(twice))
	base := new(big.Float).SetPrec(300).SetFloat64(x)
	r := new(big.Float).SetPrec(300).SetInt64(1)
	if n%2 == 1 {
		r.Sqrt(base)
	}
	for n /= 2; n > 0; n /= 2 {
		if n%2 == 1 {
			r.Mul(r, base)
		}
		base.Mul(base, base)
	}
	if y < 0 {
		r.Quo(new(big.Float).SetPrec(300).SetInt64(1), r)
	}
	f, _ := r.Float64()
	return f
}

func floatPow(x, y float64) (Value, error) {
	if x == 0 && y < 0 {
		return nil, Raise("ZeroDivisionError", "0.0 cannot be raised to a negative power")
	}
	if x < 0 && y != math.Trunc(y) && !math.IsInf(x, 0) {
		return nil, TypeError("complex numbers are not supported")
	}
	r := pow(x, y)
	if math.IsInf(r, 0) && !math.IsInf(x, 0) && !math.IsInf(y, 0) {
		return nil, Raise("OverflowError", "(34, 'Numerical result out of range')")
	}
	return Float(r), nil
}
