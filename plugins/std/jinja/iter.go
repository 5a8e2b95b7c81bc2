package jinja

import "unicode/utf8"

// iterator gives items until ok is false.
type iterator func() (v Value, ok bool, err error)

func sliceIterator(items []Value) iterator {
	i := 0
	return func() (Value, bool, error) {
		if i >= len(items) {
			return nil, false, nil
		}
		i++
		return items[i-1], true, nil
	}
}

// countIterator gives at(0) to at(n-1).
func countIterator(n int, at func(int) Value) iterator {
	i := 0
	return func() (Value, bool, error) {
		if i >= n {
			return nil, false, nil
		}
		i++
		return at(i - 1), true, nil
	}
}

// iterate is Python's iter(v).
func (st *state) iterate(v Value) (iterator, error) {
	switch v := v.(type) {
	case *List:
		return sliceIterator(v.items), nil
	case *Tuple:
		return sliceIterator(v.items), nil
	case *Dict:
		return countIterator(len(v.entries), func(i int) Value { return v.entries[i].key }), nil
	case *dictView:
		return countIterator(v.d.len(), v.at), nil
	case *rangeObj:
		return countIterator(int(v.n), func(i int) Value { return Int(v.start + int64(i)*v.step) }), nil
	case *generator:
		return v.next, nil
	case *Undefined:
		return sliceIterator(nil), nil
	case *loopContext:
		return func() (Value, bool, error) {
			item, ok, err := v.step()
			if !ok || err != nil {
				return nil, false, err
			}
			return &Tuple{items: []Value{item, v}}, true, nil
		}, nil
	case *Str:
		i := 0
		return func() (Value, bool, error) {
			if i >= len(v.s) {
				return nil, false, nil
			}
			_, n := utf8.DecodeRuneInString(v.s[i:])
			i += n
			return &Str{s: v.s[i-n : i], from: v.charOrigin(i - n)}, true, nil
		}, nil
	}
	return nil, typeError("'%s' object is not iterable", v.pyType())
}

// charOrigin is the origin of the character at byte i.
func (x *Str) charOrigin(i int) origin {
	if x.isData(i) {
		return fromData
	}
	return fromTemplate
}

// list is Python's list(v), as a new slice.
func (st *state) list(v Value) ([]Value, error) {
	switch v := v.(type) {
	case *List:
		return append([]Value(nil), v.items...), st.growItems(len(v.items))
	case *Tuple:
		return append([]Value(nil), v.items...), st.growItems(len(v.items))
	}
	next, err := st.iterate(v)
	if err != nil {
		return nil, err
	}
	var out []Value
	for {
		item, ok, err := next()
		if err != nil {
			return nil, err
		}
		if !ok {
			return out, nil
		}
		if err := st.growItems(1); err != nil {
			return nil, err
		}
		if err := st.step(); err != nil {
			return nil, err
		}
		out = append(out, item)
	}
}

// length is Python's len(v).
func (st *state) length(v Value) (int64, error) {
	switch v := v.(type) {
	case *Str:
		return int64(v.count()), nil
	case *List:
		return int64(len(v.items)), nil
	case *Tuple:
		return int64(len(v.items)), nil
	case *Dict:
		return int64(v.len()), nil
	case *dictView:
		return int64(v.d.len()), nil
	case *rangeObj:
		return v.n, nil
	case *Undefined:
		return 0, nil
	case *loopContext:
		return v.length(st)
	}
	return 0, typeError("object of type '%s' has no len()", v.pyType())
}

// slice is v[start:stop:step].
func (st *state) slice(v, start, stop, step Value) (Value, error) {
	switch v := v.(type) {
	case *Undefined:
		return nil, v.err()
	case *Str, *List, *Tuple, *rangeObj:
	case *Dict:
		return nil, typeError("unhashable type: 'slice'")
	case *builtin:
		return nil, typeError("'%s' object is not subscriptable", v.pyType())
	default:
		return nil, typeError("'%s' object is not subscriptable", v.pyType())
	}
	n, err := st.length(v)
	if err != nil {
		return nil, err
	}
	lo, hi, by, err := sliceBounds(n, start, stop, step)
	if err != nil {
		return nil, err
	}
	count := int64(0)
	if by > 0 && lo < hi {
		count = (hi-lo-1)/by + 1
	} else if by < 0 && hi < lo {
		count = (lo-hi-1)/-by + 1
	}
	switch v := v.(type) {
	case *List:
		items, err := st.pick(v.items, lo, by, count)
		return &List{items}, err
	case *Tuple:
		items, err := st.pick(v.items, lo, by, count)
		return &Tuple{items: items}, err
	case *rangeObj:
		return &rangeObj{v.start + lo*v.step, v.start + hi*v.step, v.step * by, count}, nil
	}
	return st.sliceStr(v.(*Str), lo, by, count)
}

func (st *state) pick(items []Value, lo, by, count int64) ([]Value, error) {
	if err := st.growItems(int(count)); err != nil {
		return nil, err
	}
	if by == 1 {
		return items[lo : lo+count : lo+count], nil
	}
	out := make([]Value, count)
	for i := range out {
		out[i] = items[lo+int64(i)*by]
	}
	return out, nil
}

func (st *state) sliceStr(s *Str, lo, by, count int64) (Value, error) {
	if count == 0 {
		return emptyStr, nil
	}
	if by == 1 {
		from := s.byteAt(int(lo))
		to := int(lo + count)
		if len(s.s) != s.count() {
			to = from + text(s.s[from:]).byteAt(int(count))
		}
		return s.sub(from, to), nil
	}
	chars := s.chars()
	if err := st.growItems(len(chars)); err != nil {
		return nil, err
	}
	var w sbuf
	for i := range count {
		w.str(chars[lo+i*by].(*Str))
	}
	return w.done(), nil
}

// sliceBounds is PySlice_Unpack and PySlice_AdjustIndices.
func sliceBounds(n int64, start, stop, step Value) (lo, hi, by int64, err error) {
	by = 1
	if step != none {
		if by, err = sliceIndex(step); err != nil {
			return
		}
		if by == 0 {
			return 0, 0, 0, valueError("slice step cannot be zero")
		}
	}
	lo, hi = 0, n
	low, high := int64(0), n
	if by < 0 {
		lo, hi = n-1, -1
		low, high = -1, n-1
	}
	clamp := func(i int64) int64 {
		if i < 0 {
			i += n
		}
		return min(max(i, low), high)
	}
	if start != none {
		if lo, err = sliceIndex(start); err != nil {
			return
		}
		lo = clamp(lo)
	}
	if stop != none {
		if hi, err = sliceIndex(stop); err != nil {
			return
		}
		hi = clamp(hi)
	}
	return lo, hi, by, nil
}

func sliceIndex(v Value) (int64, error) {
	const far = 1 << 62
	switch v := v.(type) {
	case Int:
		return int64(min(max(v, -far), far)), nil
	case Bool:
		if v {
			return 1, nil
		}
		return 0, nil
	case *bigInt:
		return int64(v.v.Sign()) * far, nil
	}
	return 0, typeError("slice indices must be integers or None or have an __index__ method")
}
