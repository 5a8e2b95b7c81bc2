package interp

import (
	"tgi/plugins/std/jinja/pylib"
	"tgi/plugins/std/jinja/value"
)

func (st *state) run(body []stmt) error {
	for _, s := range body {
		if err := st.Step(); err != nil {
			return value.AtLine(err, s.line())
		}
		if err := s.exec(st); err != nil {
			if err == errBreak || err == errContinue {
				return err
			}
			return value.AtLine(err, s.line())
		}
	}
	return nil
}

func (s *outputStmt) exec(st *state) error {
	for _, x := range s.parts {
		v, err := x.eval(st)
		if err != nil {
			return err
		}
		if st.escape {
			if _, ok := x.(constant); !ok {
				if v, err = st.EscapeHTML(v); err != nil {
					return err
				}
			}
		}
		str, err := st.Str(v)
		if err != nil {
			return err
		}
		if err := st.write(str); err != nil {
			return err
		}
	}
	return nil
}

func (st *state) test(x expr) (bool, error) {
	v, err := x.eval(st)
	if err != nil {
		return false, err
	}
	return st.Truth(v)
}

func (s *ifStmt) exec(st *state) error {
	ok, err := st.test(s.test)
	if err != nil {
		return err
	}
	if ok {
		return st.run(s.body)
	}
	for _, e := range s.elifs {
		ok, err := st.test(e.test)
		if err != nil {
			return value.AtLine(err, e.line())
		}
		if ok {
			return st.run(e.body)
		}
	}
	return st.run(s.els)
}

func (s *assignStmt) exec(st *state) error {
	if err := checkNamespaces(st, s.target); err != nil {
		return err
	}
	v, err := s.val.eval(st)
	if err != nil {
		return err
	}
	return st.assign(s.target, v)
}

// checkNamespaces makes sure that every ns.attr of a target has a namespace.
func checkNamespaces(st *state, target expr) error {
	switch t := target.(type) {
	case *nsRef:
		if _, ok := st.get(t.ref).(*pylib.Namespace); !ok {
			return value.Raise("TemplateRuntimeError", "cannot assign attribute on non-namespace object")
		}
	case *tupleExpr:
		for _, item := range t.items {
			if err := checkNamespaces(st, item); err != nil {
				return err
			}
		}
	}
	return nil
}

// assign stores v in a target.
func (st *state) assign(target expr, v value.Value) error {
	switch t := target.(type) {
	case *nameExpr:
		st.set(t.ref, v)
		if t.top {
			st.exports[t.name] = v
		}
		return nil
	case *nsRef:
		ns, ok := st.get(t.ref).(*pylib.Namespace)
		if !ok {
			return value.Raise("TemplateRuntimeError", "cannot assign attribute on non-namespace object")
		}
		return ns.Set(t.attr, v)
	case *tupleExpr:
		items, err := st.Unpack(v, len(t.items))
		if err != nil {
			return err
		}
		for i, x := range t.items {
			if err := st.assign(x, items[i]); err != nil {
				return err
			}
		}
		return nil
	}
	return value.TypeError("cannot assign")
}

// filterText gives a captured text to the filters of its block.
func (st *state) filterText(s *value.Str, filter expr) (value.Value, error) {
	if filter == nil {
		return s, nil
	}
	outer := st.body
	st.body = s
	v, err := filter.eval(st)
	st.body = outer
	return v, err
}

func (s *assignBlock) exec(st *state) error {
	st.enter(s.frame)
	t, err := st.capture(func() error { return st.run(s.body) })
	if err != nil {
		return err
	}
	v, err := st.filterText(t, s.filter)
	if err != nil {
		return err
	}
	if err := checkNamespaces(st, s.target); err != nil {
		return err
	}
	if err := st.assign(s.target, v); err != nil {
		return err
	}
	st.leave(s.frame)
	return nil
}

func (s *filterBlock) exec(st *state) error {
	st.enter(s.frame)
	t, err := st.capture(func() error { return st.run(s.body) })
	if err != nil {
		return err
	}
	v, err := st.filterText(t, s.filter)
	if err != nil {
		return err
	}
	str, err := st.Str(v)
	if err != nil {
		return err
	}
	st.leave(s.frame)
	return st.write(str)
}

func (s *withStmt) exec(st *state) error {
	st.enter(s.frame)
	for i, target := range s.targets {
		v, err := s.vals[i].eval(st)
		if err != nil {
			return err
		}
		if err := st.assign(target, v); err != nil {
			return err
		}
	}
	err := st.run(s.body)
	st.leave(s.frame)
	return err
}

func (s *scopeStmt) exec(st *state) error {
	st.enter(s.frame)
	v, err := s.option.eval(st)
	if err != nil {
		return err
	}
	on, err := st.Truth(v)
	if err != nil {
		return err
	}
	outer := st.escape
	st.escape = on
	err = st.run(s.body)
	st.escape = outer
	st.leave(s.frame)
	return err
}

func (s *blockStmt) exec(st *state) error {
	outer := st.exports
	if s.scoped {
		inner := make(map[string]value.Value, len(outer)+len(s.visible))
		for k, v := range outer {
			inner[k] = v
		}
		for k, r := range s.visible {
			if v := st.get(r); v != nil {
				inner[k] = v
			}
		}
		st.exports = inner
	}
	err := st.runBlock(s)
	st.exports = outer
	return err
}

func (st *state) runBlock(s *blockStmt) error {
	return st.callFunction(s.frame.fn, nil, func() error {
		st.enter(s.frame)
		return st.run(s.body)
	})
}

func (s *loopJump) exec(*state) error {
	if s.leave {
		return errBreak
	}
	return errContinue
}

func (s *loadStmt) exec(st *state) error {
	if _, err := s.source.eval(st); err != nil {
		return err
	}
	return value.TypeError("no loader for this environment specified")
}
