package value

// Args are the arguments of a call.
type Args struct {
	Pos      []Value
	Keywords []Keyword
}

// Keyword is an argument passed by name.
type Keyword struct {
	Name  *Str
	Value Value
}

// AddKw adds the entries of a dict as keyword arguments.
func (a *Args) AddKw(v Value) error {
	d, ok := v.(*Dict)
	if u, undef := v.(*Undefined); undef {
		return u.Err()
	}
	if !ok {
		return TypeError("jinja2.sandbox.SandboxedEnvironment.call() argument after ** must be a mapping, not %s",
			v.Type())
	}
	for _, e := range d.entries {
		k, ok := e.Key.(*Str)
		if !ok {
			return TypeError("keywords must be strings")
		}
		for _, have := range a.Keywords {
			if have.Name.s == k.s {
				return TypeError("jinja2.sandbox.SandboxedEnvironment.call() got multiple values for "+
					"keyword argument %s", Repr(k))
			}
		}
		a.Keywords = append(a.Keywords, Keyword{k, e.Value})
	}
	return nil
}

// TakeKeyword removes a keyword argument.
func TakeKeyword(kw []Keyword, name string) (Value, []Keyword) {
	for i, k := range kw {
		if k.Name.s == name {
			rest := append(append(make([]Keyword, 0, len(kw)-1), kw[:i]...), kw[i+1:]...)
			return k.Value, rest
		}
	}
	return nil, kw
}
