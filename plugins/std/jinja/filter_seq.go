package jinja

import (
	"slices"
	"strconv"
	"strings"
)

// getter looks an attribute up in each item, as jinja2's make_attrgetter.
type getter struct {
	parts []Value
	fold  bool  // lower-case strings
	def   Value // in place of undefined
}

// attrParts splits "a.b.0" at its dots; attr nil or None is the item itself.
func attrParts(attr Value) []Value {
	s, ok := attr.(*Str)
	switch {
	case attr == nil || attr == none:
		return nil
	case !ok:
		return []Value{attr}
	}
	var parts []Value
	for p := range strings.SplitSeq(s.s, ".") {
		if n, err := strconv.ParseInt(p, 10, 64); err == nil && all(p, isDigitRune) {
			parts = append(parts, Int(n))
		} else {
			parts = append(parts, like(s, p))
		}
	}
	return parts
}

func (g *getter) get(st *state, v Value) (Value, error) {
	for _, p := range g.parts {
		var err error
		if v, err = st.getitem(v, p); err != nil {
			return nil, err
		}
		if _, ok := v.(*Undefined); ok && g.def != nil && g.def != none {
			v = g.def
		}
	}
	if s, ok := v.(*Str); ok && g.fold {
		return s.mixedMap(lower), nil
	}
	return v, nil
}

func filterList(st *state, a []Value) (Value, error) {
	items, err := st.list(a[0])
	return &List{items}, err
}

func filterFirst(st *state, a []Value) (Value, error) {
	next, err := st.iterate(a[0])
	if err != nil {
		return nil, err
	}
	v, ok, err := next()
	if !ok && err == nil {
		return &Undefined{hint: "No first item, sequence was empty."}, nil
	}
	return v, err
}

// reversed gives the items of what Python's reversed() takes, backwards.
func (st *state) reversed(v Value) ([]Value, error) {
	switch v := v.(type) {
	case *Str, *List, *Tuple, *Dict, *rangeObj, *dictView:
		items, err := st.list(v)
		slices.Reverse(items)
		return items, err
	case *Undefined:
		return nil, v.err()
	}
	return nil, typeError("'%s' object is not reversible", v.pyType())
}

func filterLast(st *state, a []Value) (Value, error) {
	if _, ok := a[0].(*Undefined); ok {
		return &Undefined{hint: "No last item, sequence was empty."}, nil
	}
	items, err := st.reversed(a[0])
	if err != nil {
		return nil, err
	}
	if len(items) == 0 {
		return &Undefined{hint: "No last item, sequence was empty."}, nil
	}
	return items[0], nil
}

func filterReverse(st *state, a []Value) (Value, error) {
	if s, ok := a[0].(*Str); ok {
		return st.slice(s, none, none, Int(-1))
	}
	items, err := st.reversed(a[0])
	if err == nil {
		class := map[string]string{"list": "list_reverseiterator", "range": "range_iterator", "dict": "dict_reversekeyiterator"}[a[0].pyType()]
		if class == "" {
			class = "reversed"
		}
		return &generator{class: class, next: sliceIterator(items)}, nil
	}
	if items, err = st.list(a[0]); isClass(err, "TypeError") {
		return nil, raise("FilterArgumentError", "argument must be iterable")
	}
	slices.Reverse(items)
	return &List{items}, err
}

func filterItems(_ *state, a []Value) (Value, error) {
	switch v := a[0].(type) {
	case *Undefined:
		return &generator{class: "generator", next: sliceIterator(nil)}, nil
	case *Dict:
		view := &dictView{v, viewItems}
		return &generator{class: "generator", next: countIterator(v.len(), view.at)}, nil
	}
	// the error comes when the generator is walked
	return &generator{class: "generator", next: func() (Value, bool, error) {
		return nil, false, typeError("Can only get item pairs from a mapping.")
	}}, nil
}

func filterJoin(st *state, a []Value) (Value, error) {
	sep := emptyStr
	if a[1] != nil {
		var err error
		if sep, err = st.str(a[1]); err != nil {
			return nil, err
		}
	}
	items, err := st.list(a[0])
	if err != nil {
		return nil, err
	}
	g := getter{parts: attrParts(a[2])}
	for i, v := range items {
		if v, err = g.get(st, v); err != nil {
			return nil, err
		}
		s, err := st.str(v)
		if err != nil {
			return nil, err
		}
		items[i] = s.plain()
	}
	return st.join(sep.plain(), items)
}

func filterMap(st *state, a []Value) (Value, error) {
	pos, kw := a[1].(*Tuple), a[2].(*Dict)
	var f func(v Value) (Value, error)
	prepare := func() error {
		attr, byAttr := kw.getStr("attribute")
		if len(pos.items) == 0 && byAttr {
			g := getter{parts: attrParts(attr)}
			g.def, _ = kw.getStr("default")
			for _, e := range kw.entries {
				if k := e.key.(*Str); k.s != "attribute" && k.s != "default" {
					return raise("FilterArgumentError", "Unexpected keyword argument %s", reprText(k))
				}
			}
			f = func(v Value) (Value, error) { return g.get(st, v) }
			return nil
		}
		if len(pos.items) == 0 {
			return raise("FilterArgumentError", "map requires a filter argument")
		}
		f = func(v Value) (Value, error) {
			filter, err := byName(filters, "filter", pos.items[0])
			if err != nil {
				return nil, err
			}
			return filter.with(st, v, pos.items[1:], kw)
		}
		return nil
	}
	return st.lazily(a[0], prepare, func(v Value) (Value, bool, error) {
		v, err := f(v)
		return v, true, err
	})
}

// byName finds a filter or test that a value names.
func byName(table map[string]*function, kind string, name Value) (*function, error) {
	if s, ok := name.(*Str); ok && table[s.s] != nil {
		return table[s.s], nil
	}
	return nil, raise("TemplateRuntimeError", "No %s named %s.", kind, reprText(name))
}

// with calls f with v before other arguments.
func (f *function) with(st *state, v Value, pos []Value, kw *Dict) (Value, error) {
	a := args{pos: append([]Value{v}, pos...)}
	for _, e := range kw.entries {
		a.kw = append(a.kw, kwArg{e.key.(*Str), e.val})
	}
	return f.invoke(st, a)
}

// lazily is a generator over the items of v that f keeps, in f's form.
// prepare runs when the first item is asked for, and only where v is true.
func (st *state) lazily(v Value, prepare func() error, f func(Value) (Value, bool, error)) (Value, error) {
	var next iterator
	started := false
	start := func() error {
		started = true
		ok, err := truth(st, v)
		if err != nil || !ok {
			next = sliceIterator(nil)
			return err
		}
		if err := prepare(); err != nil {
			return err
		}
		next, err = st.iterate(v)
		return err
	}
	return &generator{class: "generator", next: func() (Value, bool, error) {
		if !started {
			if err := start(); err != nil {
				next = sliceIterator(nil)
				return nil, false, err
			}
		}
		for {
			item, ok, err := next()
			if !ok || err != nil {
				return nil, false, err
			}
			if err := st.step(); err != nil {
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
func filterSelect(want, byAttr bool) func(*state, []Value) (Value, error) {
	return func(st *state, a []Value) (Value, error) {
		pos, kw := a[1].(*Tuple).items, a[2].(*Dict)
		var g getter
		var test Value // its name
		prepare := func() error {
			if byAttr {
				if len(pos) == 0 {
					return raise("FilterArgumentError", "Missing parameter for attribute name")
				}
				g.parts = attrParts(pos[0])
				pos = pos[1:]
			}
			if len(pos) > 0 {
				test, pos = pos[0], pos[1:]
			}
			return nil
		}
		return st.lazily(a[0], prepare, func(item Value) (Value, bool, error) {
			v, err := g.get(st, item)
			if err != nil {
				return nil, false, err
			}
			if test != nil {
				f, err := byName(tests, "test", test)
				if err != nil {
					return nil, false, err
				}
				if v, err = f.with(st, v, pos, kw); err != nil {
					return nil, false, err
				}
			}
			ok, err := truth(st, v)
			return item, ok == want, err
		})
	}
}

func filterBatch(st *state, a []Value) (Value, error) {
	items, err := st.list(a[0])
	if err != nil {
		return nil, err
	}
	n, err := intArg(a[1])
	if err != nil {
		return nil, err
	}
	var out []Value
	var row []Value
	for _, v := range items {
		if int64(len(row)) == n {
			out = append(out, &List{row})
			row = nil
		}
		row = append(row, v)
	}
	if len(row) > 0 {
		if gap := n - int64(len(row)); a[2] != nil && a[2] != none && gap > 0 {
			fill, err := st.repeatItems([]Value{a[2]}, gap)
			if err != nil {
				return nil, err
			}
			row = append(row, fill...)
		}
		out = append(out, &List{row})
	}
	return &generator{class: "generator", next: sliceIterator(out)}, nil
}

func filterSlice(st *state, a []Value) (Value, error) {
	items, err := st.list(a[0])
	if err != nil {
		return nil, err
	}
	n, err := intArg(a[1])
	if err != nil {
		return nil, err
	}
	if n == 0 {
		return nil, raise("ZeroDivisionError", "integer division or modulo by zero")
	}
	if err := st.growTimes(16, max(n, 0)); err != nil {
		return nil, err
	}
	size, extra := int64(len(items))/max(n, 1), int64(len(items))%max(n, 1)
	var out []Value
	at := int64(0)
	for i := range max(n, 0) {
		end := at + size
		if i < extra {
			end++
		}
		row := slices.Clone(items[at:end])
		if a[2] != nil && a[2] != none && i >= extra {
			row = append(row, a[2])
		}
		out = append(out, &List{row})
		at = end
	}
	return &generator{class: "generator", next: sliceIterator(out)}, nil
}

func filterSum(st *state, a []Value) (Value, error) {
	items, err := st.list(a[0])
	if err != nil {
		return nil, err
	}
	total := a[2]
	if total == nil {
		total = Int(0)
	}
	if _, ok := total.(*Str); ok {
		return nil, typeError("sum() can't sum strings [use ''.join(seq) instead]")
	}
	g := getter{parts: attrParts(a[1])}
	for _, v := range items {
		if v, err = g.get(st, v); err != nil {
			return nil, err
		}
		if total, err = st.binaryOp(tAdd, total, v); err != nil {
			return nil, err
		}
	}
	return total, nil
}
