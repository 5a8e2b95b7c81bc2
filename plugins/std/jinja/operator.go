package jinja

import (
	"math"
	"math/bits"
)

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
