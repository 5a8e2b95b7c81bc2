package jinja

import (
	"slices"
	"strings"
)

// keyed is an item with what it is sorted by.
type keyed struct{ key, item Value }

// sortBy sorts stably by the keys with Python's <.
func (st *state) sortBy(items []keyed, reverse bool) error {
	if err := st.growItems(len(items)); err != nil {
		return err
	}
	var failed error
	if reverse {
		slices.Reverse(items)
	}
	slices.SortStableFunc(items, func(a, b keyed) int {
		if failed != nil {
			return 0
		}
		if failed = st.step(); failed != nil {
			return 0
		}
		less, err := st.order(cmpLt, a.key, b.key, 0)
		if err != nil {
			failed = err
			return 0
		}
		if less {
			return -1
		}
		if more, _ := st.order(cmpLt, b.key, a.key, 0); more {
			return 1
		}
		return 0
	})
	if reverse {
		slices.Reverse(items)
	}
	return failed
}

func unkey(items []keyed) []Value {
	out := make([]Value, len(items))
	for i, k := range items {
		out[i] = k.item
	}
	return out
}

func filterSort(st *state, a []Value) (Value, error) {
	reverse, err := st.flag(a[1], false)
	if err != nil {
		return nil, err
	}
	exact, err := st.flag(a[2], false)
	if err != nil {
		return nil, err
	}
	items, err := st.list(a[0])
	if err != nil {
		return nil, err
	}
	var getters []getter
	if s, ok := a[3].(*Str); ok {
		for p := range strings.SplitSeq(s.s, ",") {
			getters = append(getters, getter{parts: attrParts(text(p)), fold: !exact})
		}
	} else {
		getters = []getter{{parts: attrParts(a[3]), fold: !exact}}
	}
	keys := make([]keyed, len(items))
	for i, v := range items {
		key := &List{}
		for _, g := range getters {
			k, err := g.get(st, v)
			if err != nil {
				return nil, err
			}
			key.items = append(key.items, k)
		}
		keys[i] = keyed{key, v}
	}
	err = st.sortBy(keys, reverse)
	return &List{unkey(keys)}, err
}

func filterDictSort(st *state, a []Value) (Value, error) {
	exact, err := st.flag(a[1], false)
	if err != nil {
		return nil, err
	}
	reverse, err := st.flag(a[3], false)
	if err != nil {
		return nil, err
	}
	byValue := false
	if a[2] != nil {
		s, _ := a[2].(*Str)
		if s == nil || s.s != "key" && s.s != "value" {
			return nil, raise("FilterArgumentError", `You can only sort by either "key" or "value"`)
		}
		byValue = s.s == "value"
	}
	d, ok := a[0].(*Dict)
	if !ok {
		if u, undef := a[0].(*Undefined); undef {
			return nil, u.err()
		}
		return nil, raise("AttributeError", "'%s' object has no attribute 'items'", className(a[0]))
	}
	keys := make([]keyed, d.len())
	for i, e := range d.entries {
		g := getter{fold: !exact}
		k := e.key
		if byValue {
			k = e.val
		}
		if k, err = g.get(st, k); err != nil {
			return nil, err
		}
		keys[i] = keyed{k, &Tuple{items: []Value{e.key, e.val}}}
	}
	err = st.sortBy(keys, reverse)
	return &List{unkey(keys)}, err
}

func filterUnique(st *state, a []Value) (Value, error) {
	exact, err := st.flag(a[1], false)
	if err != nil {
		return nil, err
	}
	g := getter{parts: attrParts(a[2]), fold: !exact}
	items, err := st.list(a[0])
	if err != nil {
		return nil, err
	}
	seen := &Dict{}
	var out []Value
	for _, v := range items {
		k, err := g.get(st, v)
		if err != nil {
			return nil, err
		}
		i, err := seen.find(k)
		if err != nil {
			return nil, err
		}
		if i < 0 {
			_ = seen.set(k, none) // find has shown that it hashes
			out = append(out, v)
		}
	}
	return &generator{class: "generator", next: sliceIterator(out)}, nil
}

// filterExtreme makes min and max: the first item that no other one beats.
func filterExtreme(op cmpOp) func(*state, []Value) (Value, error) {
	return func(st *state, a []Value) (Value, error) {
		exact, err := st.flag(a[1], false)
		if err != nil {
			return nil, err
		}
		items, err := st.list(a[0])
		if err != nil {
			return nil, err
		}
		if len(items) == 0 {
			return &Undefined{hint: "No aggregated item, sequence was empty."}, nil
		}
		g := getter{parts: attrParts(a[2]), fold: !exact}
		best := items[0]
		bestKey, err := g.get(st, best)
		if err != nil {
			return nil, err
		}
		for _, v := range items[1:] {
			k, err := g.get(st, v)
			if err != nil {
				return nil, err
			}
			better, err := st.order(op, k, bestKey, 0)
			if err != nil {
				return nil, err
			}
			if better {
				best, bestKey = v, k
			}
		}
		return best, nil
	}
}

func filterGroupBy(st *state, a []Value) (Value, error) {
	exact, err := st.flag(a[3], false)
	if err != nil {
		return nil, err
	}
	items, err := st.list(a[0])
	if err != nil {
		return nil, err
	}
	g := getter{parts: attrParts(a[1]), fold: !exact, def: a[2]}
	keys := make([]keyed, len(items))
	for i, v := range items {
		k, err := g.get(st, v)
		if err != nil {
			return nil, err
		}
		keys[i] = keyed{k, v}
	}
	if err := st.sortBy(keys, false); err != nil {
		return nil, err
	}
	real := getter{parts: g.parts, def: a[2]}
	out := &List{}
	var group *List
	for i, k := range keys {
		if i > 0 {
			same, err := st.equal(keys[i-1].key, k.key, 0)
			if err != nil {
				return nil, err
			}
			if same {
				group.items = append(group.items, k.item)
				continue
			}
		}
		name := k.key
		if !exact {
			if name, err = real.get(st, k.item); err != nil {
				return nil, err
			}
		}
		group = &List{[]Value{k.item}}
		out.items = append(out.items, &Tuple{items: []Value{name, group}, names: []string{"grouper", "list"}})
	}
	return out, nil
}
