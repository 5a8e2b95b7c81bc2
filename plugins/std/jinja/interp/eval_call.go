package interp

import (
	"tgi/plugins/std/jinja/chars"
	"tgi/plugins/std/jinja/value"
)

// eval evaluates the arguments of a call; first, where not nil, goes before them.
func (a *callArgs) eval(st *state, first value.Value) (value.Args, error) {
	out := value.Args{Pos: make([]value.Value, 0, len(a.pos)+1)}
	if first != nil {
		out.Pos = append(out.Pos, first)
	}
	for _, x := range a.pos {
		v, err := x.eval(st)
		if err != nil {
			return out, err
		}
		out.Pos = append(out.Pos, v)
	}
	for _, k := range a.kw {
		v, err := k.val.eval(st)
		if err != nil {
			return out, err
		}
		out.Keywords = append(out.Keywords, value.Keyword{Name: value.Text(k.name), Value: v})
	}
	if a.star != nil {
		v, err := a.star.eval(st)
		if err != nil {
			return out, err
		}
		more, err := st.List(v)
		if err != nil {
			return out, value.TypeError("Value after * must be an iterable, not %s", v.Type())
		}
		out.Pos = append(out.Pos, more...)
	}
	if a.doubleStar != nil {
		v, err := a.doubleStar.eval(st)
		if err != nil {
			return out, err
		}
		return out, out.AddKw(v)
	}
	return out, nil
}

func (x *callExpr) eval(st *state) (value.Value, error) { return x.evalWith(st, nil) }

// evalWith calls with caller as a further keyword argument, for call blocks.
func (x *callExpr) evalWith(st *state, caller *Macro) (value.Value, error) {
	if err := st.Step(); err != nil {
		return nil, err
	}
	f, err := x.fn.eval(st)
	if err != nil {
		return nil, err
	}
	a, err := x.args.eval(st, nil)
	if err != nil {
		return nil, value.AtLine(err, x.line())
	}
	if caller != nil {
		a.Keywords = append(a.Keywords, value.Keyword{Name: value.Text("caller"), Value: caller})
	}
	v, err := call(&st.Thread, f, a)
	return v, value.AtLine(err, x.line())
}

func (x *filterExpr) eval(st *state) (value.Value, error) {
	if err := st.Step(); err != nil {
		return nil, err
	}
	if x.f == nil {
		return nil, value.Raise("TemplateRuntimeError", "No filter named %s found.", chars.Quote(x.name))
	}
	var v value.Value = st.body
	if x.x != nil {
		var err error
		if v, err = x.x.eval(st); err != nil {
			return nil, err
		}
	}
	a, err := x.args.eval(st, v)
	if err != nil {
		return nil, err
	}
	v, err = x.f.Invoke(&st.Thread, a)
	return v, value.AtLine(err, x.line())
}

func (x *testExpr) eval(st *state) (value.Value, error) {
	if x.f == nil {
		return nil, value.Raise("TemplateRuntimeError", "No test named %s found.", chars.Quote(x.name))
	}
	v, err := x.x.eval(st)
	if err != nil {
		return nil, err
	}
	a, err := x.args.eval(st, v)
	if err != nil {
		return nil, err
	}
	v, err = x.f.Invoke(&st.Thread, a)
	return v, value.AtLine(err, x.line())
}

// call calls any value.
func call(th *value.Thread, f value.Value, a value.Args) (value.Value, error) {
	switch f := f.(type) {
	case *value.Func:
		return f.Do(th, a)
	case value.Callable:
		return f.Call(th, a)
	}
	return nil, value.TypeError("'%s' object is not callable", f.Type())
}
