package jinja

import (
	"math/big"
	"strings"
)

// maxDepth bounds how deep values are walked into.
const maxDepth = 200

var errTooDeep = limitError("depth: a value nested deeper than %d", maxDepth)

// compare is Python's comparison of two values.
func (st *state) compare(op cmpOp, a, b Value) (bool, error) {
	switch op {
	case cmpEq:
		return st.equal(a, b, 0)
	case cmpNe:
		eq, err := st.equal(a, b, 0)
		return !eq, err
	case cmpIn:
		return st.contains(b, a)
	case cmpNotIn:
		in, err := st.contains(b, a)
		return !in, err
	}
	return st.order(op, a, b, 0)
}

// equal is a == b.
func (st *state) equal(a, b Value, depth int) (bool, error) {
	if depth > maxDepth {
		return false, errTooDeep
	}
	switch x := a.(type) {
	case *Str:
		y, ok := b.(*Str)
		return ok && x.s == y.s, nil
	case noneType:
		return b == none, nil
	case *Undefined:
		_, ok := b.(*Undefined)
		return ok, nil
	case *List:
		y, ok := b.(*List)
		if !ok {
			return false, nil
		}
		return st.equalItems(x.items, y.items, depth)
	case *Tuple:
		y, ok := b.(*Tuple)
		if !ok {
			return false, nil
		}
		return st.equalItems(x.items, y.items, depth)
	case *Dict:
		y, ok := b.(*Dict)
		if !ok || x.len() != y.len() {
			return false, nil
		}
		return st.equalDicts(x, y, depth)
	case *rangeObj:
		y, ok := b.(*rangeObj)
		if !ok || x.n != y.n {
			return false, nil
		}
		return x.n == 0 || x.start == y.start && (x.n == 1 || x.step == y.step), nil
	}
	if isNumber(a) && isNumber(b) {
		return compareNumbers(a, b) == 0, nil
	}
	return a == b, nil
}

func (st *state) equalItems(a, b []Value, depth int) (bool, error) {
	if len(a) != len(b) {
		return false, nil
	}
	for i := range a {
		if err := st.step(); err != nil {
			return false, err
		}
		eq, err := st.equal(a[i], b[i], depth+1)
		if !eq || err != nil {
			return false, err
		}
	}
	return true, nil
}

func (st *state) equalDicts(a, b *Dict, depth int) (bool, error) {
	for _, e := range a.entries {
		if err := st.step(); err != nil {
			return false, err
		}
		v, ok, err := b.get(e.key)
		if !ok || err != nil {
			return false, err
		}
		eq, err := st.equal(e.val, v, depth+1)
		if !eq || err != nil {
			return false, err
		}
	}
	return true, nil
}

// compareNumbers gives -1, 0 or 1, or 2 where a NaN is involved.
func compareNumbers(a, b Value) int {
	if x, ok := smallInt(a); ok {
		if y, ok := smallInt(b); ok {
			switch {
			case x < y:
				return -1
			case x > y:
				return 1
			}
			return 0
		}
	}
	x, okx := bigFloat(a)
	y, oky := bigFloat(b)
	if !okx || !oky {
		return 2
	}
	return x.Cmp(y)
}

func bigFloat(v Value) (*big.Float, bool) {
	if f, ok := v.(Float); ok {
		if f != f {
			return nil, false
		}
		return new(big.Float).SetFloat64(float64(f)), true
	}
	n, _ := asInt(v)
	return new(big.Float).SetPrec(uint(max(n.BitLen(), 64))).SetInt(n), true
}

var cmpText = map[cmpOp]string{cmpLt: "<", cmpLe: "<=", cmpGt: ">", cmpGe: ">="}

func decide(op cmpOp, c int) bool {
	switch op {
	case cmpLt:
		return c < 0
	case cmpLe:
		return c <= 0
	case cmpGt:
		return c > 0
	}
	return c >= 0
}

// order is a < b and its kin.
func (st *state) order(op cmpOp, a, b Value, depth int) (bool, error) {
	if depth > maxDepth {
		return false, errTooDeep
	}
	for _, v := range []Value{a, b} {
		if u, ok := v.(*Undefined); ok {
			return false, u.err()
		}
	}
	if isNumber(a) && isNumber(b) {
		c := compareNumbers(a, b)
		return c != 2 && decide(op, c), nil
	}
	switch x := a.(type) {
	case *Str:
		if y, ok := b.(*Str); ok {
			return decide(op, strings.Compare(x.s, y.s)), nil
		}
	case *List:
		if y, ok := b.(*List); ok {
			return st.orderItems(op, x.items, y.items, depth)
		}
	case *Tuple:
		if y, ok := b.(*Tuple); ok {
			return st.orderItems(op, x.items, y.items, depth)
		}
	}
	return false, typeError("'%s' not supported between instances of '%s' and '%s'", cmpText[op], className(a), className(b))
}

func (st *state) orderItems(op cmpOp, a, b []Value, depth int) (bool, error) {
	for i := range min(len(a), len(b)) {
		if err := st.step(); err != nil {
			return false, err
		}
		eq, err := st.equal(a[i], b[i], depth+1)
		if err != nil {
			return false, err
		}
		if !eq {
			return st.order(op, a[i], b[i], depth+1)
		}
	}
	return decide(op, len(a)-len(b)), nil
}

// contains is item in box.
func (st *state) contains(box, item Value) (bool, error) {
	switch b := box.(type) {
	case *Str:
		s, ok := item.(*Str)
		if !ok {
			return false, typeError("'in <string>' requires string as left operand, not %s", className(item))
		}
		return strings.Contains(b.s, s.s), st.read(b, false)
	case *Dict:
		i, err := b.find(item)
		return i >= 0, err
	case *dictView:
		if b.kind == viewKeys {
			i, err := b.d.find(item)
			return i >= 0, err
		}
	case *Namespace, *builtin, *Macro, noneType, Bool, Int, Float, *bigInt, *cycler, *joiner:
		return false, typeError("argument of type '%s' is not iterable", box.pyType())
	}
	next, err := st.iterate(box)
	if err != nil {
		return false, typeError("argument of type '%s' is not iterable", box.pyType())
	}
	for {
		v, ok, err := next()
		if !ok || err != nil {
			return false, err
		}
		if err := st.step(); err != nil {
			return false, err
		}
		if eq, err := st.equal(v, item, 0); eq || err != nil {
			return eq, err
		}
	}
}
