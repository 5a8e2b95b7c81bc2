package interp

import "tgi/plugins/std/jinja/value"

func (s *forStmt) exec(st *state) error {
	iterable, err := s.iter.eval(st)
	if err != nil {
		return err
	}
	if !s.recursive {
		return s.loop(st, iterable, nil, 0)
	}
	v, err := s.recurse(st, st.env, iterable, 0)
	if err != nil {
		return err
	}
	return st.write(v.(*value.Str))
}

// recurse runs a recursive loop as the function that it is in jinja2.
func (s *forStmt) recurse(st *state, outer *env, iterable value.Value, depth int64) (value.Value, error) {
	var out *value.Str
	err := st.callFunction(s.bodyFn, outer, func() error {
		var err error
		out, err = st.capture(func() error {
			again := func(v value.Value, depth int64) (value.Value, error) { return s.recurse(st, outer, v, depth) }
			return s.loop(st, iterable, again, depth)
		})
		return err
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

func (s *forStmt) loop(st *state, iterable value.Value, recurse func(value.Value, int64) (value.Value, error),
	depth int64) error {
	next, err := st.Iterate(iterable)
	if err != nil {
		return err
	}
	if s.test != nil {
		outer := st.env
		if s.recursive {
			outer = st.env.parent
		}
		next = s.filtered(st, outer, next)
		iterable = &value.Generator{Class: "generator", Next: next}
	}
	var lc *loopContext
	if s.extended {
		lc = &loopContext{next: next, iterable: iterable, index0: -1, len: -1, depth0: depth, recurse: recurse}
		next = lc.step
	}
	empty := true // jinja2: until the end of the body is reached once
	for {
		v, ok, err := next()
		if err != nil {
			return err
		}
		if !ok {
			break
		}
		if err := st.Step(); err != nil {
			return err
		}
		if err := st.assign(s.target, v); err != nil {
			return err
		}
		if s.extended {
			st.set(s.loopRef, lc)
		}
		st.enter(s.bodyFrame)
		err = st.run(s.body)
		if err == errBreak {
			break
		}
		if err == errContinue {
			continue
		}
		if err != nil {
			return err
		}
		empty = false
	}
	st.leave(s.bodyFrame)
	if !empty || len(s.els) == 0 {
		return nil
	}
	st.enter(s.elseFrame)
	err = st.run(s.els)
	st.leave(s.elseFrame)
	return err
}

// filtered gives the items that pass the loop's test, asked when they are due.
func (s *forStmt) filtered(st *state, outer *env, next value.Iterator) value.Iterator {
	inner := &env{slots: make([]value.Value, len(s.testFrame.fn.slots)), parent: outer}
	entered := false
	in := func(f func() error) error {
		saved := st.env
		st.env = inner
		defer func() { st.env = saved }()
		if !entered {
			entered = true
			st.enter(s.testFrame)
		}
		return f()
	}
	return func() (item value.Value, found bool, err error) {
		err = in(func() error {
			for !found {
				v, ok, err := next()
				if err != nil || !ok {
					return err
				}
				if err := st.Step(); err != nil {
					return err
				}
				if err := st.assign(s.testTarget, v); err != nil {
					return err
				}
				if found, err = st.test(s.test); err != nil {
					return err
				}
				item = st.rebuild(s.testTarget)
			}
			return nil
		})
		return item, found, err
	}
}

// rebuild is the value of a target after it was assigned: tuples are made anew.
func (st *state) rebuild(target expr) value.Value {
	t, ok := target.(*tupleExpr)
	if !ok {
		return st.get(target.(*nameExpr).ref)
	}
	out := &value.Tuple{}
	for _, item := range t.items {
		out.Items = append(out.Items, st.rebuild(item))
	}
	return out
}
