package jinja

// loopContext is the variable loop.
type loopContext struct {
	next     iterator
	iterable Value
	index0   int64
	len      int64 // -1: not known yet
	after    Value // looked ahead
	ended    bool  // looked ahead and found nothing
	current  Value
	before   Value
	changed  *Tuple
	depth0   int64
	recurse  func(iterable Value, depth int64) (Value, error)
}

func (*loopContext) pyType() string { return "LoopContext" }

// step gives the next item of the loop.
func (l *loopContext) step() (Value, bool, error) {
	var v Value
	if l.after != nil {
		v, l.after = l.after, nil
	} else {
		if l.ended {
			return nil, false, nil
		}
		var ok bool
		var err error
		if v, ok, err = l.next(); !ok || err != nil {
			return nil, false, err
		}
	}
	l.index0++
	l.before, l.current = l.current, v
	return v, true, nil
}

// peek looks one item ahead: nil at the end.
func (l *loopContext) peek() (Value, error) {
	if l.after != nil || l.ended {
		return l.after, nil
	}
	v, ok, err := l.next()
	if err != nil {
		return nil, err
	}
	if !ok {
		l.ended = true
		return nil, nil
	}
	l.after = v
	return v, nil
}

// length counts the items; those of a generator are read ahead for it.
func (l *loopContext) length(st *state) (int64, error) {
	if l.len >= 0 {
		return l.len, nil
	}
	if n, err := st.length(l.iterable); err == nil {
		l.len = n
		return n, nil
	}
	var rest []Value
	for {
		v, ok, err := l.next()
		if err != nil {
			return 0, err
		}
		if !ok {
			break
		}
		if err := st.growItems(1); err != nil {
			return 0, err
		}
		rest = append(rest, v)
	}
	l.next = sliceIterator(rest)
	l.len = int64(len(rest)) + l.index0 + 1
	if l.after != nil {
		l.len++
	}
	return l.len, nil
}

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
	return st.write(v.(*Str))
}

// recurse runs a recursive loop as the function that it is in jinja2.
func (s *forStmt) recurse(st *state, outer *env, iterable Value, depth int64) (Value, error) {
	var out *Str
	err := st.activate(s.bodyFn, outer, func() error {
		var err error
		out, err = st.capture(func() error {
			again := func(v Value, depth int64) (Value, error) { return s.recurse(st, outer, v, depth) }
			return s.loop(st, iterable, again, depth)
		})
		return err
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

func (s *forStmt) loop(st *state, iterable Value, recurse func(Value, int64) (Value, error), depth int64) error {
	next, err := st.iterate(iterable)
	if err != nil {
		return err
	}
	if s.test != nil {
		outer := st.env
		if s.recursive {
			outer = st.env.parent
		}
		next = s.filtered(st, outer, next)
		iterable = &generator{class: "generator", next: next}
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
		if err := st.step(); err != nil {
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
func (s *forStmt) filtered(st *state, outer *env, next iterator) iterator {
	inner := &env{slots: make([]Value, len(s.testFrame.fn.slots)), parent: outer}
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
	return func() (item Value, found bool, err error) {
		err = in(func() error {
			for !found {
				v, ok, err := next()
				if err != nil || !ok {
					return err
				}
				if err := st.step(); err != nil {
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
func (st *state) rebuild(target expr) Value {
	t, ok := target.(*tupleExpr)
	if !ok {
		return st.get(target.(*nameExpr).ref)
	}
	out := &Tuple{}
	for _, item := range t.items {
		out.items = append(out.items, st.rebuild(item))
	}
	return out
}
