package jinja

import (
	"math"
	"math/big"
	"math/bits"
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

// binaryOp is Python's a op b for arithmetic operators.
func (st *state) binaryOp(op kind, a, b Value) (Value, error) {
	if u, ok := a.(*Undefined); ok {
		return nil, u.err()
	}
	if s, ok := a.(*Str); ok && op == tMod {
		return st.percent(s, b)
	}
	if u, ok := b.(*Undefined); ok {
		if _, isStr := a.(*Str); !isStr && op != tMod || isNumber(a) {
			return nil, u.err()
		}
		if op != tMul && op != tAdd || !isSequence(a) {
			return nil, u.err()
		}
	}
	if isNumber(a) && isNumber(b) {
		return st.arith(op, a, b)
	}
	switch op {
	case tAdd:
		return st.add(a, b)
	case tMul:
		return st.multiply(a, b)
	}
	return nil, unsupported(op, a, b)
}

func isSequence(v Value) bool {
	switch v.(type) {
	case *Str, *List, *Tuple:
		return true
	}
	return false
}

func unsupported(op kind, a, b Value) error {
	name := op.String()
	if op == tPow {
		name = "** or pow()"
	}
	return typeError("unsupported operand type(s) for %s: '%s' and '%s'", name, className(a), className(b))
}

// className is pyType with the subclasses told apart.
func className(v Value) string {
	if s, ok := v.(*Str); ok && s.safe {
		return "Markup"
	}
	return v.pyType()
}

// add joins sequences.
func (st *state) add(a, b Value) (Value, error) {
	switch x := a.(type) {
	case *Str:
		y, ok := b.(*Str)
		if u, undef := b.(*Undefined); undef {
			return nil, u.err()
		}
		if !ok {
			return nil, typeError(`can only concatenate str (not "%s") to str`, className(b))
		}
		if x.safe || y.safe {
			return st.addMarkup(x, y)
		}
		return join2(x, y), st.grow(int64(len(x.s) + len(y.s)))
	case *List:
		y, ok := b.(*List)
		if u, undef := b.(*Undefined); undef {
			return nil, u.err()
		}
		if !ok {
			return nil, typeError(`can only concatenate list (not "%s") to list`, className(b))
		}
		return &List{concatItems(x.items, y.items)}, st.growItems(len(x.items) + len(y.items))
	case *Tuple:
		y, ok := b.(*Tuple)
		if u, undef := b.(*Undefined); undef {
			return nil, u.err()
		}
		if !ok {
			return nil, typeError(`can only concatenate tuple (not "%s") to tuple`, className(b))
		}
		return &Tuple{items: concatItems(x.items, y.items)}, st.growItems(len(x.items) + len(y.items))
	}
	return nil, unsupported(tAdd, a, b)
}

func concatItems(a, b []Value) []Value {
	return append(append(make([]Value, 0, len(a)+len(b)), a...), b...)
}

// multiply repeats a sequence.
func (st *state) multiply(a, b Value) (Value, error) {
	if !isSequence(a) && isSequence(b) {
		a, b = b, a
	}
	if !isSequence(a) {
		return nil, unsupported(tMul, a, b)
	}
	if u, ok := b.(*Undefined); ok {
		return nil, u.err()
	}
	n, ok := smallInt(b)
	if _, isBig := b.(*bigInt); isBig {
		return nil, raise("OverflowError", "cannot fit 'int' into an index-sized integer")
	}
	if !ok {
		return nil, typeError("can't multiply sequence by non-int of type '%s'", className(b))
	}
	n = max(n, 0)
	switch x := a.(type) {
	case *Str:
		if err := st.growTimes(int64(len(x.s)), n); err != nil {
			return nil, err
		}
		return x.repeat(int(n)), nil
	case *List:
		items, err := st.repeatItems(x.items, n)
		return &List{items}, err
	}
	items, err := st.repeatItems(a.(*Tuple).items, n)
	return &Tuple{items: items}, err
}

func (st *state) growTimes(size, n int64) error {
	hi, lo := bits.Mul64(uint64(size), uint64(n))
	if hi != 0 || lo > math.MaxInt64 {
		return st.grow(-1)
	}
	return st.grow(int64(lo))
}

func (st *state) repeatItems(items []Value, n int64) ([]Value, error) {
	if err := st.growTimes(16*int64(len(items)), n); err != nil {
		return nil, err
	}
	if len(items) == 0 {
		return nil, nil
	}
	if err := st.work(len(items) * int(n)); err != nil {
		return nil, err
	}
	out := make([]Value, 0, len(items)*int(n))
	for range n {
		out = append(out, items...)
	}
	return out, nil
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

func floatOp(op kind, x, y float64) (Value, error) {
	switch op {
	case tAdd:
		return Float(x + y), nil
	case tSub:
		return Float(x - y), nil
	case tMul:
		return Float(x * y), nil
	case tDiv:
		if y == 0 {
			return nil, raise("ZeroDivisionError", "float division by zero")
		}
		return Float(x / y), nil
	case tPow:
		return floatPow(x, y)
	}
	if y == 0 {
		if op == tMod {
			return nil, raise("ZeroDivisionError", "float modulo")
		}
		return nil, raise("ZeroDivisionError", "float floor division by zero")
	}
	q, r := floatDivMod(x, y)
	if op == tMod {
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

// pow is x ** y. Go's math.Pow is off by some ulp where C's is not, so whole and
// half exponents, which are all that templates use, are worked out exactly.
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
		return nil, raise("ZeroDivisionError", "0.0 cannot be raised to a negative power")
	}
	if x < 0 && y != math.Trunc(y) && !math.IsInf(x, 0) {
		return nil, typeError("complex numbers are not supported")
	}
	r := pow(x, y)
	if math.IsInf(r, 0) && !math.IsInf(x, 0) && !math.IsInf(y, 0) {
		return nil, raise("OverflowError", "(34, 'Numerical result out of range')")
	}
	return Float(r), nil
}
