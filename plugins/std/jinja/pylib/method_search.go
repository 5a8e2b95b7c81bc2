package pylib

import (
	"strings"
	"unicode/utf8"

	"tgi/plugins/std/jinja/value"
)

func addSearches(add addMethod) {
	find := func(name string, last, must bool) {
		add(name, 1, 3, "", func(_ *value.Thread, s *value.Str, a []value.Value) (value.Value, error) {
			sub, err := strArg(a[0], "must be str, not %s")
			if err != nil {
				return nil, err
			}
			part, at, ok, err := substring(s, a[1], a[2])
			i := -1
			if ok && last {
				i = strings.LastIndex(part, sub.String())
			} else if ok {
				i = strings.Index(part, sub.String())
			}
			if err != nil {
				return nil, err
			}
			if i >= 0 {
				return value.Int(utf8.RuneCountInString(s.String()[:at+i])), nil
			}
			if must {
				return nil, value.ValueError("substring not found")
			}
			return value.Int(-1), nil
		}).parseTuple = true
	}
	find("find", false, false)
	find("rfind", true, false)
	find("index", false, true)
	find("rindex", true, true)
	add("count", 1, 3, "", func(_ *value.Thread, s *value.Str, a []value.Value) (value.Value, error) {
		sub, err := strArg(a[0], "must be str, not %s")
		if err != nil {
			return nil, err
		}
		part, _, ok, err := substring(s, a[1], a[2])
		if !ok || err != nil {
			return value.Int(0), err
		}
		return value.Int(strings.Count(part, sub.String())), nil
	}).parseTuple = true
	affix := func(name string, has func(string, string) bool) {
		add(name, 1, 3, "", func(th *value.Thread, s *value.Str, a []value.Value) (value.Value, error) {
			wanted := []value.Value{a[0]}
			if t, ok := a[0].(*value.Tuple); ok {
				wanted = t.Items
			} else if _, ok := a[0].(*value.Str); !ok {
				return nil, value.TypeError("%s first arg must be str or a tuple of str, not %s", name,
					value.ClassName(a[0]))
			}
			part, _, ok, err := substring(s, a[1], a[2])
			if err != nil {
				return nil, err
			}
			for _, w := range wanted {
				x, isStr := w.(*value.Str)
				if !isStr {
					return nil, value.TypeError("tuple for %s must only contain str, not %s", name, value.ClassName(w))
				}
				if ok && has(part, x.String()) {
					return value.Bool(true), nil
				}
			}
			return value.Bool(false), nil
		}).parseTuple = true
	}
	affix("startswith", strings.HasPrefix)
	affix("endswith", strings.HasSuffix)
	add("removeprefix", 1, 1, "", func(_ *value.Thread, s *value.Str, a []value.Value) (value.Value, error) {
		p, err := strArg(a[0], "removeprefix() argument must be str, not %s")
		if err != nil {
			return nil, err
		}
		return s.Sub(len(s.String())-len(strings.TrimPrefix(s.String(), p.String())), len(s.String())), nil
	})
	add("removesuffix", 1, 1, "", func(_ *value.Thread, s *value.Str, a []value.Value) (value.Value, error) {
		p, err := strArg(a[0], "removesuffix() argument must be str, not %s")
		if err != nil {
			return nil, err
		}
		return s.Sub(0, len(strings.TrimSuffix(s.String(), p.String()))), nil
	})
	add("replace", 2, 3, "", func(th *value.Thread, s *value.Str, a []value.Value) (value.Value, error) {
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
		return replaceStr(th, s, old, repl, n)
	})
}

// substring is s[start:end] and its offset; ok is false where start is beyond the end.
func substring(x *value.Str, start, end value.Value) (part string, at int, ok bool, err error) {
	if start == nil && end == nil {
		return x.String(), 0, true, nil
	}
	lo, hi, ok, err := charRange(x.Count(), start, end)
	if !ok || err != nil {
		return "", 0, false, err
	}
	at = x.ByteAt(lo)
	return x.String()[at:x.ByteAt(hi)], at, true, nil
}

// replace is str.replace; n < 0 replaces all.
func replaceStr(th *value.Thread, s, old, repl *value.Str, n int64) (*value.Str, error) {
	if n == 0 || old.String() != "" && !strings.Contains(s.String(), old.String()) {
		return s, nil
	}
	found := int64(strings.Count(s.String(), old.String()))
	if n >= 0 {
		found = min(found, n)
	}
	if err := th.GrowTimes(int64(len(repl.String())), found); err != nil {
		return nil, err
	}
	if err := th.Grow(int64(len(s.String()))); err != nil {
		return nil, err
	}
	var w value.Buffer
	at := 0
	for range found {
		i := 0
		if old.String() != "" {
			i = strings.Index(s.String()[at:], old.String())
			w.Sub(s, at, at+i)
			w.Str(repl)
			at += i + len(old.String())
			continue
		}
		w.Str(repl)
		if at < len(s.String()) {
			_, size := utf8.DecodeRuneInString(s.String()[at:])
			w.Sub(s, at, at+size)
			at += size
		}
	}
	w.Sub(s, at, len(s.String()))
	return w.Done(), nil
}
