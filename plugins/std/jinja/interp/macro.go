package interp

import (
	"tgi/plugins/std/jinja/chars"
	"tgi/plugins/std/jinja/value"
)

// Macro is what {% macro %} defines, and what caller is inside a call block.
type Macro struct {
	st  *state
	def *macroDef
	env *env // where it was defined
}

// Type implements Value.
func (*Macro) Type() string { return "Macro" }

// QualifiedType implements value.Qualified.
func (*Macro) QualifiedType() string { return "jinja2.runtime.Macro" }

// Repr implements value.Printable.
func (m *Macro) Repr(w *value.Writer) error {
	if m.def.name == "" {
		w.Text("<Macro anonymous>")
	} else {
		w.Text("<Macro " + chars.Quote(m.def.name) + ">")
	}
	return nil
}

func (m *Macro) reprName() string {
	if m.def.name == "" {
		return "None"
	}
	return chars.Quote(m.def.name)
}

func (s *macroStmt) exec(st *state) error {
	return st.assign(s.target, &Macro{st: st, def: &s.macroDef, env: st.env})
}

func (s *callBlock) exec(st *state) error {
	caller := &Macro{st: st, def: &s.macroDef, env: st.env}
	var v value.Value
	var err error
	if s.call == nil {
		v, err = caller.Call(&st.Thread, value.Args{})
	} else {
		v, err = s.call.evalWith(st, caller)
	}
	if err != nil {
		return err
	}
	str, err := st.Str(v)
	if err != nil {
		return err
	}
	return st.write(str)
}

// Call runs a macro; it follows jinja2's Macro.__call__.
func (m *Macro) Call(_ *value.Thread, a value.Args) (value.Value, error) {
	d := m.def
	given := a.Pos[:min(len(a.Pos), len(d.args))]
	vals := append(make([]value.Value, 0, len(d.args)), given...)
	kw := a.Keywords
	foundCaller := false
	for _, arg := range d.args[len(given):] {
		var v value.Value
		v, kw = value.TakeKeyword(kw, arg.name)
		vals = append(vals, v)
	}
	for _, arg := range d.args {
		foundCaller = foundCaller || arg.name == "caller"
	}
	var special [3]value.Value
	if d.usesSpecial[0] && !foundCaller {
		var v value.Value
		if v, kw = value.TakeKeyword(kw, "caller"); v == nil || v == value.None {
			v = &value.Undefined{Hint: "No caller defined", Name: value.Text("caller")}
		}
		special[0] = v
	}
	if d.usesSpecial[1] {
		special[1] = kwDict(kw)
	} else if len(kw) > 0 {
		for _, k := range kw {
			if k.Name.String() == "caller" {
				return nil, value.TypeError("macro %s was invoked with two values for the special caller argument. "+
					"This is most likely a bug.", m.reprName())
			}
		}
		return nil, value.TypeError("macro %s takes no keyword argument %s", m.reprName(), value.Repr(kw[0].Name))
	}
	if d.usesSpecial[2] {
		special[2] = &value.Tuple{Items: append([]value.Value(nil), a.Pos[len(given):]...)}
	} else if len(a.Pos) > len(d.args) {
		return nil, value.TypeError("macro %s takes not more than %d argument(s)", m.reprName(), len(d.args))
	}
	return m.invoke(vals, special)
}

func kwDict(kw []value.Keyword) *value.Dict {
	d := &value.Dict{}
	for _, k := range kw {
		_ = d.Set(k.Name, k.Value) // strings hash
	}
	return d
}

func (m *Macro) invoke(vals []value.Value, special [3]value.Value) (value.Value, error) {
	st, d := m.st, m.def
	var out *value.Str
	err := st.callFunction(d.frame.fn, m.env, func() error {
		var err error
		out, err = st.capture(func() error {
			for i, v := range vals {
				st.set(d.args[i].ref, v)
			}
			for i, v := range special {
				if v != nil && d.usesSpecial[i] {
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
func (m *Macro) defaults(st *state, vals []value.Value) error {
	d := m.def
	first := len(d.args) - len(d.defaults)
	for i, v := range vals {
		if v != nil {
			continue
		}
		name := d.args[i].name
		v = &value.Undefined{Hint: "parameter " + chars.Quote(name) + " was not provided", Name: value.Text(name)}
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

// blocksObject is the variable self: the template's blocks by name.
type blocksObject struct{ st *state }

// Type implements Value.
func (*blocksObject) Type() string { return "TemplateReference" }

// Repr implements value.Printable.
func (*blocksObject) Repr(w *value.Writer) error {
	w.Text("<TemplateReference None>")
	return nil
}

// Attr implements value.Attributed.
func (s *blocksObject) Attr(_ *value.Thread, name string) (value.Value, error) {
	return s.st.block(name), nil
}

// block gives the function that renders a block, or nil.
func (st *state) block(name string) value.Value {
	b := st.blocks[name]
	if b == nil {
		return nil
	}
	return &value.Func{Name: name, Do: func(*value.Thread, value.Args) (value.Value, error) {
		s, err := st.capture(func() error { return st.runBlock(b) })
		if err != nil {
			return nil, err
		}
		return s, nil
	}}
}

// Attr implements value.Attributed.
func (m *Macro) Attr(_ *value.Thread, name string) (value.Value, error) {
	switch name {
	case "name":
		if m.def.name == "" {
			return value.None, nil
		}
		return value.Text(m.def.name), nil
	case "arguments":
		t := &value.Tuple{}
		for _, a := range m.def.args {
			t.Items = append(t.Items, value.Text(a.name))
		}
		return t, nil
	case "catch_kwargs":
		return value.Bool(m.def.usesSpecial[1]), nil
	case "catch_varargs":
		return value.Bool(m.def.usesSpecial[2]), nil
	case "caller":
		return value.Bool(m.def.usesSpecial[0]), nil
	}
	return nil, nil
}
