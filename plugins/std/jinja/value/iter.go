package value

import "unicode/utf8"

// Iterator returns items until ok is false.
type Iterator func() (v Value, ok bool, err error)

// IterateSlice iterates over the items.
func IterateSlice(items []Value) Iterator {
	i := 0
	return func() (Value, bool, error) {
		if i >= len(items) {
			return nil, false, nil
		}
		i++
		return items[i-1], true, nil
	}
}

// IterateN iterates over at(0) to at(n-1).
func IterateN(n int, at func(int) Value) Iterator {
	i := 0
	return func() (Value, bool, error) {
		if i >= n {
			return nil, false, nil
		}
		i++
		return at(i - 1), true, nil
	}
}

// Iterate is Python's iter(v).
func (th *Thread) Iterate(v Value) (Iterator, error) {
	switch v := v.(type) {
	case *List:
		return IterateSlice(v.Items), nil
	case *Tuple:
		return IterateSlice(v.Items), nil
	case *Dict:
		return IterateN(len(v.entries), func(i int) Value { return v.entries[i].Key }), nil
	case *DictView:
		return IterateN(v.Dict.Len(), v.At), nil
	case *Range:
		return IterateN(int(v.N), func(i int) Value { return Int(v.Start + int64(i)*v.Step) }), nil
	case *Generator:
		return v.Next, nil
	case *Undefined:
		return IterateSlice(nil), nil
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
	if v, ok := v.(Iterable); ok {
		return v.Iterate(), nil
	}
	return nil, TypeError("'%s' object is not iterable", v.Type())
}

// IsIterable reports whether iter(v) works.
func IsIterable(v Value) bool {
	switch v.(type) {
	case *Str, *List, *Tuple, *Dict, *DictView, *Range, *Generator, *Undefined, Iterable:
		return true
	}
	return false
}

// charOrigin is the origin of the character at byte i.
func (x *Str) charOrigin(i int) Origin {
	if x.IsData(i) {
		return FromData
	}
	return FromTemplate
}

// List is Python's list(v), as a new slice.
func (th *Thread) List(v Value) ([]Value, error) {
	switch v := v.(type) {
	case *List:
		return append([]Value(nil), v.Items...), th.GrowItems(len(v.Items))
	case *Tuple:
		return append([]Value(nil), v.Items...), th.GrowItems(len(v.Items))
	}
	next, err := th.Iterate(v)
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
		if err := th.GrowItems(1); err != nil {
			return nil, err
		}
		if err := th.Step(); err != nil {
			return nil, err
		}
		out = append(out, item)
	}
}

// Length is Python's len(v).
func (th *Thread) Length(v Value) (int64, error) {
	switch v := v.(type) {
	case *Str:
		return int64(v.Count()), nil
	case *List:
		return int64(len(v.Items)), nil
	case *Tuple:
		return int64(len(v.Items)), nil
	case *Dict:
		return int64(v.Len()), nil
	case *DictView:
		return int64(v.Dict.Len()), nil
	case *Range:
		return v.N, nil
	case *Undefined:
		return 0, nil
	case Sized:
		return v.Length(th)
	}
	return 0, TypeError("object of type '%s' has no len()", v.Type())
}

// Slice is v[start:stop:step].
func (th *Thread) Slice(v, start, stop, step Value) (Value, error) {
	switch v := v.(type) {
	case *Undefined:
		return nil, v.Err()
	case *Str, *List, *Tuple, *Range:
	case *Dict:
		return nil, TypeError("unhashable type: 'slice'")
	default:
		return nil, TypeError("'%s' object is not subscriptable", v.Type())
	}
	n, err := th.Length(v)
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
		items, err := th.pick(v.Items, lo, by, count)
		return &List{items}, err
	case *Tuple:
		items, err := th.pick(v.Items, lo, by, count)
		return &Tuple{Items: items}, err
	case *Range:
		return &Range{v.Start + lo*v.Step, v.Start + hi*v.Step, v.Step * by, count}, nil
	}
	return th.sliceStr(v.(*Str), lo, by, count)
}

func (th *Thread) pick(items []Value, lo, by, count int64) ([]Value, error) {
	if err := th.GrowItems(int(count)); err != nil {
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

func (th *Thread) sliceStr(s *Str, lo, by, count int64) (Value, error) {
	if count == 0 {
		return Empty, nil
	}
	if by == 1 {
		from := s.ByteAt(int(lo))
		to := int(lo + count)
		if len(s.s) != s.Count() {
			to = from + Text(s.s[from:]).ByteAt(int(count))
		}
		return s.Sub(from, to), nil
	}
	chars := s.chars()
	if err := th.GrowItems(len(chars)); err != nil {
		return nil, err
	}
	var w Buffer
	for i := range count {
		w.Str(chars[lo+i*by].(*Str))
	}
	return w.Done(), nil
}

// sliceBounds is PySlice_Unpack and PySlice_AdjustIndices.
func sliceBounds(n int64, start, stop, step Value) (lo, hi, by int64, err error) {
	by = 1
	if step != None {
		if by, err = SliceIndex(step); err != nil {
			return
		}
		if by == 0 {
			return 0, 0, 0, ValueError("slice step cannot be zero")
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
	if start != None {
		if lo, err = SliceIndex(start); err != nil {
			return
		}
		lo = clamp(lo)
	}
	if stop != None {
		if hi, err = SliceIndex(stop); err != nil {
			return
		}
		hi = clamp(hi)
	}
	return lo, hi, by, nil
}

// SliceIndex reads a bound of a slice: an int of any size, clamped to the range of int64.
func SliceIndex(v Value) (int64, error) {
	const far = 1 << 62
	switch v := v.(type) {
	case Int:
		return int64(min(max(v, -far), far)), nil
	case Bool:
		if v {
			return 1, nil
		}
		return 0, nil
	case *BigInt:
		return int64(v.v.Sign()) * far, nil
	}
	return 0, TypeError("slice indices must be integers or None or have an __index__ method")
}

// Unpack returns the items of v, which must be exactly n.
func (th *Thread) Unpack(v Value, n int) ([]Value, error) {
	if !IsIterable(v) {
		return nil, TypeError("cannot unpack non-iterable %s object", v.Type())
	}
	next, err := th.Iterate(v)
	if err != nil {
		return nil, err
	}
	items := make([]Value, 0, n)
	for {
		item, ok, err := next()
		if err != nil {
			return nil, err
		}
		if !ok {
			break
		}
		if len(items) == n {
			return nil, ValueError("too many values to unpack (expected %d)", n)
		}
		items = append(items, item)
	}
	if len(items) < n {
		return nil, ValueError("not enough values to unpack (expected %d, got %d)", n, len(items))
	}
	return items, nil
}
