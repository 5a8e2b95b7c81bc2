package value

import (
	"math"
	"math/big"
)

// maxBits is the greatest size of an int, in bits. Python's have no limit.
const maxBits = 1 << 18

// NewInt is the Value of an int of any size.
func NewInt(n *big.Int) Value {
	if n.IsInt64() {
		return Int(n.Int64())
	}
	return &BigInt{n}
}

// AsInt returns the int of an Int, Bool or BigInt.
func AsInt(v Value) (*big.Int, bool) {
	switch v := v.(type) {
	case Int:
		return big.NewInt(int64(v)), true
	case Bool:
		if v {
			return big.NewInt(1), true
		}
		return new(big.Int), true
	case *BigInt:
		return v.v, true
	}
	return nil, false
}

// AsInt64 returns the int of an Int or Bool.
func AsInt64(v Value) (int64, bool) {
	switch v := v.(type) {
	case Int:
		return int64(v), true
	case Bool:
		if v {
			return 1, true
		}
		return 0, true
	}
	return 0, false
}

// IsNumber reports whether v is an int, a bool or a float.
func IsNumber(v Value) bool {
	switch v.(type) {
	case Int, Bool, Float, *BigInt:
		return true
	}
	return false
}

// AsFloat returns a number as a float.
func AsFloat(v Value) (float64, error) {
	switch v := v.(type) {
	case Float:
		return float64(v), nil
	case *BigInt:
		f, _ := new(big.Float).SetInt(v.v).Float64()
		if math.IsInf(f, 0) {
			return 0, Raise("OverflowError", "int too large to convert to float")
		}
		return f, nil
	}
	i, _ := AsInt64(v)
	return float64(i), nil
}

// Unary is -v for Sub and +v for Add.
func Unary(op Op, v Value) (Value, error) {
	switch v := v.(type) {
	case *Undefined:
		return nil, v.Err()
	case Float:
		if op == Sub {
			return -v, nil
		}
		return v, nil
	}
	n, ok := AsInt(v)
	if !ok {
		sign := "+"
		if op == Sub {
			sign = "-"
		}
		return nil, TypeError("bad operand type for unary %s: '%s'", sign, v.Type())
	}
	if op == Sub {
		return NewInt(new(big.Int).Neg(n)), nil
	}
	return NewInt(n), nil
}

// Arith is arithmetic on two numbers.
func (th *Thread) Arith(op Op, a, b Value) (Value, error) {
	_, fa := a.(Float)
	_, fb := b.(Float)
	if fa || fb {
		x, err := AsFloat(a)
		if err != nil {
			return nil, err
		}
		y, err := AsFloat(b)
		if err != nil {
			return nil, err
		}
		return floatOp(op, x, y)
	}
	if x, ok := AsInt64(a); ok {
		if y, ok := AsInt64(b); ok {
			if v, ok := smallOp(op, x, y); ok {
				return v, nil
			}
		}
	}
	x, _ := AsInt(a)
	y, _ := AsInt(b)
	return th.bigOp(op, x, y)
}

// smallOp computes the common cases that cannot overflow.
func smallOp(op Op, x, y int64) (Value, bool) {
	const safe = 1 << 31
	if x < -safe || x > safe || y < -safe || y > safe {
		return nil, false
	}
	switch op {
	case Add:
		return Int(x + y), true
	case Sub:
		return Int(x - y), true
	case Mul:
		return Int(x * y), true
	case FloorDiv, Mod:
		if y == 0 {
			return nil, false
		}
		q, r := x/y, x%y
		if r != 0 && (r < 0) != (y < 0) {
			q--
			r += y
		}
		if op == Mod {
			return Int(r), true
		}
		return Int(q), true
	}
	return nil, false
}

func (th *Thread) bigOp(op Op, x, y *big.Int) (Value, error) {
	if x.BitLen()+y.BitLen() > maxBits {
		return nil, LimitError("memory: an int of more than %d bits", maxBits)
	}
	if err := th.Grow(int64(x.BitLen()+y.BitLen()) / 8); err != nil {
		return nil, err
	}
	z := new(big.Int)
	switch op {
	case Add:
		return NewInt(z.Add(x, y)), nil
	case Sub:
		return NewInt(z.Sub(x, y)), nil
	case Mul:
		if err := th.Work(x.BitLen() * y.BitLen() >> 12); err != nil {
			return nil, err
		}
		return NewInt(z.Mul(x, y)), nil
	case Pow:
		return th.Pow(x, y)
	}
	if y.Sign() == 0 {
		if op == Div {
			return nil, Raise("ZeroDivisionError", "division by zero")
		}
		if op == Mod {
			return nil, Raise("ZeroDivisionError", "integer modulo by zero")
		}
		return nil, Raise("ZeroDivisionError", "integer division or modulo by zero")
	}
	if op == Div {
		f, _ := new(big.Rat).SetFrac(x, y).Float64()
		if math.IsInf(f, 0) {
			return nil, Raise("OverflowError", "integer division result too large for a float")
		}
		return Float(f), nil
	}
	if err := th.Work(x.BitLen() * y.BitLen() >> 12); err != nil {
		return nil, err
	}
	q, r := FloorDivMod(x, y)
	if op == Mod {
		return NewInt(r), nil
	}
	return NewInt(q), nil
}

// FloorDivMod rounds towards minus infinity, as Python does.
func FloorDivMod(x, y *big.Int) (q, r *big.Int) {
	q, r = new(big.Int).QuoRem(x, y, new(big.Int))
	if r.Sign() != 0 && r.Sign() != y.Sign() {
		q.Sub(q, big.NewInt(1))
		r.Add(r, y)
	}
	return q, r
}

// Pow is x ** y for ints.
func (th *Thread) Pow(x, y *big.Int) (Value, error) {
	if y.Sign() < 0 {
		if x.Sign() == 0 {
			return nil, Raise("ZeroDivisionError", "0.0 cannot be raised to a negative power")
		}
		fx, err := AsFloat(NewInt(x))
		if err != nil {
			return nil, err
		}
		fy, err := AsFloat(NewInt(y))
		if err != nil {
			return nil, err
		}
		return floatOp(Pow, fx, fy)
	}
	if x.BitLen() <= 1 { // -1, 0 and 1
		if x.Sign() != 0 && y.Sign() != 0 && (x.Sign() > 0 || y.Bit(0) == 0) {
			return Int(1), nil
		}
		if y.Sign() == 0 {
			return Int(1), nil
		}
		return NewInt(x), nil
	}
	if !y.IsInt64() || y.Int64() > maxBits || int64(x.BitLen())*y.Int64() > maxBits {
		return nil, LimitError("memory: an int of more than %d bits", maxBits)
	}
	n := x.BitLen() * int(y.Int64())
	if err := th.Grow(int64(n) / 8); err != nil {
		return nil, err
	}
	if err := th.Work(n >> 5); err != nil {
		return nil, err
	}
	return NewInt(new(big.Int).Exp(x, y, nil)), nil
}

// TruncateFloat is Python's int(float).
func TruncateFloat(f float64) (Value, error) {
	if math.IsNaN(f) {
		return nil, ValueError("cannot convert float NaN to integer")
	}
	if math.IsInf(f, 0) {
		return nil, Raise("OverflowError", "cannot convert float infinity to integer")
	}
	n, _ := new(big.Float).SetFloat64(f).Int(nil)
	return NewInt(n), nil
}
