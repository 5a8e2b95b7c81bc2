package pylib

import (
	"tgi/plugins/std/jinja/format"
	"tgi/plugins/std/jinja/value"
)

import ()

// maxRange is the sandbox's limit of the length of a range.
const maxRange = 100_000

var globals map[string]value.Value

func init() {
	globals = map[string]value.Value{}
	add := func(name string, call func(th *value.Thread, a value.Args) (value.Value, error)) {
		globals[name] = &value.Func{Name: name, Do: call}
	}
	add("range", globalRange)
	add("dict", makeDict)
	add("namespace", func(th *value.Thread, a value.Args) (value.Value, error) {
		v, err := makeDict(th, a)
		if err != nil {
			return nil, err
		}
		ns := &Namespace{&value.Dict{}}
		for _, e := range v.(*value.Dict).Entries() {
			name, ok := e.Key.(*value.Str)
			if !ok {
				err = ns.attrs.Set(e.Key, e.Value)
			} else {
				err = ns.Set(name.String(), e.Value)
			}
			if err != nil {
				return nil, err
			}
		}
		return ns, nil
	})
	add("cycler", func(_ *value.Thread, a value.Args) (value.Value, error) {
		if len(a.Pos) == 0 {
			return nil, value.Raise("RuntimeError", "at least one item has to be provided")
		}
		return &cycler{items: a.Pos}, nil
	})
	add("joiner", func(_ *value.Thread, a value.Args) (value.Value, error) {
		sep, kw := value.TakeKeyword(a.Keywords, "sep")
		if len(a.Pos) > 0 {
			sep = a.Pos[0]
		}
		if len(kw) > 0 || len(a.Pos) > 1 {
			return nil, value.TypeError("Joiner.__init__() takes from 1 to 2 positional arguments but %d were given",
				len(a.Pos)+1)
		}
		if sep == nil {
			sep = value.Text(", ")
		}
		return &joiner{sep: sep}, nil
	})
	add("raise_exception", raiseException)
	add("strftime_now", strftimeNow)
}

// Global is a function that every template has, or nil.
func Global(name string) value.Value { return globals[name] }

func raiseException(th *value.Thread, a value.Args) (value.Value, error) {
	msg, kw := value.TakeKeyword(a.Keywords, "message")
	if len(a.Pos) > 0 {
		msg = a.Pos[0]
	}
	const name = "_cached_compile_jinja_template.<locals>.raise_exception()"
	if len(kw) > 0 {
		return nil, value.TypeError("%s got an unexpected keyword argument %s", name, value.Repr(kw[0].Name))
	}
	if len(a.Pos) > 1 {
		return nil, value.TypeError("%s takes 1 positional argument but %d were given", name, len(a.Pos))
	}
	if msg == nil {
		return nil, value.TypeError("%s missing 1 required positional argument: 'message'", name)
	}
	s, err := th.Str(msg)
	if err != nil {
		return nil, err
	}
	return nil, value.Raised(s.String())
}

func globalRange(_ *value.Thread, a value.Args) (value.Value, error) {
	if len(a.Keywords) > 0 {
		return nil, value.TypeError("range() takes no keyword arguments")
	}
	if len(a.Pos) == 0 {
		return nil, value.TypeError("range expected at least 1 argument, got 0")
	}
	if len(a.Pos) > 3 {
		return nil, value.TypeError("range expected at most 3 arguments, got %d", len(a.Pos))
	}
	var n [3]int64
	for i, v := range a.Pos {
		var err error
		if n[i], err = intArg(v); err != nil {
			return nil, err
		}
	}
	r := &value.Range{Start: n[0], Step: 1}
	stop := n[1]
	switch len(a.Pos) {
	case 1:
		r.Start, stop = 0, n[0]
	case 3:
		r.Step = n[2]
	}
	if r.Step == 0 {
		return nil, value.ValueError("range() arg 3 must not be zero")
	}
	r.Stop = stop
	gap, step := stop-r.Start, r.Step
	if step < 0 {
		gap, step = -gap, -step
	}
	if gap > 0 && step > 0 {
		r.N = (gap-1)/step + 1
	}
	if r.N > maxRange {
		return nil, value.Raise("OverflowError", "Range too big. The sandbox blocks ranges larger than MAX_RANGE (%d).",
			maxRange)
	}
	return r, nil
}

// makeDict is Python's dict(...).
func makeDict(th *value.Thread, a value.Args) (value.Value, error) {
	d := &value.Dict{}
	if len(a.Pos) > 1 {
		return nil, value.TypeError("dict expected at most 1 argument, got %d", len(a.Pos))
	}
	if len(a.Pos) == 1 {
		if err := fillDict(th, d, a.Pos[0]); err != nil {
			return nil, err
		}
	}
	for _, k := range a.Keywords {
		if err := d.Set(k.Name, k.Value); err != nil {
			return nil, err
		}
	}
	return d, th.GrowItems(2 * d.Len())
}

// fillDict copies a dict, or reads pairs.
func fillDict(th *value.Thread, d *value.Dict, v value.Value) error {
	if src, ok := v.(*value.Dict); ok {
		*d = *src.Clone()
		return nil
	}
	items, err := th.List(v)
	if err != nil {
		return err
	}
	for i, item := range items {
		pair, err := th.List(item)
		if value.IsClass(err, "TypeError") {
			return value.TypeError("cannot convert dictionary update sequence element #%d to a sequence", i)
		}
		if err != nil {
			return err
		}
		if len(pair) != 2 {
			return value.ValueError("dictionary update sequence element #%d has length %d; 2 is required", i, len(pair))
		}
		if err := d.Set(pair[0], pair[1]); err != nil {
			return err
		}
	}
	return nil
}

func strftimeNow(th *value.Thread, a value.Args) (value.Value, error) {
	layout, kw := value.TakeKeyword(a.Keywords, "format")
	if len(a.Pos) > 0 {
		layout = a.Pos[0]
	}
	if layout == nil || len(kw) > 0 || len(a.Pos) > 1 {
		return nil, value.TypeError("strftime_now() takes exactly one argument")
	}
	s, ok := layout.(*value.Str)
	if !ok {
		return nil, value.TypeError("strftime() argument 1 must be str, not %s", argType(layout))
	}
	return value.Like(s, format.Strftime(th.Now, s.String())), th.Grow(int64(4 * len(s.String())))
}
