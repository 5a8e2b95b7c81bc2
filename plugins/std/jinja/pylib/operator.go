package pylib

import (
	"tgi/plugins/std/jinja/format"
	"tgi/plugins/std/jinja/value"
)

// Binary is Python's a op b for arithmetic operators.
func Binary(th *value.Thread, op value.Op, a, b value.Value) (value.Value, error) {
	if u, ok := a.(*value.Undefined); ok {
		return nil, u.Err()
	}
	if s, ok := a.(*value.Str); ok && op == value.Mod {
		return format.Percent(th, s, b)
	}
	if u, ok := b.(*value.Undefined); ok {
		if _, isStr := a.(*value.Str); !isStr && op != value.Mod || value.IsNumber(a) {
			return nil, u.Err()
		}
		if op != value.Mul && op != value.Add || !isSequence(a) {
			return nil, u.Err()
		}
	}
	if value.IsNumber(a) && value.IsNumber(b) {
		return th.Arith(op, a, b)
	}
	switch op {
	case value.Add:
		return addValues(th, a, b)
	case value.Mul:
		return multiplyValues(th, a, b)
	}
	return nil, unsupported(op, a, b)
}

func isSequence(v value.Value) bool {
	switch v.(type) {
	case *value.Str, *value.List, *value.Tuple:
		return true
	}
	return false
}

func unsupported(op value.Op, a, b value.Value) error {
	name := op.String()
	if op == value.Pow {
		name = "** or pow()"
	}
	return value.TypeError("unsupported operand type(s) for %s: '%s' and '%s'", name, value.ClassName(a),
		value.ClassName(b))
}

// add joins sequences.
func addValues(th *value.Thread, a, b value.Value) (value.Value, error) {
	switch x := a.(type) {
	case *value.Str:
		y, ok := b.(*value.Str)
		if u, undef := b.(*value.Undefined); undef {
			return nil, u.Err()
		}
		if !ok {
			return nil, value.TypeError(`can only concatenate str (not "%s") to str`, value.ClassName(b))
		}
		if x.Safe() || y.Safe() {
			return th.AddMarkup(x, y)
		}
		return value.Concat(x, y), th.Grow(int64(len(x.String()) + len(y.String())))
	case *value.List:
		y, ok := b.(*value.List)
		if u, undef := b.(*value.Undefined); undef {
			return nil, u.Err()
		}
		if !ok {
			return nil, value.TypeError(`can only concatenate list (not "%s") to list`, value.ClassName(b))
		}
		return &value.List{Items: concatItems(x.Items, y.Items)}, th.GrowItems(len(x.Items) + len(y.Items))
	case *value.Tuple:
		y, ok := b.(*value.Tuple)
		if u, undef := b.(*value.Undefined); undef {
			return nil, u.Err()
		}
		if !ok {
			return nil, value.TypeError(`can only concatenate tuple (not "%s") to tuple`, value.ClassName(b))
		}
		return &value.Tuple{Items: concatItems(x.Items, y.Items)}, th.GrowItems(len(x.Items) + len(y.Items))
	}
	return nil, unsupported(value.Add, a, b)
}

func concatItems(a, b []value.Value) []value.Value {
	return append(append(make([]value.Value, 0, len(a)+len(b)), a...), b...)
}

// multiply repeats a sequence.
func multiplyValues(th *value.Thread, a, b value.Value) (value.Value, error) {
	if !isSequence(a) && isSequence(b) {
		a, b = b, a
	}
	if !isSequence(a) {
		return nil, unsupported(value.Mul, a, b)
	}
	if u, ok := b.(*value.Undefined); ok {
		return nil, u.Err()
	}
	n, ok := value.AsInt64(b)
	if _, isBig := b.(*value.BigInt); isBig {
		return nil, value.Raise("OverflowError", "cannot fit 'int' into an index-sized integer")
	}
	if !ok {
		return nil, value.TypeError("can't multiply sequence by non-int of type '%s'", value.ClassName(b))
	}
	n = max(n, 0)
	switch x := a.(type) {
	case *value.Str:
		if err := th.GrowTimes(int64(len(x.String())), n); err != nil {
			return nil, err
		}
		return x.Repeat(int(n)), nil
	case *value.List:
		items, err := repeatItems(th, x.Items, n)
		return &value.List{Items: items}, err
	}
	items, err := repeatItems(th, a.(*value.Tuple).Items, n)
	return &value.Tuple{Items: items}, err
}

func repeatItems(th *value.Thread, items []value.Value, n int64) ([]value.Value, error) {
	if err := th.GrowTimes(16*int64(len(items)), n); err != nil {
		return nil, err
	}
	if len(items) == 0 {
		return nil, nil
	}
	if err := th.Work(len(items) * int(n)); err != nil {
		return nil, err
	}
	out := make([]value.Value, 0, len(items)*int(n))
	for range n {
		out = append(out, items...)
	}
	return out, nil
}
