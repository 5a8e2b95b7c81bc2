package jinja

import (
	"strings"
	"unicode/utf8"
)

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
