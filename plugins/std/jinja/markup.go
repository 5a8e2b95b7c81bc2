package jinja

import "strings"

// markup marks a string as safe HTML: markupsafe.Markup.
func (x *Str) markup() *Str {
	if x.safe {
		return x
	}
	m := *x
	m.safe = true
	return &m
}

// plain is the str inside a Markup.
func (x *Str) plain() *Str {
	if !x.safe {
		return x
	}
	p := *x
	p.safe = false
	return &p
}

var htmlEscapes = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", `"`, "&#34;", "'", "&#39;")

// htmlEscape is markupsafe.escape.
func (st *state) htmlEscape(v Value) (*Str, error) {
	s, err := st.str(v)
	if err != nil {
		return nil, err
	}
	if s.safe {
		return s, nil
	}
	return st.forceEscape(s)
}

func (st *state) forceEscape(s *Str) (*Str, error) {
	if err := st.grow(6 * int64(len(s.s))); err != nil {
		return nil, err
	}
	return s.mapRuns(htmlEscapes.Replace).markup(), nil
}

// addMarkup is a + b where one of them is safe: the other is escaped.
func (st *state) addMarkup(a, b *Str) (Value, error) {
	x, err := st.htmlEscape(a)
	if err != nil {
		return nil, err
	}
	y, err := st.htmlEscape(b)
	if err != nil {
		return nil, err
	}
	return join2(x.plain(), y.plain()).markup(), st.grow(int64(len(x.s) + len(y.s)))
}
