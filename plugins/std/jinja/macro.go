package jinja

// Macro is what {% macro %} defines, and what caller is inside a call block.
type Macro struct {
	def *macroDef
	env *env // where it was defined
}

func (*Macro) pyType() string { return "Macro" }

// repr is Python's repr of a macro.
func (m *Macro) repr() string {
	if m.def.name == "" {
		return "<Macro anonymous>"
	}
	return "<Macro " + reprText(text(m.def.name)) + ">"
}

func (m *Macro) reprName() string {
	if m.def.name == "" {
		return "None"
	}
	return reprText(text(m.def.name))
}

func (s *macroStmt) exec(st *state) error {
	return st.assign(s.target, &Macro{def: &s.macroDef, env: st.env})
}

func (s *callBlock) exec(st *state) error {
	caller := &Macro{def: &s.macroDef, env: st.env}
	var v Value
	var err error
	if s.call == nil {
		v, err = caller.call(st, args{})
	} else {
		v, err = s.call.evalWith(st, caller)
	}
	if err != nil {
		return err
	}
	str, err := st.str(v)
	if err != nil {
		return err
	}
	return st.write(str)
}

// call runs a macro; it follows jinja2's Macro.__call__.
func (m *Macro) call(st *state, a args) (Value, error) {
	d := m.def
	given := a.pos[:min(len(a.pos), len(d.args))]
	vals := append(make([]Value, 0, len(d.args)), given...)
	kw := a.kw
	foundCaller := false
	for _, arg := range d.args[len(given):] {
		var v Value
		v, kw = takeKw(kw, arg.name)
		vals = append(vals, v)
	}
	for _, arg := range d.args {
		foundCaller = foundCaller || arg.name == "caller"
	}
	var special [3]Value
	if d.uses[0] && !foundCaller {
		var v Value
		if v, kw = takeKw(kw, "caller"); v == nil || v == none {
			v = &Undefined{hint: "No caller defined", name: text("caller")}
		}
		special[0] = v
	}
	if d.uses[1] {
		special[1] = kwDict(kw)
	} else if len(kw) > 0 {
		for _, k := range kw {
			if k.name.s == "caller" {
				return nil, typeError("macro %s was invoked with two values for the special caller argument. This is most likely a bug.", m.reprName())
			}
		}
		return nil, typeError("macro %s takes no keyword argument %s", m.reprName(), reprText(kw[0].name))
	}
	if d.uses[2] {
		special[2] = &Tuple{items: append([]Value(nil), a.pos[len(given):]...)}
	} else if len(a.pos) > len(d.args) {
		return nil, typeError("macro %s takes not more than %d argument(s)", m.reprName(), len(d.args))
	}
	return m.invoke(st, vals, special)
}

// takeKw removes a keyword argument.
func takeKw(kw []kwArg, name string) (Value, []kwArg) {
	for i, k := range kw {
		if k.name.s == name {
			rest := append(append(make([]kwArg, 0, len(kw)-1), kw[:i]...), kw[i+1:]...)
			return k.val, rest
		}
	}
	return nil, kw
}

func kwDict(kw []kwArg) *Dict {
	d := &Dict{}
	for _, k := range kw {
		_ = d.set(k.name, k.val) // strings hash
	}
	return d
}

func (m *Macro) invoke(st *state, vals []Value, special [3]Value) (Value, error) {
	d := m.def
	var out *Str
	err := st.activate(d.frame.fn, m.env, func() error {
		var err error
		out, err = st.capture(func() error {
			for i, v := range vals {
				st.set(d.args[i].ref, v)
			}
			for i, v := range special {
				if v != nil && d.uses[i] {
					st.set(d.special[i], v)
				}
			}
			st.enter(d.frame)
			if err := m.defaults(st, vals); err != nil {
				return err
			}
			return st.run(d.body)
		})
		return err
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// defaults fills the parameters that were not given.
func (m *Macro) defaults(st *state, vals []Value) error {
	d := m.def
	first := len(d.args) - len(d.defaults)
	for i, v := range vals {
		if v != nil {
			continue
		}
		name := d.args[i].name
		v = &Undefined{hint: "parameter " + reprText(text(name)) + " was not provided", name: text(name)}
		if i >= first {
			var err error
			if v, err = d.defaults[i-first].eval(st); err != nil {
				return err
			}
		}
		st.set(d.args[i].ref, v)
	}
	return nil
}

// selfObj is the variable self: the template's blocks by name.
type selfObj struct{}

func (*selfObj) pyType() string { return "TemplateReference" }

// block gives the function that renders a block, or nil.
func (st *state) block(name string) Value {
	b := st.blocks[name]
	if b == nil {
		return nil
	}
	return &builtin{name: name, call: func(st *state, a args) (Value, error) {
		s, err := st.capture(func() error { return st.runBlock(b) })
		if err != nil {
			return nil, err
		}
		return s, nil
	}}
}
