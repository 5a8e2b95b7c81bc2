package interp

import (
	"strconv"

	"tgi/plugins/std/jinja/pylib"
	"tgi/plugins/std/jinja/value"
)

func (c constant) eval(*state) (value.Value, error) { return c.v, nil }

func (x *nameExpr) eval(st *state) (value.Value, error) {
	if v := st.get(x.ref); v != nil {
		return v, nil
	}
	return value.UndefinedName(x.name), nil
}

func (x *nsRef) eval(*state) (value.Value, error) { return value.None, nil }

func evalExprs(st *state, xs []expr) ([]value.Value, error) {
	out := make([]value.Value, len(xs))
	for i, x := range xs {
		v, err := x.eval(st)
		if err != nil {
			return nil, err
		}
		out[i] = v
	}
	return out, nil
}

func (x *tupleExpr) eval(st *state) (value.Value, error) {
	items, err := evalExprs(st, x.items)
	if err != nil {
		return nil, err
	}
	return &value.Tuple{Items: items}, st.GrowItems(len(items))
}

func (x *listExpr) eval(st *state) (value.Value, error) {
	items, err := evalExprs(st, x.items)
	if err != nil {
		return nil, err
	}
	return &value.List{Items: items}, st.GrowItems(len(items))
}

func (x *dictExpr) eval(st *state) (value.Value, error) {
	d := value.NewDictSize(len(x.keys))
	for i := range x.keys {
		k, err := x.keys[i].eval(st)
		if err != nil {
			return nil, err
		}
		v, err := x.vals[i].eval(st)
		if err != nil {
			return nil, err
		}
		if err := d.Set(k, v); err != nil {
			return nil, err
		}
	}
	return d, st.GrowItems(2 * len(x.keys))
}

func (x *condExpr) eval(st *state) (value.Value, error) {
	ok, err := st.test(x.test)
	if err != nil {
		return nil, err
	}
	if ok {
		return x.yes.eval(st)
	}
	if x.no != nil {
		return x.no.eval(st)
	}
	return &value.Undefined{Hint: "the inline if-expression on line " + strconv.Itoa(x.line()) +
		" evaluated to false and no else section was defined."}, nil
}

func (x *logicExpr) eval(st *state) (value.Value, error) {
	v, err := x.left.eval(st)
	if err != nil {
		return nil, err
	}
	ok, err := st.Truth(v)
	if err != nil || ok == x.or {
		return v, err
	}
	return x.right.eval(st)
}

func (x *notExpr) eval(st *state) (value.Value, error) {
	ok, err := st.test(x.x)
	return value.Bool(!ok), err
}

func (x *unaryExpr) eval(st *state) (value.Value, error) {
	v, err := x.x.eval(st)
	if err != nil {
		return nil, err
	}
	v, err = value.Unary(x.op, v)
	return v, value.AtLine(err, x.line())
}

func (x *binaryExpr) eval(st *state) (value.Value, error) {
	if x.op == value.Add {
		w := st.takeSpare()
		v, err := x.sum(st, &w)
		if v == nil && err == nil {
			v = w.Copied()
		}
		st.giveSpare(w)
		return v, err
	}
	a, err := x.left.eval(st)
	if err != nil {
		return nil, err
	}
	b, err := x.right.eval(st)
	if err != nil {
		return nil, err
	}
	v, err := pylib.Binary(&st.Thread, x.op, a, b)
	if err == nil && x.negated {
		v, err = value.Unary(value.Sub, v)
	}
	return v, value.AtLine(err, x.line())
}

// sum adds up from the left. As long as all operands are strings they are
// collected in w and the value is nil: a + b + c makes one string, not two.
func (x *binaryExpr) sum(st *state, w *value.Buffer) (a value.Value, err error) {
	if left, ok := x.left.(*binaryExpr); ok && left.op == value.Add {
		a, err = left.sum(st, w)
	} else if a, err = x.left.eval(st); err == nil {
		if s, ok := a.(*value.Str); ok && !s.Safe() {
			w.Str(s)
			a = nil
		}
	}
	if err != nil {
		return nil, err
	}
	b, err := x.right.eval(st)
	if err != nil {
		return nil, err
	}
	if a == nil {
		if s, ok := b.(*value.Str); ok && !s.Safe() {
			err := st.Grow(int64(len(w.Bytes) + len(s.String())))
			w.Str(s)
			return nil, value.AtLine(err, x.line())
		}
		a = w.Copied()
	}
	v, err := pylib.Binary(&st.Thread, x.op, a, b)
	return v, value.AtLine(err, x.line())
}

func (x *concatExpr) eval(st *state) (value.Value, error) {
	var w value.Buffer
	safe := false
	for _, part := range x.parts {
		v, err := part.eval(st)
		if err != nil {
			return nil, err
		}
		if st.escape {
			if v, err = st.EscapeHTML(v); err != nil {
				return nil, err
			}
			safe = true
		}
		s, err := st.Str(v)
		if err != nil {
			return nil, err
		}
		if err := st.Grow(int64(len(s.String()))); err != nil {
			return nil, err
		}
		w.Str(s)
	}
	s := w.Done()
	if safe {
		s = s.Markup()
	}
	return s, nil
}

func (x *compareExpr) eval(st *state) (value.Value, error) {
	left, err := x.first.eval(st)
	if err != nil {
		return nil, err
	}
	for _, o := range x.ops {
		right, err := o.x.eval(st)
		if err != nil {
			return nil, err
		}
		ok, err := st.Compare(o.op, left, right)
		if err != nil {
			return nil, value.AtLine(err, x.line())
		}
		if !ok {
			return value.Bool(false), nil
		}
		left = right
	}
	return value.Bool(true), nil
}

func (x *attrExpr) eval(st *state) (value.Value, error) {
	v, err := x.x.eval(st)
	if err != nil {
		return nil, err
	}
	if d, ok := v.(*value.Dict); ok {
		if x.key {
			if r, ok := d.GetStr(x.attr); ok {
				return r, nil
			}
			return value.UndefinedAttr(d, x.name), nil
		}
	}
	v, err = pylib.GetAttr(&st.Thread, v, x.name)
	return v, value.AtLine(err, x.line())
}

func (x *itemExpr) eval(st *state) (value.Value, error) {
	v, err := x.x.eval(st)
	if err != nil {
		return nil, err
	}
	arg, err := x.arg.eval(st)
	if err != nil {
		return nil, err
	}
	v, err = pylib.GetItem(&st.Thread, v, arg)
	return v, value.AtLine(err, x.line())
}

func (x *sliceExpr) eval(st *state) (value.Value, error) {
	if x.x == nil {
		return &sliceValue{}, nil // part of a tuple of subscripts: a key that no dict has
	}
	v, err := x.x.eval(st)
	if err != nil {
		return nil, err
	}
	var parts [3]value.Value
	for i, p := range []expr{x.start, x.stop, x.step} {
		parts[i] = value.None
		if p == nil {
			continue
		}
		if parts[i], err = p.eval(st); err != nil {
			return nil, err
		}
	}
	v, err = st.Slice(v, parts[0], parts[1], parts[2])
	return v, value.AtLine(err, x.line())
}

// sliceValue is Python's slice where it is a value.
type sliceValue struct{}

// Type implements Value.
func (*sliceValue) Type() string { return "slice" }
