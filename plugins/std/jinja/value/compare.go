package value

import (
	"math/big"
	"strings"
)

// MaxDepth is the deepest nesting of values that operations follow.
const MaxDepth = 200

var errTooDeep = LimitError("depth: a value nested deeper than %d", MaxDepth)

// Compare is Python's comparison of two values.
func (th *Thread) Compare(op CompareOp, a, b Value) (bool, error) {
	switch op {
	case Eq:
		return th.Equal(a, b, 0)
	case Ne:
		eq, err := th.Equal(a, b, 0)
		return !eq, err
	case In:
		return th.Contains(b, a)
	case NotIn:
		in, err := th.Contains(b, a)
		return !in, err
	}
	return th.Order(op, a, b, 0)
}

// Equal is a == b.
func (th *Thread) Equal(a, b Value, depth int) (bool, error) {
	if depth > MaxDepth {
		return false, errTooDeep
	}
	switch x := a.(type) {
	case *Str:
		y, ok := b.(*Str)
		return ok && x.s == y.s, nil
	case NoneType:
		return b == None, nil
	case *Undefined:
		_, ok := b.(*Undefined)
		return ok, nil
	case *List:
		y, ok := b.(*List)
		if !ok {
			return false, nil
		}
		return th.equalItems(x.Items, y.Items, depth)
	case *Tuple:
		y, ok := b.(*Tuple)
		if !ok {
			return false, nil
		}
		return th.equalItems(x.Items, y.Items, depth)
	case *Dict:
		y, ok := b.(*Dict)
		if !ok || x.Len() != y.Len() {
			return false, nil
		}
		return th.equalDicts(x, y, depth)
	case *Range:
		y, ok := b.(*Range)
		if !ok || x.N != y.N {
			return false, nil
		}
		return x.N == 0 || x.Start == y.Start && (x.N == 1 || x.Step == y.Step), nil
	}
	if IsNumber(a) && IsNumber(b) {
		return compareNumbers(a, b) == 0, nil
	}
	return a == b, nil
}

func (th *Thread) equalItems(a, b []Value, depth int) (bool, error) {
	if len(a) != len(b) {
		return false, nil
	}
	for i := range a {
		if err := th.Step(); err != nil {
			return false, err
		}
		eq, err := th.Equal(a[i], b[i], depth+1)
		if !eq || err != nil {
			return false, err
		}
	}
	return true, nil
}

func (th *Thread) equalDicts(a, b *Dict, depth int) (bool, error) {
	for _, e := range a.entries {
		if err := th.Step(); err != nil {
			return false, err
		}
		v, ok, err := b.Get(e.Key)
		if !ok || err != nil {
			return false, err
		}
		eq, err := th.Equal(e.Value, v, depth+1)
		if !eq || err != nil {
			return false, err
		}
	}
	return true, nil
}

// compareNumbers returns -1, 0 or 1, or 2 if one of the numbers is NaN.
func compareNumbers(a, b Value) int {
	if x, ok := AsInt64(a); ok {
		if y, ok := AsInt64(b); ok {
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
	n, _ := AsInt(v)
	return new(big.Float).SetPrec(uint(max(n.BitLen(), 64))).SetInt(n), true
}

var cmpText = map[CompareOp]string{Lt: "<", Le: "<=", Gt: ">", Ge: ">="}

func decide(op CompareOp, c int) bool {
	switch op {
	case Lt:
		return c < 0
	case Le:
		return c <= 0
	case Gt:
		return c > 0
	}
	return c >= 0
}

// Order is a < b, a <= b, a > b or a >= b.
func (th *Thread) Order(op CompareOp, a, b Value, depth int) (bool, error) {
	if depth > MaxDepth {
		return false, errTooDeep
	}
	for _, v := range []Value{a, b} {
		if u, ok := v.(*Undefined); ok {
			return false, u.Err()
		}
	}
	if IsNumber(a) && IsNumber(b) {
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
			return th.orderItems(op, x.Items, y.Items, depth)
		}
	case *Tuple:
		if y, ok := b.(*Tuple); ok {
			return th.orderItems(op, x.Items, y.Items, depth)
		}
	}
	return false, TypeError("'%s' not supported between instances of '%s' and '%s'", cmpText[op], ClassName(a),
		ClassName(b))
}

func (th *Thread) orderItems(op CompareOp, a, b []Value, depth int) (bool, error) {
	for i := range min(len(a), len(b)) {
		if err := th.Step(); err != nil {
			return false, err
		}
		eq, err := th.Equal(a[i], b[i], depth+1)
		if err != nil {
			return false, err
		}
		if !eq {
			return th.Order(op, a[i], b[i], depth+1)
		}
	}
	return decide(op, len(a)-len(b)), nil
}

// Contains is item in box.
func (th *Thread) Contains(box, item Value) (bool, error) {
	switch b := box.(type) {
	case *Str:
		s, ok := item.(*Str)
		if !ok {
			return false, TypeError("'in <string>' requires string as left operand, not %s", ClassName(item))
		}
		return strings.Contains(b.s, s.s), th.Read(b, false)
	case *Dict:
		i, err := b.Find(item)
		return i >= 0, err
	case *DictView:
		if b.kind == ViewKeys {
			i, err := b.Dict.Find(item)
			return i >= 0, err
		}
	}
	next, err := th.Iterate(box)
	if err != nil {
		return false, TypeError("argument of type '%s' is not iterable", box.Type())
	}
	for {
		v, ok, err := next()
		if !ok || err != nil {
			return false, err
		}
		if err := th.Step(); err != nil {
			return false, err
		}
		if eq, err := th.Equal(v, item, 0); eq || err != nil {
			return eq, err
		}
	}
}
