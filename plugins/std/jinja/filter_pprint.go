package jinja

import (
	"slices"
	"strings"
	"unicode/utf8"
)

// pprintWidth is the width of a line of Python's pprint.pformat.
const pprintWidth = 80

// filterPprint is jinja2's pprint: Python's pprint.pformat.
func filterPprint(st *state, a []Value) (Value, error) {
	p := &prettyPrinter{textWriter: textWriter{st: st}}
	if err := p.format(a[0], 0, 0, 0); err != nil {
		return nil, err
	}
	return p.done(), nil
}

// prettyPrinter is pprint.PrettyPrinter with its defaults.
type prettyPrinter struct{ textWriter }

// format is PrettyPrinter._format.
func (p *prettyPrinter) format(v Value, indent, allowance, level int) error {
	rep, err := p.rep(v)
	if err != nil {
		return err
	}
	if rep.count() > pprintWidth-indent-allowance {
		switch v := v.(type) {
		case *Dict:
			return p.dict(v, indent, allowance+1, level+1)
		case *List:
			p.text("[")
			err := p.items(v.items, indent+1, allowance+1, level+1)
			p.text("]")
			return err
		case *Tuple:
			end := ")"
			if len(v.items) == 1 {
				end = ",)"
			}
			p.text("(")
			err := p.items(v.items, indent+1, allowance+len(end), level+1)
			p.text(end)
			return err
		case *Str:
			if !v.safe && v.s != "" {
				return p.string(v, rep, indent, allowance, level+1)
			}
		}
	}
	p.str(rep)
	return nil
}

// rep is repr(v) with the keys of dicts sorted.
func (p *prettyPrinter) rep(v Value) (*Str, error) {
	sorted, err := p.sorted(v, 0)
	if err != nil {
		return nil, err
	}
	w := &textWriter{st: p.st}
	if err := w.repr(sorted); err != nil {
		return nil, err
	}
	return w.done(), nil
}

// sorted is v with the keys of its dicts in order.
func (p *prettyPrinter) sorted(v Value, depth int) (Value, error) {
	if depth > maxDepth {
		return v, nil // repr refuses it
	}
	var items []Value
	switch v := v.(type) {
	case *Dict:
		out := &Dict{}
		entries, err := p.order(v)
		if err != nil {
			return nil, err
		}
		for _, e := range entries {
			val, err := p.sorted(e.val, depth+1)
			if err != nil {
				return nil, err
			}
			if err := out.set(e.key, val); err != nil {
				return nil, err
			}
		}
		return out, nil
	case *List:
		items = v.items
	case *Tuple:
		items = v.items
	default:
		return v, nil
	}
	if err := p.st.growItems(len(items)); err != nil {
		return nil, err
	}
	out := make([]Value, len(items))
	for i := range items {
		var err error
		if out[i], err = p.sorted(items[i], depth+1); err != nil {
			return nil, err
		}
	}
	if _, ok := v.(*Tuple); ok {
		return &Tuple{items: out}, nil
	}
	return &List{out}, nil
}

// order is a dict's entries sorted by key; keys that have no order by their type.
func (p *prettyPrinter) order(d *Dict) ([]entry, error) {
	if err := p.st.growItems(2 * d.len()); err != nil {
		return nil, err
	}
	entries := slices.Clone(d.entries)
	less := func(a, b Value) bool {
		before, err := p.st.compare(cmpLt, a, b)
		if err != nil {
			return a.pyType() < b.pyType()
		}
		return before
	}
	slices.SortStableFunc(entries, func(a, b entry) int {
		switch {
		case less(a.key, b.key):
			return -1
		case less(b.key, a.key):
			return 1
		}
		return 0
	})
	return entries, nil
}

// dict is PrettyPrinter._pprint_dict.
func (p *prettyPrinter) dict(d *Dict, indent, allowance, level int) error {
	entries, err := p.order(d)
	if err != nil {
		return err
	}
	p.text("{")
	indent++
	for i, e := range entries {
		if i > 0 {
			if err := p.newline(",", indent); err != nil {
				return err
			}
		}
		key, err := p.rep(e.key)
		if err != nil {
			return err
		}
		p.str(key)
		p.text(": ")
		if err := p.format(e.val, indent+key.count()+2, allowed(allowance, i == len(entries)-1), level); err != nil {
			return err
		}
	}
	p.text("}")
	return nil
}

// items is PrettyPrinter._format_items.
func (p *prettyPrinter) items(items []Value, indent, allowance, level int) error {
	for i, v := range items {
		if i > 0 {
			if err := p.newline(",", indent); err != nil {
				return err
			}
		}
		if err := p.format(v, indent, allowed(allowance, i == len(items)-1), level); err != nil {
			return err
		}
	}
	return nil
}

// allowed is what must be left free at a line's end: for a comma, or for all that closes.
func allowed(allowance int, last bool) int {
	if last {
		return allowance
	}
	return 1
}

func (p *prettyPrinter) newline(end string, indent int) error {
	if err := p.st.grow(int64(indent)); err != nil {
		return err
	}
	p.text(end + "\n" + strings.Repeat(" ", indent))
	return nil
}

// str writes what is text already.
func (p *prettyPrinter) str(s *Str) { p.sbuf.str(s) }

// string is PrettyPrinter._pprint_str: a long string in several literals.
func (p *prettyPrinter) string(s, rep *Str, indent, allowance, level int) error {
	if level == 1 {
		indent++
		allowance++
	}
	var chunks []*Str
	add := func(x *Str) { chunks = append(chunks, literal(x)) }
	lines := s.lines(true)
	for i, v := range lines {
		line := v.(*Str)
		room := pprintWidth - indent
		last := 0
		if i == len(lines)-1 {
			last = allowance
		}
		if err := p.st.grow(4 * int64(len(line.s))); err != nil {
			return err
		}
		if literal(line).count() <= room-last {
			add(line)
			continue
		}
		from, to := 0, 0 // the literal being collected
		for to < len(line.s) {
			end := wordEnd(line.s, to)
			if end == len(line.s) {
				room -= last
			}
			if err := p.st.work(4 + (end-from)>>2); err != nil {
				return err
			}
			if literal(line.sub(from, end)).count() > room {
				if to > from {
					add(line.sub(from, to))
				}
				from = to
			}
			to = end
		}
		if to > from {
			add(line.sub(from, to))
		}
	}
	if len(chunks) == 1 {
		p.str(rep)
		return nil
	}
	if level == 1 {
		p.text("(")
	}
	for i, c := range chunks {
		if i > 0 {
			if err := p.newline("", indent); err != nil {
				return err
			}
		}
		p.str(c)
	}
	if level == 1 {
		p.text(")")
	}
	return nil
}

// literal is repr(s).
func literal(s *Str) *Str {
	var w textWriter
	w.quoted(s)
	return w.done()
}

// wordEnd is the end of a word and the white space behind it.
func wordEnd(s string, i int) int {
	space := false
	for i < len(s) {
		r, n := utf8.DecodeRuneInString(s[i:])
		if space && !isSpace(r) {
			break
		}
		space = isSpace(r)
		i += n
	}
	return i
}
