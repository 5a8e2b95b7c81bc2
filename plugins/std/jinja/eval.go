package jinja

func (c constant) eval(*state) (Value, error) { return c.v, nil }

func (x *nameExpr) eval(st *state) (Value, error) {
	if v := st.get(x.ref); v != nil {
		return v, nil
	}
	return undefinedName(x.name), nil
}

func (x *nsRef) eval(*state) (Value, error) { return none, nil }

func evalAll(st *state, xs []expr) ([]Value, error) {
	out := make([]Value, len(xs))
	for i, x := range xs {
		v, err := x.eval(st)
		if err != nil {
			return nil, err
		}
		out[i] = v
	}
	return out, nil
}

func (x *tupleExpr) eval(st *state) (Value, error) {
	items, err := evalAll(st, x.items)
	if err != nil {
		return nil, err
	}
	return &Tuple{items: items}, st.growItems(len(items))
}

func (x *listExpr) eval(st *state) (Value, error) {
	items, err := evalAll(st, x.items)
	if err != nil {
		return nil, err
	}
	return &List{items}, st.growItems(len(items))
}

func (x *dictExpr) eval(st *state) (Value, error) {
	d := &Dict{entries: make([]entry, 0, len(x.keys))}
	for i := range x.keys {
		k, err := x.keys[i].eval(st)
		if err != nil {
			return nil, err
		}
		v, err := x.vals[i].eval(st)
		if err != nil {
			return nil, err
		}
		if err := d.set(k, v); err != nil {
			return nil, err
		}
	}
	return d, st.growItems(2 * len(x.keys))
}

func (x *condExpr) eval(st *state) (Value, error) {
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
	return &Undefined{hint: "the inline if-expression on " + x.where + " evaluated to false and no else section was defined."}, nil
}

func (x *logicExpr) eval(st *state) (Value, error) {
	v, err := x.left.eval(st)
	if err != nil {
		return nil, err
	}
	ok, err := truth(st, v)
	if err != nil || ok == x.or {
		return v, err
	}
	return x.right.eval(st)
}

func (x *notExpr) eval(st *state) (Value, error) {
	ok, err := st.test(x.x)
	return Bool(!ok), err
}

func (x *unaryExpr) eval(st *state) (Value, error) {
	v, err := x.x.eval(st)
	if err != nil {
		return nil, err
	}
	v, err = unaryOp(x.op, v)
	return v, atLine(err, x.line())
}

func (x *binaryExpr) eval(st *state) (Value, error) {
	if x.op == tAdd {
		w := st.takeSpare()
		v, err := x.sum(st, &w)
		if v == nil && err == nil {
			v = w.copied()
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
	v, err := st.binaryOp(x.op, a, b)
	if err == nil && x.negated {
		v, err = unaryOp(tSub, v)
	}
	return v, atLine(err, x.line())
}

// sum adds up from the left. As long as all operands are strings they are
// collected in w and the value is nil: a + b + c makes one string, not two.
func (x *binaryExpr) sum(st *state, w *sbuf) (a Value, err error) {
	if left, ok := x.left.(*binaryExpr); ok && left.op == tAdd {
		a, err = left.sum(st, w)
	} else if a, err = x.left.eval(st); err == nil {
		if s, ok := a.(*Str); ok && !s.safe {
			w.str(s)
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
		if s, ok := b.(*Str); ok && !s.safe {
			err := st.grow(int64(len(w.b) + len(s.s)))
			w.str(s)
			return nil, atLine(err, x.line())
		}
		a = w.copied()
	}
	v, err := st.binaryOp(x.op, a, b)
	return v, atLine(err, x.line())
}

func (x *concatExpr) eval(st *state) (Value, error) {
	var w sbuf
	safe := false
	for _, part := range x.parts {
		v, err := part.eval(st)
		if err != nil {
			return nil, err
		}
		if st.escape {
			if v, err = st.htmlEscape(v); err != nil {
				return nil, err
			}
			safe = true
		}
		s, err := st.str(v)
		if err != nil {
			return nil, err
		}
		if err := st.grow(int64(len(s.s))); err != nil {
			return nil, err
		}
		w.str(s)
	}
	s := w.done()
	if safe {
		s = s.markup()
	}
	return s, nil
}

func (x *compareExpr) eval(st *state) (Value, error) {
	left, err := x.first.eval(st)
	if err != nil {
		return nil, err
	}
	for _, o := range x.ops {
		right, err := o.x.eval(st)
		if err != nil {
			return nil, err
		}
		ok, err := st.compare(o.op, left, right)
		if err != nil {
			return nil, atLine(err, x.line())
		}
		if !ok {
			return Bool(false), nil
		}
		left = right
	}
	return Bool(true), nil
}

func (x *attrExpr) eval(st *state) (Value, error) {
	v, err := x.x.eval(st)
	if err != nil {
		return nil, err
	}
	if d, ok := v.(*Dict); ok {
		if x.key {
			if r, ok := d.getStr(x.attr); ok {
				return r, nil
			}
			return undefinedAttr(d, x.name), nil
		}
	}
	v, err = st.getattr(v, x.name)
	return v, atLine(err, x.line())
}

func (x *itemExpr) eval(st *state) (Value, error) {
	v, err := x.x.eval(st)
	if err != nil {
		return nil, err
	}
	arg, err := x.arg.eval(st)
	if err != nil {
		return nil, err
	}
	v, err = st.getitem(v, arg)
	return v, atLine(err, x.line())
}

func (x *sliceExpr) eval(st *state) (Value, error) {
	if x.x == nil {
		return &sliceObj{}, nil // part of a tuple of subscripts: a key that no dict has
	}
	v, err := x.x.eval(st)
	if err != nil {
		return nil, err
	}
	var parts [3]Value
	for i, p := range []expr{x.start, x.stop, x.step} {
		parts[i] = none
		if p == nil {
			continue
		}
		if parts[i], err = p.eval(st); err != nil {
			return nil, err
		}
	}
	v, err = st.slice(v, parts[0], parts[1], parts[2])
	return v, atLine(err, x.line())
}

// sliceObj is Python's slice where it is a value.
type sliceObj struct{}

func (*sliceObj) pyType() string { return "slice" }
