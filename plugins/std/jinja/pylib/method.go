package pylib

import (
	"math"
	"slices"

	"tgi/plugins/std/jinja/value"
)

// method is a method of one of Python's built-in types.
type method struct {
	class, name  string
	min, max     int
	kw           []string // parameters that may be given by name
	perCharacter bool     // see perCharacter
	parseTuple   bool     // parsed by PyArg_ParseTuple, which words its errors differently
	call         func(th *value.Thread, self value.Value, a []value.Value) (value.Value, error)
}

// bind makes the method of a value callable.
func (m *method) bind(self value.Value) value.Value {
	return &value.Func{Name: m.name, Self: self, Do: func(th *value.Thread, a value.Args) (value.Value, error) {
		m := m
		if _, ok := self.(*value.Tuple); ok {
			twin := *m
			twin.class = "tuple"
			m = &twin
		}
		vals, err := m.args(a)
		if err != nil {
			return nil, err
		}
		if err := th.Step(); err != nil {
			return nil, err
		}
		if err := th.Read(self, m.perCharacter); err != nil {
			return nil, err
		}
		return m.call(th, self, vals)
	}}
}

// args returns max values. Those that were left out are nil.
func (m *method) args(a value.Args) ([]value.Value, error) {
	if len(a.Keywords) > 0 && m.kw == nil {
		return nil, value.TypeError("%s.%s() takes no keyword arguments", m.class, m.name)
	}
	if n := len(a.Pos) + len(a.Keywords); n > m.max || len(a.Pos) < m.min && m.kw == nil {
		return nil, m.count(n)
	}
	vals := make([]value.Value, m.max)
	copy(vals, a.Pos)
	for _, k := range a.Keywords {
		i := slices.Index(m.kw, k.Name.String())
		if i < 0 {
			return nil, value.TypeError("'%s' is an invalid keyword argument for %s()", k.Name.String(), m.name)
		}
		if vals[i] != nil {
			return nil, value.TypeError("argument for %s() given by name ('%s') and position (%d)", m.name,
				k.Name.String(), i+1)
		}
		vals[i] = k.Value
	}
	return vals, nil
}

// count is Python's error for a wrong number of arguments.
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
		return value.TypeError("%s takes no arguments (%d given)", full, n)
	case m.min == 1 && m.max == 1:
		return value.TypeError("%s takes exactly one argument (%d given)", full, n)
	case m.parseTuple && n < m.min:
		return value.TypeError("%s() takes at least %d argument%s (%d given)", m.name, m.min, plural(m.min), n)
	case m.parseTuple || m.kw != nil:
		return value.TypeError("%s() takes at most %d argument%s (%d given)", m.name, m.max, plural(m.max), n)
	case n < m.min:
		return value.TypeError("%s expected at least %d argument%s, got %d", m.name, m.min, plural(m.min), n)
	}
	return value.TypeError("%s expected at most %d argument%s, got %d", m.name, m.max, plural(m.max), n)
}

// strArg reads an argument that has to be a string.
func strArg(v value.Value, format string) (*value.Str, error) {
	s, ok := v.(*value.Str)
	if !ok {
		return nil, value.TypeError(format, argType(v))
	}
	return s, nil
}

// argType names a value's class as PyArg does.
func argType(v value.Value) string {
	if v == value.None {
		return "None"
	}
	return value.ClassName(v)
}

// intArg reads an argument that has to be an int.
func intArg(v value.Value) (int64, error) {
	switch v := v.(type) {
	case *value.BigInt:
		return 0, value.Raise("OverflowError", "Python int too large to convert to C ssize_t")
	case *value.Undefined, value.Float, *value.Str, value.NoneType, *value.List, *value.Tuple, *value.Dict:
		return 0, value.TypeError("'%s' object cannot be interpreted as an integer", value.ClassName(v))
	}
	n, ok := value.AsInt64(v)
	if !ok {
		return 0, value.TypeError("'%s' object cannot be interpreted as an integer", value.ClassName(v))
	}
	return n, nil
}

// optInt reads an int that may be left out.
func optInt(v value.Value, def int64) (int64, error) {
	if v == nil {
		return def, nil
	}
	return intArg(v)
}

// charRange reads the start and end arguments of find and similar methods: offsets
// in characters, clipped to 0..n. ok is false if start is beyond the end.
func charRange(n int, start, end value.Value) (lo, hi int, ok bool, err error) {
	lo64, hi64 := int64(0), int64(math.MaxInt64)
	if start != nil && start != value.None {
		if lo64, err = value.SliceIndex(start); err != nil {
			return
		}
	}
	if end != nil && end != value.None {
		if hi64, err = value.SliceIndex(end); err != nil {
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
