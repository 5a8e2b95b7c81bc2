package pylib

import (
	"strings"
	"unicode/utf8"

	"tgi/plugins/std/jinja/chars"
	"tgi/plugins/std/jinja/value"
)

func addSplits(add addMethod) {
	strip := func(name string, left, right bool) {
		add(name, 0, 1, "", func(_ *value.Thread, s *value.Str, a []value.Value) (value.Value, error) {
			var cut *value.Str
			if a[0] != nil && a[0] != value.None {
				var err error
				if cut, err = strArg(a[0], name+" arg must be None or str"); err != nil {
					return nil, value.TypeError("%s arg must be None or str", name)
				}
			}
			return s.Trim(cut, left, right), nil
		})
	}
	strip("strip", true, true)
	strip("lstrip", true, false)
	strip("rstrip", false, true)
	split := func(name string, last bool) {
		add(name, 0, 2, "sep maxsplit", func(th *value.Thread, s *value.Str, a []value.Value) (value.Value, error) {
			most, err := optInt(a[1], -1)
			if err != nil {
				return nil, err
			}
			var sep *value.Str
			if a[0] != nil && a[0] != value.None {
				if sep, err = strArg(a[0], "must be str or None, not %s"); err != nil {
					return nil, err
				}
				if sep.String() == "" {
					return nil, value.ValueError("empty separator")
				}
			}
			return splitStr(th, s, sep, most, last)
		})
	}
	split("split", false)
	split("rsplit", true)
	partition := func(name string, last bool) {
		add(name, 1, 1, "", func(_ *value.Thread, s *value.Str, a []value.Value) (value.Value, error) {
			sep, err := strArg(a[0], "must be str, not %s")
			if err != nil {
				return nil, err
			}
			if sep.String() == "" {
				return nil, value.ValueError("empty separator")
			}
			i := strings.Index(s.String(), sep.String())
			if last {
				i = strings.LastIndex(s.String(), sep.String())
			}
			switch {
			case i >= 0:
				return &value.Tuple{Items: []value.Value{s.Sub(0, i), s.Sub(i, i+len(sep.String())),
					s.Sub(i+len(sep.String()), len(s.String()))}}, nil
			case last:
				return &value.Tuple{Items: []value.Value{value.Empty, value.Empty, s}}, nil
			}
			return &value.Tuple{Items: []value.Value{s, value.Empty, value.Empty}}, nil
		})
	}
	partition("partition", false)
	partition("rpartition", true)
	add("splitlines", 0, 1, "keepends", func(th *value.Thread, s *value.Str, a []value.Value) (value.Value, error) {
		keep := false
		if a[0] != nil {
			var err error
			if keep, err = th.Truth(a[0]); err != nil {
				return nil, err
			}
		}
		items := splitLines(s, keep)
		return &value.List{Items: items}, th.GrowItems(4 * len(items))
	})
	add("join", 1, 1, "", func(th *value.Thread, s *value.Str, a []value.Value) (value.Value, error) {
		items, err := th.List(a[0])
		if err != nil {
			return nil, value.TypeError("can only join an iterable")
		}
		for i, v := range items {
			if _, ok := v.(*value.Str); !ok {
				return nil, value.TypeError("sequence item %d: expected str instance, %s found", i, value.ClassName(v))
			}
		}
		return joinStrs(th, s, items)
	})
}

// join puts strings together with s between them.
func joinStrs(th *value.Thread, s *value.Str, items []value.Value) (*value.Str, error) {
	var w value.Buffer
	for i, v := range items {
		x := v.(*value.Str)
		if err := th.Grow(int64(len(x.String()) + len(s.String()))); err != nil {
			return nil, err
		}
		if i > 0 {
			w.Str(s)
		}
		w.Str(x)
	}
	return w.Done(), nil
}

// splitLines is str.splitlines.
func splitLines(x *value.Str, keep bool) []value.Value {
	var out []value.Value
	start := 0
	for i := 0; i < len(x.String()); {
		r, n := utf8.DecodeRuneInString(x.String()[i:])
		if !chars.IsLineEnd(r) {
			i += n
			continue
		}
		end := i + n
		if r == '\r' && end < len(x.String()) && x.String()[end] == '\n' {
			end++
		}
		if keep {
			out = append(out, x.Sub(start, end))
		} else {
			out = append(out, x.Sub(start, i))
		}
		start, i = end, end
	}
	if start < len(x.String()) {
		out = append(out, x.Sub(start, len(x.String())))
	}
	return out
}

// split is str.split or str.rsplit, charged before anything is made.
func splitStr(th *value.Thread, s, sep *value.Str, most int64, last bool) (value.Value, error) {
	pieces := len(s.String())/2 + 1
	if sep != nil {
		pieces = strings.Count(s.String(), sep.String()) + 1
	} else if err := th.Read(s, true); err != nil {
		return nil, err
	}
	if most >= 0 {
		pieces = int(min(int64(pieces), most+1))
	}
	if sep != nil || most >= 0 {
		if err := th.GrowItems(4 * pieces); err != nil {
			return nil, err
		}
	}
	return &value.List{Items: cutStr(s, sep, most, last)}, nil
}

// cutStr is str.split or, from the right, str.rsplit. sep nil is white space;
// most < 0 is no limit.
func cutStr(x, sep *value.Str, most int64, last bool) []value.Value {
	var cuts [][2]int // the pieces
	switch {
	case sep == nil && last:
		cuts = splitSpaceRight(x.String(), most)
	case sep == nil:
		cuts = splitSpace(x.String(), most)
	case last:
		end := len(x.String())
		for ; most != 0; most-- {
			i := strings.LastIndex(x.String()[:end], sep.String())
			if i < 0 {
				break
			}
			cuts = append([][2]int{{i + len(sep.String()), end}}, cuts...)
			end = i
		}
		cuts = append([][2]int{{0, end}}, cuts...)
	default:
		start := 0
		for ; most != 0; most-- {
			i := strings.Index(x.String()[start:], sep.String())
			if i < 0 {
				break
			}
			cuts = append(cuts, [2]int{start, start + i})
			start += i + len(sep.String())
		}
		cuts = append(cuts, [2]int{start, len(x.String())})
	}
	out := make([]value.Value, len(cuts))
	for i, c := range cuts {
		out[i] = x.Sub(c[0], c[1])
	}
	return out
}

func splitSpace(s string, most int64) [][2]int {
	var cuts [][2]int
	at := 0
	for {
		rest := strings.TrimLeftFunc(s[at:], chars.IsSpace)
		at = len(s) - len(rest)
		if rest == "" {
			return cuts
		}
		n := strings.IndexFunc(rest, chars.IsSpace)
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
		s = strings.TrimRightFunc(s, chars.IsSpace)
		if s == "" {
			break
		}
		if most == 0 {
			cuts = append(cuts, [2]int{0, len(s)})
			break
		}
		i := strings.LastIndexFunc(s, chars.IsSpace)
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
