package pylib

import (
	"html"
	"strings"

	"tgi/plugins/std/jinja/chars"
	"tgi/plugins/std/jinja/value"
)

func filterStripTags(th *value.Thread, a []value.Value) (value.Value, error) {
	s, err := th.Str(a[0])
	if err != nil {
		return nil, err
	}
	out := s.String()
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
			if err := th.Work(len(out) >> 6); err != nil {
				return nil, err
			}
			out = out[:i] + out[i+j+len(pair[1]):]
		}
	}
	return value.Like(s, html.UnescapeString(strings.Join(strings.FieldsFunc(out, chars.IsSpace), " "))), nil
}

// quoteURL is urllib.parse.quote.
func quoteURL(s string, safe string, plus bool) string {
	const hex = "0123456789ABCDEF"
	var b strings.Builder
	for i := range len(s) {
		c := s[i]
		switch {
		case c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || chars.IsASCIIDigit(c) ||
			strings.IndexByte("_.-~"+safe, c) >= 0:
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

func filterURLEncode(th *value.Thread, a []value.Value) (value.Value, error) {
	quote := func(v value.Value, query bool) (*value.Str, error) {
		s, err := th.Str(v)
		if err != nil {
			return nil, err
		}
		if err := th.Grow(3 * int64(len(s.String()))); err != nil {
			return nil, err
		}
		safe := "/"
		if query {
			safe = ""
		}
		return s.MapRuns(func(p string) string { return quoteURL(p, safe, query) }), nil
	}
	var pairs []value.Value
	switch v := a[0].(type) {
	case *value.Dict:
		for i := range v.Entries() {
			pairs = append(pairs, value.NewView(v, value.ViewItems).At(i))
		}
	case *value.List, *value.Tuple, *value.Generator, *value.DictView, *value.Undefined, *value.Range:
		var err error
		if pairs, err = th.List(v); err != nil {
			return nil, err
		}
	default:
		return quote(v, false)
	}
	var w value.Buffer
	for i, p := range pairs {
		kv, err := th.Unpack(p, 2)
		if err != nil {
			return nil, err
		}
		if i > 0 {
			w.Text("&")
		}
		for j, v := range kv {
			if j > 0 {
				w.Text("=")
			}
			s, err := quote(v, true)
			if err != nil {
				return nil, err
			}
			w.Str(s)
		}
	}
	return w.Done(), nil
}

func filterXMLAttr(th *value.Thread, a []value.Value) (value.Value, error) {
	space, err := flagArg(th, a[1], true)
	if err != nil {
		return nil, err
	}
	d, ok := a[0].(*value.Dict)
	if !ok {
		if u, undef := a[0].(*value.Undefined); undef {
			return nil, u.Err()
		}
		return nil, value.Raise("AttributeError", "'%s' object has no attribute 'items'", value.ClassName(a[0]))
	}
	var w value.Buffer
	for _, e := range d.Entries() {
		if _, undef := e.Value.(*value.Undefined); undef || e.Value == value.None {
			continue
		}
		k, ok := e.Key.(*value.Str)
		if !ok {
			return nil, value.TypeError("expected string or bytes-like object, got '%s'", value.ClassName(e.Key))
		}
		if strings.ContainsAny(k.String(), " \t\n\r\f\v/>=") {
			return nil, value.ValueError("Invalid character in attribute name: %s", value.Repr(k))
		}
		if len(w.Bytes) > 0 || space {
			w.Text(" ")
		}
		name, err := th.EscapeHTML(k)
		if err != nil {
			return nil, err
		}
		val, err := th.EscapeHTML(e.Value)
		if err != nil {
			return nil, err
		}
		w.Str(name)
		w.Text(`="`)
		w.Str(val)
		w.Text(`"`)
	}
	return w.Done(), nil
}
