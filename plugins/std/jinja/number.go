package jinja

import (
	"math"
	"math/big"
)

// maxBits bounds Python's unbounded ints.
const maxBits = 1 << 18

// normInt is the Value of an int of any size.
func normInt(n *big.Int) Value {
	if n.IsInt64() {
		return Int(n.Int64())
	}
	return &bigInt{n}
}

// asInt gives the int of an Int, Bool or bigInt.
func asInt(v Value) (*big.Int, bool) {
	switch v := v.(type) {
	case Int:
		return big.NewInt(int64(v)), true
	case Bool:
		if v {
			return big.NewInt(1), true
		}
		return new(big.Int), true
	case *bigInt:
		return v.v, true
	}
	return nil, false
}

// smallInt gives the int of an Int or Bool.
func smallInt(v Value) (int64, bool) {
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

func isNumber(v Value) bool {
	switch v.(type) {
	case Int, Bool, Float, *bigInt:
		return true
	}
	return false
}

// asFloat gives a number as a float.
func asFloat(v Value) (float64, error) {
	switch v := v.(type) {
	case Float:
		return float64(v), nil
	case *bigInt:
		f, _ := new(big.Float).SetInt(v.v).Float64()
		if math.IsInf(f, 0) {
			return 0, raise("OverflowError", "int too large to convert to float")
		}
		return f, nil
	}
	i, _ := smallInt(v)
	return float64(i), nil
}

func unaryOp(op kind, v Value) (Value, error) {
	switch v := v.(type) {
	case *Undefined:
		return nil, v.err()
	case Float:
		if op == tSub {
			return -v, nil
		}
		return v, nil
	}
	n, ok := asInt(v)
	if !ok {
		sign := "+"
		if op == tSub {
			sign = "-"
		}
		return nil, typeError("bad operand type for unary %s: '%s'", sign, v.pyType())
	}
	if op == tSub {
		return normInt(new(big.Int).Neg(n)), nil
	}
	return normInt(n), nil
}

// arith is arithmetic on two numbers.
func (st *state) arith(op kind, a, b Value) (Value, error) {
	_, fa := a.(Float)
	_, fb := b.(Float)
	if fa || fb {
		x, err := asFloat(a)
		if err != nil {
			return nil, err
		}
		y, err := asFloat(b)
		if err != nil {
			return nil, err
		}
		return floatOp(op, x, y)
	}
	if x, ok := smallInt(a); ok {
		if y, ok := smallInt(b); ok {
			if v, ok := smallOp(op, x, y); ok {
				return v, nil
			}
		}
	}
	x, _ := asInt(a)
	y, _ := asInt(b)
	return st.bigOp(op, x, y)
}

// smallOp does the common cases that cannot overflow.
func smallOp(op kind, x, y int64) (Value, bool) {
	const safe = 1 << 31
	if x < -safe || x > safe || y < -safe || y > safe {
		return nil, false
	}
	switch op {
	case tAdd:
		return Int(x + y), true
	case tSub:
		return Int(x - y), true
	case tMul:
		return Int(x * y), true
	case tFloorDiv, tMod:
		if y == 0 {
			return nil, false
		}
		q, r := x/y, x%y
		if r != 0 && (r < 0) != (y < 0) {
			q--
			r += y
		}
		if op == tMod {
			return Int(r), true
		}
		return Int(q), true
	}
	return nil, false
}

func (st *state) bigOp(op kind, x, y *big.Int) (Value, error) {
	if x.BitLen()+y.BitLen() > maxBits {
		return nil, limitError("memory: an int of more than %d bits", maxBits)
	}
	if err := st.grow(int64(x.BitLen()+y.BitLen()) / 8); err != nil {
		return nil, err
	}
	z := new(big.Int)
	switch op {
	case tAdd:
		return normInt(z.Add(x, y)), nil
	case tSub:
		return normInt(z.Sub(x, y)), nil
	case tMul:
		if err := st.work(x.BitLen() * y.BitLen() >> 12); err != nil {
			return nil, err
		}
		return normInt(z.Mul(x, y)), nil
	case tPow:
		return st.intPow(x, y)
	}
	if y.Sign() == 0 {
		if op == tDiv {
			return nil, raise("ZeroDivisionError", "division by zero")
		}
		if op == tMod {
			return nil, raise("ZeroDivisionError", "integer modulo by zero")
		}
		return nil, raise("ZeroDivisionError", "integer division or modulo by zero")
	}
	if op == tDiv {
		f, _ := new(big.Rat).SetFrac(x, y).Float64()
		if math.IsInf(f, 0) {
			return nil, raise("OverflowError", "integer division result too large for a float")
		}
		return Float(f), nil
	}
	if err := st.work(x.BitLen() * y.BitLen() >> 12); err != nil {
		return nil, err
	}
	q, r := floorDivMod(x, y)
	if op == tMod {
		return normInt(r), nil
	}
	return normInt(q), nil
}

// floorDivMod rounds towards minus infinity, as Python does.
func floorDivMod(x, y *big.Int) (q, r *big.Int) {
	q, r = new(big.Int).QuoRem(x, y, new(big.Int))
	if r.Sign() != 0 && r.Sign() != y.Sign() {
		q.Sub(q, big.NewInt(1))
		r.Add(r, y)
	}
	return q, r
}

func (st *state) intPow(x, y *big.Int) (Value, error) {
	if y.Sign() < 0 {
		if x.Sign() == 0 {
			return nil, raise("ZeroDivisionError", "0.0 cannot be raised to a negative power")
		}
		fx, err := asFloat(normInt(x))
		if err != nil {
			return nil, err
		}
		fy, err := asFloat(normInt(y))
		if err != nil {
			return nil, err
		}
		return floatOp(tPow, fx, fy)
	}
	if x.BitLen() <= 1 { // -1, 0 and 1
		if x.Sign() != 0 && y.Sign() != 0 && (x.Sign() > 0 || y.Bit(0) == 0) {
			return Int(1), nil
		}
		if y.Sign() == 0 {
			return Int(1), nil
		}
		return normInt(x), nil
	}
	if !y.IsInt64() || y.Int64() > maxBits || int64(x.BitLen())*y.Int64() > maxBits {
		return nil, limitError("memory: an int of more than %d bits", maxBits)
	}
	n := x.BitLen() * int(y.Int64())
	if err := st.grow(int64(n) / 8); err != nil {
		return nil, err
	}
	if err := st.work(n >> 5); err != nil {
		return nil, err
	}
	return normInt(new(big.Int).Exp(x, y, nil)), nil
}
