package jinja

import (
	"strings"
	"time"
)

// maxRange is the sandbox's limit of the length of a range.
const maxRange = 100_000

var globals map[string]Value

func init() {
	globals = map[string]Value{}
	add := func(name string, call func(st *state, a args) (Value, error)) {
		globals[name] = &builtin{name: name, call: call}
	}
	add("range", globalRange)
	add("dict", makeDict)
	add("namespace", func(st *state, a args) (Value, error) {
		v, err := makeDict(st, a)
		if err != nil {
			return nil, err
		}
		ns := &Namespace{&Dict{}}
		for _, e := range v.(*Dict).entries {
			name, ok := e.key.(*Str)
			if !ok {
				err = ns.attrs.set(e.key, e.val)
			} else {
				err = ns.set(name.s, e.val)
			}
			if err != nil {
				return nil, err
			}
		}
		return ns, nil
	})
	add("cycler", func(_ *state, a args) (Value, error) {
		if len(a.pos) == 0 {
			return nil, raise("RuntimeError", "at least one item has to be provided")
		}
		return &cycler{items: a.pos}, nil
	})
	add("joiner", func(_ *state, a args) (Value, error) {
		sep, kw := takeKw(a.kw, "sep")
		if len(a.pos) > 0 {
			sep = a.pos[0]
		}
		if len(kw) > 0 || len(a.pos) > 1 {
			return nil, typeError("Joiner.__init__() takes from 1 to 2 positional arguments but %d were given", len(a.pos)+1)
		}
		if sep == nil {
			sep = text(", ")
		}
		return &joiner{sep: sep}, nil
	})
	add("raise_exception", raiseException)
	add("strftime_now", strftimeNow)
}

func globalValue(name string) Value { return globals[name] }

func raiseException(st *state, a args) (Value, error) {
	msg, kw := takeKw(a.kw, "message")
	if len(a.pos) > 0 {
		msg = a.pos[0]
	}
	const name = "_cached_compile_jinja_template.<locals>.raise_exception()"
	if len(kw) > 0 {
		return nil, typeError("%s got an unexpected keyword argument %s", name, reprText(kw[0].name))
	}
	if len(a.pos) > 1 {
		return nil, typeError("%s takes 1 positional argument but %d were given", name, len(a.pos))
	}
	if msg == nil {
		return nil, typeError("%s missing 1 required positional argument: 'message'", name)
	}
	s, err := st.str(msg)
	if err != nil {
		return nil, err
	}
	return nil, &RenderError{Class: "TemplateError", Msg: s.s, kind: ErrRaised}
}

func strftimeNow(st *state, a args) (Value, error) {
	format, kw := takeKw(a.kw, "format")
	if len(a.pos) > 0 {
		format = a.pos[0]
	}
	if format == nil || len(kw) > 0 || len(a.pos) > 1 {
		return nil, typeError("strftime_now() takes exactly one argument")
	}
	s, ok := format.(*Str)
	if !ok {
		return nil, typeError("strftime() argument 1 must be str, not %s", argType(format))
	}
	return like(s, strftime(st.now, s.s)), st.grow(int64(4 * len(s.s)))
}

func globalRange(_ *state, a args) (Value, error) {
	if len(a.kw) > 0 {
		return nil, typeError("range() takes no keyword arguments")
	}
	if len(a.pos) == 0 {
		return nil, typeError("range expected at least 1 argument, got 0")
	}
	if len(a.pos) > 3 {
		return nil, typeError("range expected at most 3 arguments, got %d", len(a.pos))
	}
	var n [3]int64
	for i, v := range a.pos {
		var err error
		if n[i], err = intArg(v); err != nil {
			return nil, err
		}
	}
	r := &rangeObj{start: n[0], step: 1}
	stop := n[1]
	switch len(a.pos) {
	case 1:
		r.start, stop = 0, n[0]
	case 3:
		r.step = n[2]
	}
	if r.step == 0 {
		return nil, valueError("range() arg 3 must not be zero")
	}
	r.stop = stop
	gap, step := stop-r.start, r.step
	if step < 0 {
		gap, step = -gap, -step
	}
	if gap > 0 && step > 0 {
		r.n = (gap-1)/step + 1
	}
	if r.n > maxRange {
		return nil, raise("OverflowError", "Range too big. The sandbox blocks ranges larger than MAX_RANGE (%d).", maxRange)
	}
	return r, nil
}

// makeDict is Python's dict(...).
func makeDict(st *state, a args) (Value, error) {
	d := &Dict{}
	if len(a.pos) > 1 {
		return nil, typeError("dict expected at most 1 argument, got %d", len(a.pos))
	}
	if len(a.pos) == 1 {
		if err := st.fillDict(d, a.pos[0]); err != nil {
			return nil, err
		}
	}
	for _, k := range a.kw {
		if err := d.set(k.name, k.val); err != nil {
			return nil, err
		}
	}
	return d, st.growItems(2 * d.len())
}

// fillDict copies a dict, or reads pairs.
func (st *state) fillDict(d *Dict, v Value) error {
	if src, ok := v.(*Dict); ok {
		*d = *src.clone()
		return nil
	}
	items, err := st.list(v)
	if err != nil {
		return err
	}
	for i, item := range items {
		pair, err := st.list(item)
		if isClass(err, "TypeError") {
			return typeError("cannot convert dictionary update sequence element #%d to a sequence", i)
		}
		if err != nil {
			return err
		}
		if len(pair) != 2 {
			return valueError("dictionary update sequence element #%d has length %d; 2 is required", i, len(pair))
		}
		if err := d.set(pair[0], pair[1]); err != nil {
			return err
		}
	}
	return nil
}

// strftime is C's, in the C locale.
func strftime(t time.Time, format string) string {
	var b strings.Builder
	for i := 0; i < len(format); i++ {
		if format[i] != '%' || i+1 >= len(format) {
			b.WriteByte(format[i])
			continue
		}
		i++
		noPad := false
		if format[i] == '-' && i+1 < len(format) {
			noPad = true
			i++
		}
		s, ok := strftimeField(t, format[i])
		switch {
		case !ok && noPad:
			s = "%-" + format[i:i+1]
		case !ok:
			s = "%" + format[i:i+1]
		case noPad:
			if s = strings.TrimLeft(s, "0 "); s == "" {
				s = "0"
			}
		}
		b.WriteString(s)
	}
	return b.String()
}
