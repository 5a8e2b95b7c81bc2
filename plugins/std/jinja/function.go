package jinja

import (
	"fmt"
	"strings"
)

// function is a filter or test: a Python function with named parameters.
type function struct {
	name     string // as Python's errors call it
	hidden   int    // parameters that jinja2 passes itself and Python counts
	params   []string
	required int
	star     bool // takes *args: a *Tuple, after the parameters
	star2    bool // takes **kwargs: a *Dict, last
	native   bool // written in C: positional only, other error texts
	slow     bool // see perCharacter
	call     func(st *state, a []Value) (Value, error)
}

// def declares a function. spec lists the parameters; those with a = may be left
// out and are nil then.
func def(name string, hidden int, spec string, call func(st *state, a []Value) (Value, error)) *function {
	f := &function{name: name, hidden: hidden, call: call}
	for p := range strings.FieldsSeq(spec) {
		switch {
		case strings.HasPrefix(p, "**"):
			f.star2 = true
		case strings.HasPrefix(p, "*"):
			f.star = true
		case strings.HasSuffix(p, "="):
			f.params = append(f.params, p[:len(p)-1])
		default:
			f.params = append(f.params, p)
			f.required = len(f.params)
		}
	}
	return f
}

// native declares a function that Python has in C.
func native(name, spec string, call func(st *state, a []Value) (Value, error)) *function {
	f := def(name, 0, spec, call)
	f.native = true
	return f
}

func (f *function) invoke(st *state, a args) (Value, error) {
	if len(a.pos) > 0 {
		if err := st.read(a.pos[0], f.slow); err != nil {
			return nil, err
		}
	}
	if f.native {
		if len(a.kw) > 0 {
			return nil, typeError("%s() takes no keyword arguments", f.name)
		}
		if len(a.pos) != len(f.params) {
			return nil, f.nativeCount(len(a.pos))
		}
		return f.call(st, a.pos)
	}
	n := len(f.params)
	vals := make([]Value, n, n+2)
	if len(a.pos) > n && !f.star {
		return nil, f.tooMany(len(a.pos))
	}
	copy(vals, a.pos)
	var rest *Dict
	for _, k := range a.kw {
		i := f.param(k.name.s)
		switch {
		case i < 0 && f.star2:
			if rest == nil {
				rest = &Dict{}
			}
			_ = rest.set(k.name, k.val) // strings hash
		case i < 0:
			return nil, typeError("%s() got an unexpected keyword argument %s", f.name, reprText(k.name))
		case vals[i] != nil:
			return nil, typeError("%s() got multiple values for argument %s", f.name, reprText(k.name))
		default:
			vals[i] = k.val
		}
	}
	if err := f.missing(vals); err != nil {
		return nil, err
	}
	if f.star {
		extra := &Tuple{}
		if len(a.pos) > n {
			extra.items = a.pos[n:]
		}
		vals = append(vals, extra)
	}
	if f.star2 {
		if rest == nil {
			rest = &Dict{}
		}
		vals = append(vals, rest)
	}
	return f.call(st, vals)
}

func (f *function) param(name string) int {
	for i, p := range f.params {
		if p == name {
			return i
		}
	}
	return -1
}

func (f *function) nativeCount(n int) error {
	if len(f.params) == 1 {
		return typeError("%s() takes exactly one argument (%d given)", f.name, n)
	}
	return typeError("%s expected %d arguments, got %d", f.name, len(f.params), n)
}

func (f *function) tooMany(n int) error {
	most := len(f.params) + f.hidden
	least := f.required + f.hidden
	takes := fmt.Sprint(most)
	if least != most {
		takes = fmt.Sprintf("from %d to %d", least, most)
	}
	plural := "s"
	if most == 1 {
		plural = ""
	}
	return typeError("%s() takes %s positional argument%s but %d were given", f.name, takes, plural, n+f.hidden)
}

func (f *function) missing(vals []Value) error {
	var names []string
	for i := range f.required {
		if vals[i] == nil {
			names = append(names, reprText(text(f.params[i])))
		}
	}
	switch len(names) {
	case 0:
		return nil
	case 1:
		return typeError("%s() missing 1 required positional argument: %s", f.name, names[0])
	case 2:
		return typeError("%s() missing 2 required positional arguments: %s and %s", f.name, names[0], names[1])
	}
	last := len(names) - 1
	return typeError("%s() missing %d required positional arguments: %s, and %s", f.name, len(names), strings.Join(names[:last], ", "), names[last])
}
