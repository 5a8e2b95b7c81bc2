package jinja

import (
	"math"
	"slices"
)

// method is a method of one of Python's built-in types.
type method struct {
	class, name string
	min, max    int
	kw          []string // parameters that may be given by name
	slow        bool     // see perCharacter
	old         bool     // parsed by PyArg_ParseTuple, which words its errors differently
	call        func(st *state, self Value, a []Value) (Value, error)
}

// bind makes the method of a value callable.
func (m *method) bind(self Value) Value {
	return &builtin{name: m.name, self: self, call: func(st *state, a args) (Value, error) {
		m := m
		if _, ok := self.(*Tuple); ok {
			twin := *m
			twin.class = "tuple"
			m = &twin
		}
		vals, err := m.args(a)
		if err != nil {
			return nil, err
		}
		if err := st.step(); err != nil {
			return nil, err
		}
		if err := st.read(self, m.slow); err != nil {
			return nil, err
		}
		return m.call(st, self, vals)
	}}
}

// args gives max values; those that were left out are nil.
func (m *method) args(a args) ([]Value, error) {
	if len(a.kw) > 0 && m.kw == nil {
		return nil, typeError("%s.%s() takes no keyword arguments", m.class, m.name)
	}
	if n := len(a.pos) + len(a.kw); n > m.max || len(a.pos) < m.min && m.kw == nil {
		return nil, m.count(n)
	}
	vals := make([]Value, m.max)
	copy(vals, a.pos)
	for _, k := range a.kw {
		i := slices.Index(m.kw, k.name.s)
		if i < 0 {
			return nil, typeError("'%s' is an invalid keyword argument for %s()", k.name.s, m.name)
		}
		if vals[i] != nil {
			return nil, typeError("argument for %s() given by name ('%s') and position (%d)", m.name, k.name.s, i+1)
		}
		vals[i] = k.val
	}
	return vals, nil
}

// count is Python's complaint about the number of arguments.
func (m *method) count(n int) error {
	plural := func(n int) string {
		if n == 1 {
			return ""
		}
		return "s"
	}
	full := m.class + "." + m.name + "()"
	switch {
	case m.max == 0:
		return typeError("%s takes no arguments (%d given)", full, n)
	case m.min == 1 && m.max == 1:
		return typeError("%s takes exactly one argument (%d given)", full, n)
	case m.old && n < m.min:
		return typeError("%s() takes at least %d argument%s (%d given)", m.name, m.min, plural(m.min), n)
	case m.old || m.kw != nil:
		return typeError("%s() takes at most %d argument%s (%d given)", m.name, m.max, plural(m.max), n)
	case n < m.min:
		return typeError("%s expected at least %d argument%s, got %d", m.name, m.min, plural(m.min), n)
	}
	return typeError("%s expected at most %d argument%s, got %d", m.name, m.max, plural(m.max), n)
}

// strArg reads an argument that has to be a string.
func strArg(v Value, format string) (*Str, error) {
	s, ok := v.(*Str)
	if !ok {
		return nil, typeError(format, argType(v))
	}
	return s, nil
}

// argType names a value's class as PyArg does.
func argType(v Value) string {
	if v == none {
		return "None"
	}
	return className(v)
}

// intArg reads an argument that has to be an int.
func intArg(v Value) (int64, error) {
	switch v := v.(type) {
	case *bigInt:
		return 0, raise("OverflowError", "Python int too large to convert to C ssize_t")
	case *Undefined, Float, *Str, noneType, *List, *Tuple, *Dict:
		return 0, typeError("'%s' object cannot be interpreted as an integer", className(v))
	}
	n, ok := smallInt(v)
	if !ok {
		return 0, typeError("'%s' object cannot be interpreted as an integer", className(v))
	}
	return n, nil
}

// optInt reads an int that may be left out.
func optInt(v Value, def int64) (int64, error) {
	if v == nil {
		return def, nil
	}
	return intArg(v)
}

// charRange reads the start and end arguments of find and its kin: offsets in
// characters, clipped to 0..n. ok is false where start lies beyond the string.
func charRange(n int, start, end Value) (lo, hi int, ok bool, err error) {
	lo64, hi64 := int64(0), int64(math.MaxInt64)
	if start != nil && start != none {
		if lo64, err = sliceIndex(start); err != nil {
			return
		}
	}
	if end != nil && end != none {
		if hi64, err = sliceIndex(end); err != nil {
			return
		}
	}
	clip := func(i int64) int64 {
		if i < 0 {
			i = max(i+int64(n), 0)
		}
		return i
	}
	lo64, hi64 = clip(lo64), min(clip(hi64), int64(n))
	if lo64 > int64(n) || lo64 > hi64 {
		return 0, 0, false, nil
	}
	return int(lo64), int(hi64), true, nil
}
