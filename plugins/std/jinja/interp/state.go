package interp

import (
	"errors"

	"tgi/plugins/std/jinja/pylib"
	"tgi/plugins/std/jinja/value"
)

// state is one rendering.
type state struct {
	value.Thread
	limits  Limits
	depth   int
	out     *value.Buffer // where output goes now
	env     *env
	vars    *value.Dict            // the request's variables
	exports map[string]value.Value // what the template set at its top level
	blocks  map[string]*blockStmt
	escape  bool       // inside {% autoescape true %}
	body    *value.Str // text that the filter of a block works on
	self    *blocksObject
	spare   value.Buffer // see takeSpare
}

// env is an activation of a fn.
type env struct {
	slots  []value.Value // nil: not set
	parent *env
}

// The jumps of loop controls travel as errors up to their loop.
var (
	errBreak    = errors.New("BUG: break left its loop")
	errContinue = errors.New("BUG: continue left its loop")
)

// deeper counts calls within calls.
func (st *state) deeper() error {
	if st.depth >= st.limits.Depth {
		return value.LimitError("depth: calls nested deeper than %d", st.limits.Depth)
	}
	st.depth++
	return nil
}

// write puts text into the current buffer.
func (st *state) write(s *value.Str) error {
	if int64(len(st.out.Bytes)+len(s.String())) > st.limits.Output {
		return value.LimitError("output: more than %d bytes", st.limits.Output)
	}
	st.out.Str(s)
	return nil
}

// capture runs f with a buffer of its own and returns what f wrote.
func (st *state) capture(f func() error) (*value.Str, error) {
	outer := st.out
	st.out = &value.Buffer{}
	err := f()
	inner := st.out
	st.out = outer
	if err != nil {
		return nil, err
	}
	if err := st.Grow(int64(len(inner.Bytes))); err != nil {
		return nil, err
	}
	s := inner.Done()
	if st.escape {
		s = s.Markup()
	}
	return s, nil
}

func (st *state) get(r slotRef) value.Value {
	e := st.env
	for range r.up {
		e = e.parent
	}
	return e.slots[r.slot]
}

func (st *state) set(r slotRef, v value.Value) {
	e := st.env
	for range r.up {
		e = e.parent
	}
	e.slots[r.slot] = v
}

// resolve looks a name up in the context: nil when there is none.
func (st *state) resolve(name string) value.Value {
	if v, ok := st.exports[name]; ok {
		return v
	}
	if v, ok := st.vars.GetStr(name); ok {
		return v
	}
	if v := pylib.Global(name); v != nil {
		return v
	}
	if name == "self" {
		return st.self
	}
	return nil
}

func (st *state) enter(f *frame) {
	for i := range f.loads {
		switch l := &f.loads[i]; l.kind {
		case loadResolve:
			st.env.slots[l.slot] = st.resolve(l.name)
		case loadAlias:
			st.env.slots[l.slot] = st.get(l.alias)
		case loadUndef:
			st.env.slots[l.slot] = nil
		}
	}
}

func (st *state) leave(f *frame) {
	for i := range f.loads {
		st.env.slots[f.loads[i].slot] = nil
	}
}

// callFunction runs f in a new activation of fn below parent.
func (st *state) callFunction(fn *function, parent *env, f func() error) error {
	if err := st.deeper(); err != nil {
		return err
	}
	outer := st.env
	st.env = &env{slots: make([]value.Value, len(fn.slots)), parent: parent}
	err := f()
	st.env = outer
	st.depth--
	return err
}

// takeSpare gives an empty buffer that may have room already.
func (st *state) takeSpare() value.Buffer {
	w := st.spare
	st.spare = value.Buffer{}
	return w.Emptied()
}

// giveSpare keeps a buffer for the next that takes one, unless it holds much.
func (st *state) giveSpare(w value.Buffer) {
	if w.Capacity() <= 64<<10 {
		st.spare = w
	}
}
