package pylib

import (
	"slices"
	"strings"

	"tgi/plugins/std/jinja/value"
)

// sortItem is an item with its sort keys.
type sortItem struct{ key, item value.Value }

// sortBy sorts stably by the keys with Python's <.
func sortBy(th *value.Thread, items []sortItem, reverse bool) error {
	if err := th.GrowItems(len(items)); err != nil {
		return err
	}
	var failed error
	if reverse {
		slices.Reverse(items)
	}
	slices.SortStableFunc(items, func(a, b sortItem) int {
		if failed != nil {
			return 0
		}
		if failed = th.Step(); failed != nil {
			return 0
		}
		less, err := th.Order(value.Lt, a.key, b.key, 0)
		if err != nil {
			failed = err
			return 0
		}
		if less {
			return -1
		}
		if more, _ := th.Order(value.Lt, b.key, a.key, 0); more {
			return 1
		}
		return 0
	})
	if reverse {
		slices.Reverse(items)
	}
	return failed
}

func sortedItems(items []sortItem) []value.Value {
	out := make([]value.Value, len(items))
	for i, k := range items {
		out[i] = k.item
	}
	return out
}

func filterSort(th *value.Thread, a []value.Value) (value.Value, error) {
	reverse, err := flagArg(th, a[1], false)
	if err != nil {
		return nil, err
	}
	exact, err := flagArg(th, a[2], false)
	if err != nil {
		return nil, err
	}
	items, err := th.List(a[0])
	if err != nil {
		return nil, err
	}
	var getters []getter
	if s, ok := a[3].(*value.Str); ok {
		for p := range strings.SplitSeq(s.String(), ",") {
			getters = append(getters, getter{parts: attrParts(value.Text(p)), fold: !exact})
		}
	} else {
		getters = []getter{{parts: attrParts(a[3]), fold: !exact}}
	}
	keys := make([]sortItem, len(items))
	for i, v := range items {
		key := &value.List{}
		for _, g := range getters {
			k, err := g.get(th, v)
			if err != nil {
				return nil, err
			}
			key.Items = append(key.Items, k)
		}
		keys[i] = sortItem{key, v}
	}
	err = sortBy(th, keys, reverse)
	return &value.List{Items: sortedItems(keys)}, err
}

func filterDictSort(th *value.Thread, a []value.Value) (value.Value, error) {
	exact, err := flagArg(th, a[1], false)
	if err != nil {
		return nil, err
	}
	reverse, err := flagArg(th, a[3], false)
	if err != nil {
		return nil, err
	}
	byValue := false
	if a[2] != nil {
		s, _ := a[2].(*value.Str)
		if s == nil || s.String() != "key" && s.String() != "value" {
			return nil, value.Raise("FilterArgumentError", `You can only sort by either "key" or "value"`)
		}
		byValue = s.String() == "value"
	}
	d, ok := a[0].(*value.Dict)
	if !ok {
		if u, undef := a[0].(*value.Undefined); undef {
			return nil, u.Err()
		}
		return nil, value.Raise("AttributeError", "'%s' object has no attribute 'items'", value.ClassName(a[0]))
	}
	keys := make([]sortItem, d.Len())
	for i, e := range d.Entries() {
		g := getter{fold: !exact}
		k := e.Key
		if byValue {
			k = e.Value
		}
		if k, err = g.get(th, k); err != nil {
			return nil, err
		}
		keys[i] = sortItem{k, &value.Tuple{Items: []value.Value{e.Key, e.Value}}}
	}
	err = sortBy(th, keys, reverse)
	return &value.List{Items: sortedItems(keys)}, err
}

func filterUnique(th *value.Thread, a []value.Value) (value.Value, error) {
	exact, err := flagArg(th, a[1], false)
	if err != nil {
		return nil, err
	}
	g := getter{parts: attrParts(a[2]), fold: !exact}
	items, err := th.List(a[0])
	if err != nil {
		return nil, err
	}
	seen := &value.Dict{}
	var out []value.Value
	for _, v := range items {
		k, err := g.get(th, v)
		if err != nil {
			return nil, err
		}
		i, err := seen.Find(k)
		if err != nil {
			return nil, err
		}
		if i < 0 {
			_ = seen.Set(k, value.None) // find has shown that it is hashable
			out = append(out, v)
		}
	}
	return &value.Generator{Class: "generator", Next: value.IterateSlice(out)}, nil
}

// filterExtreme makes min and max. Of equal items they return the first.
func filterExtreme(op value.CompareOp) callFunc {
	return func(th *value.Thread, a []value.Value) (value.Value, error) {
		exact, err := flagArg(th, a[1], false)
		if err != nil {
			return nil, err
		}
		items, err := th.List(a[0])
		if err != nil {
			return nil, err
		}
		if len(items) == 0 {
			return &value.Undefined{Hint: "No aggregated item, sequence was empty."}, nil
		}
		g := getter{parts: attrParts(a[2]), fold: !exact}
		best := items[0]
		bestKey, err := g.get(th, best)
		if err != nil {
			return nil, err
		}
		for _, v := range items[1:] {
			k, err := g.get(th, v)
			if err != nil {
				return nil, err
			}
			better, err := th.Order(op, k, bestKey, 0)
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

func filterGroupBy(th *value.Thread, a []value.Value) (value.Value, error) {
	exact, err := flagArg(th, a[3], false)
	if err != nil {
		return nil, err
	}
	items, err := th.List(a[0])
	if err != nil {
		return nil, err
	}
	g := getter{parts: attrParts(a[1]), fold: !exact, def: a[2]}
	keys := make([]sortItem, len(items))
	for i, v := range items {
		k, err := g.get(th, v)
		if err != nil {
			return nil, err
		}
		keys[i] = sortItem{k, v}
	}
	if err := sortBy(th, keys, false); err != nil {
		return nil, err
	}
	real := getter{parts: g.parts, def: a[2]}
	out := &value.List{}
	var group *value.List
	for i, k := range keys {
		if i > 0 {
			same, err := th.Equal(keys[i-1].key, k.key, 0)
			if err != nil {
				return nil, err
			}
			if same {
				group.Items = append(group.Items, k.item)
				continue
			}
		}
		name := k.key
		if !exact {
			if name, err = real.get(th, k.item); err != nil {
				return nil, err
			}
		}
		group = &value.List{Items: []value.Value{k.item}}
		out.Items = append(out.Items, &value.Tuple{Items: []value.Value{name, group},
			Names: []string{"grouper", "list"}})
	}
	return out, nil
}
