package pylib

import (
	"slices"
	"strconv"
	"strings"

	"tgi/plugins/std/jinja/chars"
	"tgi/plugins/std/jinja/value"
)

// getter looks up an attribute of each item, like jinja2's make_attrgetter.
type getter struct {
	parts []value.Value
	fold  bool        // lower-case strings
	def   value.Value // in place of undefined
}

// attrParts splits "a.b.0" at its dots. For nil or None the attribute is the item itself.
func attrParts(attr value.Value) []value.Value {
	s, ok := attr.(*value.Str)
	switch {
	case attr == nil || attr == value.None:
		return nil
	case !ok:
		return []value.Value{attr}
	}
	var parts []value.Value
	for p := range strings.SplitSeq(s.String(), ".") {
		if n, err := strconv.ParseInt(p, 10, 64); err == nil && chars.All(p, chars.IsDigit) {
			parts = append(parts, value.Int(n))
		} else {
			parts = append(parts, value.Like(s, p))
		}
	}
	return parts
}

func (g *getter) get(th *value.Thread, v value.Value) (value.Value, error) {
	for _, p := range g.parts {
		var err error
		if v, err = GetItem(th, v, p); err != nil {
			return nil, err
		}
		if _, ok := v.(*value.Undefined); ok && g.def != nil && g.def != value.None {
			v = g.def
		}
	}
	if s, ok := v.(*value.Str); ok && g.fold {
		return s.MapWhole(chars.Lower), nil
	}
	return v, nil
}

func filterList(th *value.Thread, a []value.Value) (value.Value, error) {
	items, err := th.List(a[0])
	return &value.List{Items: items}, err
}

func filterFirst(th *value.Thread, a []value.Value) (value.Value, error) {
	next, err := th.Iterate(a[0])
	if err != nil {
		return nil, err
	}
	v, ok, err := next()
	if !ok && err == nil {
		return &value.Undefined{Hint: "No first item, sequence was empty."}, nil
	}
	return v, err
}

// reversed returns the items of v in reverse order, if Python's reversed() accepts v.
func reversed(th *value.Thread, v value.Value) ([]value.Value, error) {
	switch v := v.(type) {
	case *value.Str, *value.List, *value.Tuple, *value.Dict, *value.Range, *value.DictView:
		items, err := th.List(v)
		slices.Reverse(items)
		return items, err
	case *value.Undefined:
		return nil, v.Err()
	}
	return nil, value.TypeError("'%s' object is not reversible", v.Type())
}

func filterLast(th *value.Thread, a []value.Value) (value.Value, error) {
	if _, ok := a[0].(*value.Undefined); ok {
		return &value.Undefined{Hint: "No last item, sequence was empty."}, nil
	}
	items, err := reversed(th, a[0])
	if err != nil {
		return nil, err
	}
	if len(items) == 0 {
		return &value.Undefined{Hint: "No last item, sequence was empty."}, nil
	}
	return items[0], nil
}

func filterReverse(th *value.Thread, a []value.Value) (value.Value, error) {
	if s, ok := a[0].(*value.Str); ok {
		return th.Slice(s, value.None, value.None, value.Int(-1))
	}
	items, err := reversed(th, a[0])
	if err == nil {
		class := map[string]string{"list": "list_reverseiterator", "range": "range_iterator",
			"dict": "dict_reversekeyiterator"}[a[0].Type()]
		if class == "" {
			class = "reversed"
		}
		return &value.Generator{Class: class, Next: value.IterateSlice(items)}, nil
	}
	if items, err = th.List(a[0]); value.IsClass(err, "TypeError") {
		return nil, value.Raise("FilterArgumentError", "argument must be iterable")
	}
	slices.Reverse(items)
	return &value.List{Items: items}, err
}

func filterItems(_ *value.Thread, a []value.Value) (value.Value, error) {
	switch v := a[0].(type) {
	case *value.Undefined:
		return &value.Generator{Class: "generator", Next: value.IterateSlice(nil)}, nil
	case *value.Dict:
		view := value.NewView(v, value.ViewItems)
		return &value.Generator{Class: "generator", Next: value.IterateN(v.Len(), view.At)}, nil
	}
	// the generator returns the error when it is used
	return &value.Generator{Class: "generator", Next: func() (value.Value, bool, error) {
		return nil, false, value.TypeError("Can only get item pairs from a mapping.")
	}}, nil
}

func filterJoin(th *value.Thread, a []value.Value) (value.Value, error) {
	sep := value.Empty
	if a[1] != nil {
		var err error
		if sep, err = th.Str(a[1]); err != nil {
			return nil, err
		}
	}
	items, err := th.List(a[0])
	if err != nil {
		return nil, err
	}
	g := getter{parts: attrParts(a[2])}
	for i, v := range items {
		if v, err = g.get(th, v); err != nil {
			return nil, err
		}
		s, err := th.Str(v)
		if err != nil {
			return nil, err
		}
		items[i] = s.Plain()
	}
	return joinStrs(th, sep.Plain(), items)
}

func filterMap(th *value.Thread, a []value.Value) (value.Value, error) {
	pos, kw := a[1].(*value.Tuple), a[2].(*value.Dict)
	var f func(v value.Value) (value.Value, error)
	prepare := func() error {
		attr, byAttr := kw.GetStr("attribute")
		if len(pos.Items) == 0 && byAttr {
			g := getter{parts: attrParts(attr)}
			g.def, _ = kw.GetStr("default")
			for _, e := range kw.Entries() {
				if k := e.Key.(*value.Str); k.String() != "attribute" && k.String() != "default" {
					return value.Raise("FilterArgumentError", "Unexpected keyword argument %s", value.Repr(k))
				}
			}
			f = func(v value.Value) (value.Value, error) { return g.get(th, v) }
			return nil
		}
		if len(pos.Items) == 0 {
			return value.Raise("FilterArgumentError", "map requires a filter argument")
		}
		f = func(v value.Value) (value.Value, error) {
			filter, err := byName(filters, "filter", pos.Items[0])
			if err != nil {
				return nil, err
			}
			return filter.with(th, v, pos.Items[1:], kw)
		}
		return nil
	}
	return lazily(th, a[0], prepare, func(v value.Value) (value.Value, bool, error) {
		v, err := f(v)
		return v, true, err
	})
}

// byName returns the filter or test that a value names.
func byName(table map[string]*Function, kind string, name value.Value) (*Function, error) {
	if s, ok := name.(*value.Str); ok && table[s.String()] != nil {
		return table[s.String()], nil
	}
	return nil, value.Raise("TemplateRuntimeError", "No %s named %s.", kind, value.Repr(name))
}

// with calls f with v before other arguments.
func (f *Function) with(th *value.Thread, v value.Value, pos []value.Value, kw *value.Dict) (value.Value, error) {
	a := value.Args{Pos: append([]value.Value{v}, pos...)}
	for _, e := range kw.Entries() {
		a.Keywords = append(a.Keywords, value.Keyword{Name: e.Key.(*value.Str), Value: e.Value})
	}
	return f.Invoke(th, a)
}

// lazily is a generator over the items of v that f keeps, as f returns them.
// prepare runs before the first item, and only if v is true.
func lazily(th *value.Thread, v value.Value, prepare func() error,
	f func(value.Value) (value.Value, bool, error)) (value.Value, error) {
	var next value.Iterator
	started := false
	start := func() error {
		started = true
		ok, err := th.Truth(v)
		if err != nil || !ok {
			next = value.IterateSlice(nil)
			return err
		}
		if err := prepare(); err != nil {
			return err
		}
		next, err = th.Iterate(v)
		return err
	}
	return &value.Generator{Class: "generator", Next: func() (value.Value, bool, error) {
		if !started {
			if err := start(); err != nil {
				next = value.IterateSlice(nil)
				return nil, false, err
			}
		}
		for {
			item, ok, err := next()
			if !ok || err != nil {
				return nil, false, err
			}
			if err := th.Step(); err != nil {
				return nil, false, err
			}
			out, keep, err := f(item)
			if keep || err != nil {
				return out, err == nil, err
			}
		}
	}}, nil
}

// filterSelect makes select and reject, and their attr forms.
func filterSelect(want, byAttr bool) callFunc {
	return func(th *value.Thread, a []value.Value) (value.Value, error) {
		pos, kw := a[1].(*value.Tuple).Items, a[2].(*value.Dict)
		var g getter
		var test value.Value // its name
		prepare := func() error {
			if byAttr {
				if len(pos) == 0 {
					return value.Raise("FilterArgumentError", "Missing parameter for attribute name")
				}
				g.parts = attrParts(pos[0])
				pos = pos[1:]
			}
			if len(pos) > 0 {
				test, pos = pos[0], pos[1:]
			}
			return nil
		}
		return lazily(th, a[0], prepare, func(item value.Value) (value.Value, bool, error) {
			v, err := g.get(th, item)
			if err != nil {
				return nil, false, err
			}
			if test != nil {
				f, err := byName(tests, "test", test)
				if err != nil {
					return nil, false, err
				}
				if v, err = f.with(th, v, pos, kw); err != nil {
					return nil, false, err
				}
			}
			ok, err := th.Truth(v)
			return item, ok == want, err
		})
	}
}

func filterBatch(th *value.Thread, a []value.Value) (value.Value, error) {
	items, err := th.List(a[0])
	if err != nil {
		return nil, err
	}
	n, err := intArg(a[1])
	if err != nil {
		return nil, err
	}
	var out []value.Value
	var row []value.Value
	for _, v := range items {
		if int64(len(row)) == n {
			out = append(out, &value.List{Items: row})
			row = nil
		}
		row = append(row, v)
	}
	if len(row) > 0 {
		if gap := n - int64(len(row)); a[2] != nil && a[2] != value.None && gap > 0 {
			fill, err := repeatItems(th, []value.Value{a[2]}, gap)
			if err != nil {
				return nil, err
			}
			row = append(row, fill...)
		}
		out = append(out, &value.List{Items: row})
	}
	return &value.Generator{Class: "generator", Next: value.IterateSlice(out)}, nil
}

func filterSlice(th *value.Thread, a []value.Value) (value.Value, error) {
	items, err := th.List(a[0])
	if err != nil {
		return nil, err
	}
	n, err := intArg(a[1])
	if err != nil {
		return nil, err
	}
	if n == 0 {
		return nil, value.Raise("ZeroDivisionError", "integer division or modulo by zero")
	}
	if err := th.GrowTimes(16, max(n, 0)); err != nil {
		return nil, err
	}
	size, extra := int64(len(items))/max(n, 1), int64(len(items))%max(n, 1)
	var out []value.Value
	at := int64(0)
	for i := range max(n, 0) {
		end := at + size
		if i < extra {
			end++
		}
		row := slices.Clone(items[at:end])
		if a[2] != nil && a[2] != value.None && i >= extra {
			row = append(row, a[2])
		}
		out = append(out, &value.List{Items: row})
		at = end
	}
	return &value.Generator{Class: "generator", Next: value.IterateSlice(out)}, nil
}

func filterSum(th *value.Thread, a []value.Value) (value.Value, error) {
	items, err := th.List(a[0])
	if err != nil {
		return nil, err
	}
	total := a[2]
	if total == nil {
		total = value.Int(0)
	}
	if _, ok := total.(*value.Str); ok {
		return nil, value.TypeError("sum() can't sum strings [use ''.join(seq) instead]")
	}
	g := getter{parts: attrParts(a[1])}
	for _, v := range items {
		if v, err = g.get(th, v); err != nil {
			return nil, err
		}
		if total, err = Binary(th, value.Add, total, v); err != nil {
			return nil, err
		}
	}
	return total, nil
}
