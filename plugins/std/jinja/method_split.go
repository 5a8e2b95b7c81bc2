package jinja

import (
	"strings"
	"unicode/utf8"
)

// trimmed gives the range of s that is left when the characters in cut are
// taken off; cut nil means white space.
func (x *Str) trimmed(cut *Str, left, right bool) *Str {
	f := isSpace
	if cut != nil {
		f = func(r rune) bool { return strings.ContainsRune(cut.s, r) }
	}
	s, lo := x.s, 0
	if left {
		s = strings.TrimLeftFunc(s, f)
		lo = len(x.s) - len(s)
	}
	if right {
		s = strings.TrimRightFunc(s, f)
	}
	return x.sub(lo, lo+len(s))
}

func addSplits(add addMethod) {
	strip := func(name string, left, right bool) {
		add(name, 0, 1, "", func(_ *state, s *Str, a []Value) (Value, error) {
			var cut *Str
			if a[0] != nil && a[0] != none {
				var err error
				if cut, err = strArg(a[0], name+" arg must be None or str"); err != nil {
					return nil, typeError("%s arg must be None or str", name)
				}
			}
			return s.trimmed(cut, left, right), nil
		})
	}
	strip("strip", true, true)
	strip("lstrip", true, false)
	strip("rstrip", false, true)
	split := func(name string, last bool) {
		add(name, 0, 2, "sep maxsplit", func(st *state, s *Str, a []Value) (Value, error) {
			most, err := optInt(a[1], -1)
			if err != nil {
				return nil, err
			}
			var sep *Str
			if a[0] != nil && a[0] != none {
				if sep, err = strArg(a[0], "must be str or None, not %s"); err != nil {
					return nil, err
				}
				if sep.s == "" {
					return nil, valueError("empty separator")
				}
			}
			return st.split(s, sep, most, last)
		})
	}
	split("split", false)
	split("rsplit", true)
	partition := func(name string, last bool) {
		add(name, 1, 1, "", func(_ *state, s *Str, a []Value) (Value, error) {
			sep, err := strArg(a[0], "must be str, not %s")
			if err != nil {
				return nil, err
			}
			if sep.s == "" {
				return nil, valueError("empty separator")
			}
			i := strings.Index(s.s, sep.s)
			if last {
				i = strings.LastIndex(s.s, sep.s)
			}
			switch {
			case i >= 0:
				return &Tuple{items: []Value{s.sub(0, i), s.sub(i, i+len(sep.s)), s.sub(i+len(sep.s), len(s.s))}}, nil
			case last:
				return &Tuple{items: []Value{emptyStr, emptyStr, s}}, nil
			}
			return &Tuple{items: []Value{s, emptyStr, emptyStr}}, nil
		})
	}
	partition("partition", false)
	partition("rpartition", true)
	add("splitlines", 0, 1, "keepends", func(st *state, s *Str, a []Value) (Value, error) {
		keep := false
		if a[0] != nil {
			var err error
			if keep, err = truth(st, a[0]); err != nil {
				return nil, err
			}
		}
		items := s.lines(keep)
		return &List{items}, st.growItems(4 * len(items))
	})
	add("join", 1, 1, "", func(st *state, s *Str, a []Value) (Value, error) {
		items, err := st.list(a[0])
		if err != nil {
			return nil, typeError("can only join an iterable")
		}
		for i, v := range items {
			if _, ok := v.(*Str); !ok {
				return nil, typeError("sequence item %d: expected str instance, %s found", i, className(v))
			}
		}
		return st.join(s, items)
	})
}

// join puts strings together with s between them.
func (st *state) join(s *Str, items []Value) (*Str, error) {
	var w sbuf
	for i, v := range items {
		x := v.(*Str)
		if err := st.grow(int64(len(x.s) + len(s.s))); err != nil {
			return nil, err
		}
		if i > 0 {
			w.str(s)
		}
		w.str(x)
	}
	return w.done(), nil
}

// lines is str.splitlines.
func (x *Str) lines(keep bool) []Value {
	var out []Value
	start := 0
	for i := 0; i < len(x.s); {
		r, n := utf8.DecodeRuneInString(x.s[i:])
		if !isLineEnd(r) {
			i += n
			continue
		}
		end := i + n
		if r == '\r' && end < len(x.s) && x.s[end] == '\n' {
			end++
		}
		if keep {
			out = append(out, x.sub(start, end))
		} else {
			out = append(out, x.sub(start, i))
		}
		start, i = end, end
	}
	if start < len(x.s) {
		out = append(out, x.sub(start, len(x.s)))
	}
	return out
}

// split is str.split or str.rsplit, charged before anything is made.
func (st *state) split(s, sep *Str, most int64, last bool) (Value, error) {
	pieces := len(s.s)/2 + 1
	if sep != nil {
		pieces = strings.Count(s.s, sep.s) + 1
	} else if err := st.read(s, true); err != nil {
		return nil, err
	}
	if most >= 0 {
		pieces = int(min(int64(pieces), most+1))
	}
	if sep != nil || most >= 0 {
		if err := st.growItems(4 * pieces); err != nil {
			return nil, err
		}
	}
	return &List{s.split(sep, most, last)}, nil
}

// split is str.split or, from the right, str.rsplit. sep nil is white space;
// most < 0 is no limit.
func (x *Str) split(sep *Str, most int64, last bool) []Value {
	var cuts [][2]int // the pieces
	switch {
	case sep == nil && last:
		cuts = splitSpaceRight(x.s, most)
	case sep == nil:
		cuts = splitSpace(x.s, most)
	case last:
		end := len(x.s)
		for ; most != 0; most-- {
			i := strings.LastIndex(x.s[:end], sep.s)
			if i < 0 {
				break
			}
			cuts = append([][2]int{{i + len(sep.s), end}}, cuts...)
			end = i
		}
		cuts = append([][2]int{{0, end}}, cuts...)
	default:
		start := 0
		for ; most != 0; most-- {
			i := strings.Index(x.s[start:], sep.s)
			if i < 0 {
				break
			}
			cuts = append(cuts, [2]int{start, start + i})
			start += i + len(sep.s)
		}
		cuts = append(cuts, [2]int{start, len(x.s)})
	}
	out := make([]Value, len(cuts))
	for i, c := range cuts {
		out[i] = x.sub(c[0], c[1])
	}
	return out
}

func splitSpace(s string, most int64) [][2]int {
	var cuts [][2]int
	at := 0
	for {
		rest := strings.TrimLeftFunc(s[at:], isSpace)
		at = len(s) - len(rest)
		if rest == "" {
			return cuts
		}
		n := strings.IndexFunc(rest, isSpace)
		if most == 0 {
			return append(cuts, [2]int{at, at + len(rest)})
		}
		if n < 0 {
			n = len(rest)
		}
		cuts = append(cuts, [2]int{at, at + n})
		at += n
		most--
	}
}

func splitSpaceRight(s string, most int64) [][2]int {
	var cuts [][2]int
	for {
		s = strings.TrimRightFunc(s, isSpace)
		if s == "" {
			break
		}
		if most == 0 {
			cuts = append(cuts, [2]int{0, len(s)})
			break
		}
		i := strings.LastIndexFunc(s, isSpace)
		if i >= 0 {
			_, n := utf8.DecodeRuneInString(s[i:])
			i += n
		}
		i = max(i, 0)
		cuts = append(cuts, [2]int{i, len(s)})
		s = s[:i]
		most--
	}
	for i, j := 0, len(cuts)-1; i < j; i, j = i+1, j-1 {
		cuts[i], cuts[j] = cuts[j], cuts[i]
	}
	return cuts
}
