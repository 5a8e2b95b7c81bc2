package jinja

// args is what a call passes.
type args struct {
	pos []Value
	kw  []kwArg
}

type kwArg struct {
	name *Str
	val  Value
}

// eval evaluates the arguments of a call; first, where not nil, goes before them.
func (a *argList) eval(st *state, first Value) (args, error) {
	out := args{pos: make([]Value, 0, len(a.pos)+1)}
	if first != nil {
		out.pos = append(out.pos, first)
	}
	for _, x := range a.pos {
		v, err := x.eval(st)
		if err != nil {
			return out, err
		}
		out.pos = append(out.pos, v)
	}
	for _, k := range a.kw {
		v, err := k.val.eval(st)
		if err != nil {
			return out, err
		}
		out.kw = append(out.kw, kwArg{text(k.name), v})
	}
	if a.star != nil {
		v, err := a.star.eval(st)
		if err != nil {
			return out, err
		}
		more, err := st.list(v)
		if err != nil {
			return out, typeError("Value after * must be an iterable, not %s", v.pyType())
		}
		out.pos = append(out.pos, more...)
	}
	if a.star2 != nil {
		v, err := a.star2.eval(st)
		if err != nil {
			return out, err
		}
		return out, out.addKw(v)
	}
	return out, nil
}

// addKw adds the entries of a dict as keyword arguments.
func (a *args) addKw(v Value) error {
	d, ok := v.(*Dict)
	if u, undef := v.(*Undefined); undef {
		return u.err()
	}
	if !ok {
		return typeError("jinja2.sandbox.SandboxedEnvironment.call() argument after ** must be a mapping, not %s", v.pyType())
	}
	for _, e := range d.entries {
		k, ok := e.key.(*Str)
		if !ok {
			return typeError("keywords must be strings")
		}
		for _, have := range a.kw {
			if have.name.s == k.s {
				return typeError("jinja2.sandbox.SandboxedEnvironment.call() got multiple values for keyword argument %s", reprText(k))
			}
		}
		a.kw = append(a.kw, kwArg{k, e.val})
	}
	return nil
}

func (x *callExpr) eval(st *state) (Value, error) { return x.evalWith(st, nil) }

// evalWith calls with caller as a further keyword argument, for call blocks.
func (x *callExpr) evalWith(st *state, caller *Macro) (Value, error) {
	if err := st.step(); err != nil {
		return nil, err
	}
	f, err := x.fn.eval(st)
	if err != nil {
		return nil, err
	}
	a, err := x.args.eval(st, nil)
	if err != nil {
		return nil, atLine(err, x.line())
	}
	if caller != nil {
		a.kw = append(a.kw, kwArg{text("caller"), caller})
	}
	v, err := st.call(f, a)
	return v, atLine(err, x.line())
}

// call calls any value.
func (st *state) call(f Value, a args) (Value, error) {
	switch f := f.(type) {
	case *builtin:
		return f.call(st, a)
	case *Macro:
		return f.call(st, a)
	case *loopContext:
		return f.call(a)
	case *joiner:
		if len(a.pos)+len(a.kw) > 0 {
			return nil, typeError("Joiner.__call__() takes 1 positional argument but %d were given", len(a.pos)+1)
		}
		if !f.used {
			f.used = true
			return emptyStr, nil
		}
		return f.sep, nil
	case *Undefined:
		return nil, f.err()
	}
	return nil, typeError("'%s' object is not callable", f.pyType())
}

func (l *loopContext) call(a args) (Value, error) {
	if len(a.pos) != 1 {
		return nil, typeError("LoopContext.__call__() missing 1 required positional argument: 'iterable'")
	}
	if l.recurse == nil {
		return nil, typeError("The loop must have the 'recursive' marker to be called recursively.")
	}
	return l.recurse(a.pos[0], l.depth0+1)
}

func (x *filterExpr) eval(st *state) (Value, error) {
	if err := st.step(); err != nil {
		return nil, err
	}
	if x.f == nil {
		return nil, raise("TemplateRuntimeError", "No filter named %s found.", reprText(text(x.name)))
	}
	var v Value = st.body
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
	v, err = x.f.invoke(st, a)
	return v, atLine(err, x.line())
}

func (x *testExpr) eval(st *state) (Value, error) {
	if x.f == nil {
		return nil, raise("TemplateRuntimeError", "No test named %s found.", reprText(text(x.name)))
	}
	v, err := x.x.eval(st)
	if err != nil {
		return nil, err
	}
	a, err := x.args.eval(st, v)
	if err != nil {
		return nil, err
	}
	v, err = x.f.invoke(st, a)
	return v, atLine(err, x.line())
}
