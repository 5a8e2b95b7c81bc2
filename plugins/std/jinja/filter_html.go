package jinja

import (
	"html"
	"strings"
)

func filterStripTags(st *state, a []Value) (Value, error) {
	s, err := st.str(a[0])
	if err != nil {
		return nil, err
	}
	out := s.s
	for _, pair := range [][2]string{{"<!--", "-->"}, {"<", ">"}} {
		for {
			i := strings.Index(out, pair[0])
			if i < 0 {
				break
			}
			j := strings.Index(out[i:], pair[1])
			if j < 0 {
				break
			}
			if err := st.work(len(out) >> 6); err != nil {
				return nil, err
			}
			out = out[:i] + out[i+j+len(pair[1]):]
		}
	}
	return like(s, html.UnescapeString(strings.Join(strings.FieldsFunc(out, isSpace), " "))), nil
}

// quoteURL is urllib.parse.quote.
func quoteURL(s string, safe string, plus bool) string {
	const hex = "0123456789ABCDEF"
	var b strings.Builder
	for i := range len(s) {
		c := s[i]
		switch {
		case c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || isDigit(c) || strings.IndexByte("_.-~"+safe, c) >= 0:
			b.WriteByte(c)
		case c == ' ' && plus:
			b.WriteByte('+')
		default:
			b.WriteByte('%')
			b.WriteByte(hex[c>>4])
			b.WriteByte(hex[c&15])
		}
	}
	return b.String()
}

func filterURLEncode(st *state, a []Value) (Value, error) {
	quote := func(v Value, query bool) (*Str, error) {
		s, err := st.str(v)
		if err != nil {
			return nil, err
		}
		if err := st.grow(3 * int64(len(s.s))); err != nil {
			return nil, err
		}
		safe := "/"
		if query {
			safe = ""
		}
		return s.mapRuns(func(p string) string { return quoteURL(p, safe, query) }), nil
	}
	var pairs []Value
	switch v := a[0].(type) {
	case *Dict:
		for i := range v.entries {
			pairs = append(pairs, (&dictView{v, viewItems}).at(i))
		}
	case *List, *Tuple, *generator, *dictView, *Undefined, *rangeObj:
		var err error
		if pairs, err = st.list(v); err != nil {
			return nil, err
		}
	default:
		return quote(v, false)
	}
	var w sbuf
	for i, p := range pairs {
		kv, err := st.unpack(p, 2)
		if err != nil {
			return nil, err
		}
		if i > 0 {
			w.text("&")
		}
		for j, v := range kv {
			if j > 0 {
				w.text("=")
			}
			s, err := quote(v, true)
			if err != nil {
				return nil, err
			}
			w.str(s)
		}
	}
	return w.done(), nil
}

func filterXMLAttr(st *state, a []Value) (Value, error) {
	space, err := st.flag(a[1], true)
	if err != nil {
		return nil, err
	}
	d, ok := a[0].(*Dict)
	if !ok {
		if u, undef := a[0].(*Undefined); undef {
			return nil, u.err()
		}
		return nil, raise("AttributeError", "'%s' object has no attribute 'items'", className(a[0]))
	}
	var w sbuf
	for _, e := range d.entries {
		if _, undef := e.val.(*Undefined); undef || e.val == none {
			continue
		}
		k, ok := e.key.(*Str)
		if !ok {
			return nil, typeError("expected string or bytes-like object, got '%s'", className(e.key))
		}
		if strings.ContainsAny(k.s, " \t\n\r\f\v/>=") {
			return nil, valueError("Invalid character in attribute name: %s", reprText(k))
		}
		if len(w.b) > 0 || space {
			w.text(" ")
		}
		name, err := st.htmlEscape(k)
		if err != nil {
			return nil, err
		}
		val, err := st.htmlEscape(e.val)
		if err != nil {
			return nil, err
		}
		w.str(name)
		w.text(`="`)
		w.str(val)
		w.text(`"`)
	}
	return w.done(), nil
}
