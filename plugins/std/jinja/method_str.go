package jinja

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

var strMethods map[string]*method

func init() {
	strMethods = map[string]*method{}
	add := func(name string, min, max int, kw string, call func(st *state, s *Str, a []Value) (Value, error)) *method {
		m := &method{class: "str", name: name, min: min, max: max, slow: perCharacter[name], call: func(st *state, self Value, a []Value) (Value, error) {
			s := self.(*Str)
			v, err := call(st, s, a)
			if out, ok := v.(*Str); ok && s.safe {
				v = out.markup()
			}
			return v, err
		}}
		if kw != "" {
			m.kw = strings.Fields(kw)
		}
		strMethods[name] = m
		return m
	}
	addCases(add)
	addTests(add)
	addSearches(add)
	addSplits(add)
	addPads(add)
}

type addMethod func(name string, min, max int, kw string, call func(st *state, s *Str, a []Value) (Value, error)) *method

func addCases(add addMethod) {
	plain := func(name string, f func(string) string) {
		add(name, 0, 0, "", func(st *state, s *Str, _ []Value) (Value, error) {
			return s.mapRuns(f), st.grow(int64(len(s.s)))
		})
	}
	near := func(name string, f func(string) string) {
		add(name, 0, 0, "", func(st *state, s *Str, _ []Value) (Value, error) {
			return s.mixedMap(f), st.grow(int64(len(s.s)))
		})
	}
	plain("upper", upper)
	near("lower", lower)
	plain("casefold", casefold)
	plain("swapcase", swapCase)
	near("capitalize", capitalize)
	near("title", titleCase)
}

// all is Python's rule for the is... methods: every character, and at least one.
func all(s string, f func(rune) bool) bool {
	for _, r := range s {
		if !f(r) {
			return false
		}
	}
	return s != ""
}

// cased is the rule of islower and isupper: no character of the wrong case, one of the right.
func cased(s string, right func(rune) bool) bool {
	found := false
	for _, r := range s {
		switch {
		case right(r):
			found = true
		case isCased(r):
			return false
		}
	}
	return found
}

func addTests(add addMethod) {
	test := func(name string, f func(string) bool) {
		add(name, 0, 0, "", func(_ *state, s *Str, _ []Value) (Value, error) { return Bool(f(s.s)), nil })
	}
	each := func(name string, f func(rune) bool) { test(name, func(s string) bool { return all(s, f) }) }
	each("isalpha", unicode.IsLetter)
	each("isalnum", isAlnum)
	each("isdecimal", func(r rune) bool { return unicode.Is(unicode.Nd, r) })
	each("isdigit", isDigitRune)
	each("isnumeric", isNumeric)
	each("isspace", isSpace)
	test("isprintable", func(s string) bool { return s == "" || all(s, isPrintable) })
	test("isascii", func(s string) bool { return s == "" || all(s, func(r rune) bool { return r < utf8.RuneSelf }) })
	test("islower", func(s string) bool { return cased(s, isLowerRune) })
	test("isupper", func(s string) bool { return cased(s, isUpperRune) })
	test("isidentifier", isIdentifier)
	test("istitle", isTitle)
}

func isTitle(s string) bool {
	inWord, found := false, false
	for _, r := range s {
		switch {
		case isUpperRune(r) || unicode.IsTitle(r):
			if inWord {
				return false
			}
			inWord, found = true, true
		case isLowerRune(r):
			if !inWord {
				return false
			}
			found = true
		default:
			inWord = false
		}
	}
	return found
}

func addSearches(add addMethod) {
	find := func(name string, last, must bool) {
		add(name, 1, 3, "", func(_ *state, s *Str, a []Value) (Value, error) {
			sub, err := strArg(a[0], "must be str, not %s")
			if err != nil {
				return nil, err
			}
			part, at, ok, err := s.part(a[1], a[2])
			i := -1
			if ok && last {
				i = strings.LastIndex(part, sub.s)
			} else if ok {
				i = strings.Index(part, sub.s)
			}
			if err != nil {
				return nil, err
			}
			if i >= 0 {
				return Int(utf8.RuneCountInString(s.s[:at+i])), nil
			}
			if must {
				return nil, valueError("substring not found")
			}
			return Int(-1), nil
		}).old = true
	}
	find("find", false, false)
	find("rfind", true, false)
	find("index", false, true)
	find("rindex", true, true)
	add("count", 1, 3, "", func(_ *state, s *Str, a []Value) (Value, error) {
		sub, err := strArg(a[0], "must be str, not %s")
		if err != nil {
			return nil, err
		}
		part, _, ok, err := s.part(a[1], a[2])
		if !ok || err != nil {
			return Int(0), err
		}
		return Int(strings.Count(part, sub.s)), nil
	}).old = true
	affix := func(name string, has func(string, string) bool) {
		add(name, 1, 3, "", func(st *state, s *Str, a []Value) (Value, error) {
			wanted := []Value{a[0]}
			if t, ok := a[0].(*Tuple); ok {
				wanted = t.items
			} else if _, ok := a[0].(*Str); !ok {
				return nil, typeError("%s first arg must be str or a tuple of str, not %s", name, className(a[0]))
			}
			part, _, ok, err := s.part(a[1], a[2])
			if err != nil {
				return nil, err
			}
			for _, w := range wanted {
				x, isStr := w.(*Str)
				if !isStr {
					return nil, typeError("tuple for %s must only contain str, not %s", name, className(w))
				}
				if ok && has(part, x.s) {
					return Bool(true), nil
				}
			}
			return Bool(false), nil
		}).old = true
	}
	affix("startswith", strings.HasPrefix)
	affix("endswith", strings.HasSuffix)
	add("removeprefix", 1, 1, "", func(_ *state, s *Str, a []Value) (Value, error) {
		p, err := strArg(a[0], "removeprefix() argument must be str, not %s")
		if err != nil {
			return nil, err
		}
		return s.sub(len(s.s)-len(strings.TrimPrefix(s.s, p.s)), len(s.s)), nil
	})
	add("removesuffix", 1, 1, "", func(_ *state, s *Str, a []Value) (Value, error) {
		p, err := strArg(a[0], "removesuffix() argument must be str, not %s")
		if err != nil {
			return nil, err
		}
		return s.sub(0, len(strings.TrimSuffix(s.s, p.s))), nil
	})
	add("replace", 2, 3, "", func(st *state, s *Str, a []Value) (Value, error) {
		old, err := strArg(a[0], "replace() argument 1 must be str, not %s")
		if err != nil {
			return nil, err
		}
		repl, err := strArg(a[1], "replace() argument 2 must be str, not %s")
		if err != nil {
			return nil, err
		}
		n, err := optInt(a[2], -1)
		if err != nil {
			return nil, err
		}
		return st.replace(s, old, repl, n)
	})
}

// part is s[start:end] and its offset; ok is false where start is beyond the end.
func (x *Str) part(start, end Value) (part string, at int, ok bool, err error) {
	if start == nil && end == nil {
		return x.s, 0, true, nil
	}
	lo, hi, ok, err := charRange(x.count(), start, end)
	if !ok || err != nil {
		return "", 0, false, err
	}
	at = x.byteAt(lo)
	return x.s[at:x.byteAt(hi)], at, true, nil
}

// replace is str.replace; n < 0 replaces all.
func (st *state) replace(s, old, repl *Str, n int64) (*Str, error) {
	if n == 0 || old.s != "" && !strings.Contains(s.s, old.s) {
		return s, nil
	}
	found := int64(strings.Count(s.s, old.s))
	if n >= 0 {
		found = min(found, n)
	}
	if err := st.growTimes(int64(len(repl.s)), found); err != nil {
		return nil, err
	}
	if err := st.grow(int64(len(s.s))); err != nil {
		return nil, err
	}
	var w sbuf
	at := 0
	for range found {
		i := 0
		if old.s != "" {
			i = strings.Index(s.s[at:], old.s)
			w.sub(s, at, at+i)
			w.str(repl)
			at += i + len(old.s)
			continue
		}
		w.str(repl)
		if at < len(s.s) {
			_, size := utf8.DecodeRuneInString(s.s[at:])
			w.sub(s, at, at+size)
			at += size
		}
	}
	w.sub(s, at, len(s.s))
	return w.done(), nil
}

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

func addPads(add addMethod) {
	pad := func(name string, f func(gap, width int64) (left int64)) {
		add(name, 1, 2, "", func(st *state, s *Str, a []Value) (Value, error) {
			width, err := intArg(a[0])
			if err != nil {
				return nil, err
			}
			fill := text(" ")
			if a[1] != nil {
				if fill, err = strArg(a[1], "The fill character must be a unicode character, not %s"); err != nil {
					return nil, err
				}
				if fill.count() != 1 {
					return nil, typeError("The fill character must be exactly one character long")
				}
			}
			return st.pad(s, width, fill, f)
		})
	}
	pad("ljust", func(int64, int64) int64 { return 0 })
	pad("rjust", func(gap, _ int64) int64 { return gap })
	pad("center", func(gap, width int64) int64 { return gap/2 + gap&width&1 })
	add("zfill", 1, 1, "", func(st *state, s *Str, a []Value) (Value, error) {
		width, err := intArg(a[0])
		if err != nil {
			return nil, err
		}
		sign := 0
		if s.s != "" && (s.s[0] == '-' || s.s[0] == '+') {
			sign = 1
		}
		padded, err := st.pad(s.sub(sign, len(s.s)), width-int64(sign), text("0"), func(gap, _ int64) int64 { return gap })
		if err != nil {
			return nil, err
		}
		return join2(s.sub(0, sign), padded), nil
	})
	add("expandtabs", 0, 1, "tabsize", func(st *state, s *Str, a []Value) (Value, error) {
		size, err := optInt(a[0], 8)
		if err != nil {
			return nil, err
		}
		return st.expandTabs(s, size)
	})
}

// pad fills s up to width characters; left says how many of them go before it.
func (st *state) pad(s *Str, width int64, fill *Str, left func(gap, width int64) int64) (*Str, error) {
	gap := width - int64(s.count())
	if gap <= 0 {
		return s, nil
	}
	if err := st.growTimes(gap, int64(len(fill.s))); err != nil {
		return nil, err
	}
	before := left(gap, width)
	return join2(join2(fill.repeat(int(before)), s), fill.repeat(int(gap-before))), nil
}

func (st *state) expandTabs(s *Str, size int64) (*Str, error) {
	if size > 1<<20 {
		return nil, st.grow(-1)
	}
	var w sbuf
	col := int64(0)
	for i, r := range s.s {
		n := utf8.RuneLen(r)
		switch r {
		case '\t':
			if size > 0 {
				gap := size - col%size
				if err := st.grow(gap); err != nil {
					return nil, err
				}
				w.put(strings.Repeat(" ", int(gap)), s.isData(i))
				col += gap
			}
		case '\n', '\r':
			col = 0
			w.sub(s, i, i+n)
		default:
			col++
			w.sub(s, i, i+n)
		}
	}
	return w.done(), nil
}
