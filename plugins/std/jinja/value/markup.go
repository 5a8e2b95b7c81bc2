package value

import "strings"

// Markup marks a string as safe HTML: markupsafe.Markup.
func (x *Str) Markup() *Str {
	if x.safe {
		return x
	}
	m := *x
	m.safe = true
	return &m
}

// Plain is the str inside a Markup.
func (x *Str) Plain() *Str {
	if !x.safe {
		return x
	}
	p := *x
	p.safe = false
	return &p
}

var htmlEscapes = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", `"`, "&#34;", "'", "&#39;")

// EscapeHTML is markupsafe.escape.
func (th *Thread) EscapeHTML(v Value) (*Str, error) {
	s, err := th.Str(v)
	if err != nil {
		return nil, err
	}
	if s.safe {
		return s, nil
	}
	return th.ForceEscape(s)
}

// ForceEscape is EscapeHTML for a string that counts as plain.
func (th *Thread) ForceEscape(s *Str) (*Str, error) {
	if err := th.Grow(6 * int64(len(s.s))); err != nil {
		return nil, err
	}
	return s.MapRuns(htmlEscapes.Replace).Markup(), nil
}

// AddMarkup is a + b if one of them is safe. The other one is escaped.
func (th *Thread) AddMarkup(a, b *Str) (Value, error) {
	x, err := th.EscapeHTML(a)
	if err != nil {
		return nil, err
	}
	y, err := th.EscapeHTML(b)
	if err != nil {
		return nil, err
	}
	return Concat(x.Plain(), y.Plain()).Markup(), th.Grow(int64(len(x.s) + len(y.s)))
}
