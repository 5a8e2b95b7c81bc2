package jinja

import (
	"errors"
	"time"
)

// state is one rendering.
type state struct {
	limits  Limits
	steps   int64
	alloc   int64
	depth   int
	out     *sbuf // where output goes now
	env     *env
	vars    *Dict            // the request's variables
	exports map[string]Value // what the template set at its top level
	blocks  map[string]*blockStmt
	escape  bool // inside {% autoescape true %}
	body    *Str // text that the filter of a block works on
	now     time.Time
	spare   sbuf // see takeSpare
}

// env is an activation of a fn.
type env struct {
	slots  []Value // nil: not set
	parent *env
}

// The jumps of loop controls travel as errors up to their loop.
var (
	errBreak    = errors.New("BUG: break left its loop")
	errContinue = errors.New("BUG: continue left its loop")
)

// step counts a unit of work.
func (st *state) step() error { return st.work(1) }

func (st *state) work(n int) error {
	st.steps += int64(n)
	if st.steps > st.limits.Steps {
		return limitError("steps: more than %d", st.limits.Steps)
	}
	return nil
}

// grow counts n bytes that are about to be made.
func (st *state) grow(n int64) error {
	if n < 0 || n > st.limits.Memory-st.alloc {
		return limitError("memory: more than %d bytes of values", st.limits.Memory)
	}
	st.alloc += n
	st.steps += n >> 6
	return nil
}

// growItems counts n items of a list that is about to be made. Each is a step
// too: it is copied, and the collector looks at it.
func (st *state) growItems(n int) error {
	if err := st.work(n); err != nil {
		return err
	}
	return st.grow(16 * int64(n))
}

// read counts what a function costs that looks at all of v, if v is a string: a
// step for 32 bytes, or for 2 where it looks at each character by itself.
func (st *state) read(v Value, perCharacter bool) error {
	s, ok := v.(*Str)
	switch {
	case !ok:
		return nil
	case perCharacter:
		return st.work(len(s.s) >> 1)
	}
	return st.work(len(s.s) >> 5)
}

// perCharacter names the methods and filters that look at each character by itself.
var perCharacter = set("upper lower title capitalize swapcase casefold isalpha isalnum isdecimal isdigit isnumeric isspace isprintable " +
	"isascii islower isupper isidentifier istitle splitlines expandtabs translate maketrans zfill encode format format_map " +
	"wordcount indent escape e forceescape striptags urlencode xmlattr truncate list reverse int float wordwrap urlize pprint")

// deeper counts calls within calls.
func (st *state) deeper() error {
	if st.depth >= st.limits.Depth {
		return limitError("depth: calls nested deeper than %d", st.limits.Depth)
	}
	st.depth++
	return nil
}

// write puts text into the current buffer.
func (st *state) write(s *Str) error {
	if int64(len(st.out.b)+len(s.s)) > st.limits.Output {
		return limitError("output: more than %d bytes", st.limits.Output)
	}
	st.out.str(s)
	return nil
}

// capture runs f with a buffer of its own and returns what f wrote.
func (st *state) capture(f func() error) (*Str, error) {
	outer := st.out
	st.out = &sbuf{}
	err := f()
	inner := st.out
	st.out = outer
	if err != nil {
		return nil, err
	}
	if err := st.grow(int64(len(inner.b))); err != nil {
		return nil, err
	}
	s := inner.done()
	if st.escape {
		s = s.markup()
	}
	return s, nil
}

func (st *state) get(r slotRef) Value {
	e := st.env
	for range r.up {
		e = e.parent
	}
	return e.slots[r.slot]
}

func (st *state) set(r slotRef, v Value) {
	e := st.env
	for range r.up {
		e = e.parent
	}
	e.slots[r.slot] = v
}

// resolve looks a name up in the context: nil when there is none.
func (st *state) resolve(name string) Value {
	if v, ok := st.exports[name]; ok {
		return v
	}
	if v, ok := st.vars.getStr(name); ok {
		return v
	}
	if v := globalValue(name); v != nil {
		return v
	}
	if name == "self" {
		return &selfObj{}
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

// activate runs f in a new activation of fn below parent.
func (st *state) activate(fn *fn, parent *env, f func() error) error {
	if err := st.deeper(); err != nil {
		return err
	}
	outer := st.env
	st.env = &env{slots: make([]Value, len(fn.slots)), parent: parent}
	err := f()
	st.env = outer
	st.depth--
	return err
}

// takeSpare gives an empty buffer that may have room already.
func (st *state) takeSpare() sbuf {
	w := st.spare
	st.spare = sbuf{}
	return sbuf{w.b[:0], w.marks[:0]}
}

// giveSpare keeps a buffer for the next that takes one, unless it holds much.
func (st *state) giveSpare(w sbuf) {
	if cap(w.b) <= 64<<10 {
		st.spare = w
	}
}

// str is Python's str(v), charged.
func (st *state) str(v Value) (*Str, error) {
	if s, ok := v.(*Str); ok {
		return s, nil
	}
	w := &textWriter{st: st}
	if err := w.str(v); err != nil {
		return nil, err
	}
	return w.done(), nil
}
