package pylib

import (
	"slices"
	"strings"
	"unicode/utf8"

	"tgi/plugins/std/jinja/chars"
	"tgi/plugins/std/jinja/value"
)

// pprintWidth is the width of a line of Python's pprint.pformat.
const pprintWidth = 80

// filterPprint is jinja2's pprint: Python's pprint.pformat.
func filterPprint(th *value.Thread, a []value.Value) (value.Value, error) {
	p := &prettyPrinter{Writer: value.Writer{Thread: th}}
	if err := p.format(a[0], 0, 0, 0); err != nil {
		return nil, err
	}
	return p.Done(), nil
}

// prettyPrinter is pprint.PrettyPrinter with its defaults.
type prettyPrinter struct{ value.Writer }

// format is PrettyPrinter._format.
func (p *prettyPrinter) format(v value.Value, indent, allowance, level int) error {
	rep, err := p.rep(v)
	if err != nil {
		return err
	}
	if rep.Count() > pprintWidth-indent-allowance {
		switch v := v.(type) {
		case *value.Dict:
			return p.dict(v, indent, allowance+1, level+1)
		case *value.List:
			p.Text("[")
			err := p.items(v.Items, indent+1, allowance+1, level+1)
			p.Text("]")
			return err
		case *value.Tuple:
			end := ")"
			if len(v.Items) == 1 {
				end = ",)"
			}
			p.Text("(")
			err := p.items(v.Items, indent+1, allowance+len(end), level+1)
			p.Text(end)
			return err
		case *value.Str:
			if !v.Safe() && v.String() != "" {
				return p.string(v, rep, indent, allowance, level+1)
			}
		}
	}
	p.str(rep)
	return nil
}

// rep is repr(v) with the keys of dicts sorted.
func (p *prettyPrinter) rep(v value.Value) (*value.Str, error) {
	sorted, err := p.sorted(v, 0)
	if err != nil {
		return nil, err
	}
	w := &value.Writer{Thread: p.Thread}
	if err := w.Repr(sorted); err != nil {
		return nil, err
	}
	return w.Done(), nil
}

// sorted is v with the keys of its dicts in order.
func (p *prettyPrinter) sorted(v value.Value, depth int) (value.Value, error) {
	if depth > value.MaxDepth {
		return v, nil // repr refuses it
	}
	var items []value.Value
	switch v := v.(type) {
	case *value.Dict:
		out := &value.Dict{}
		entries, err := p.order(v)
		if err != nil {
			return nil, err
		}
		for _, e := range entries {
			val, err := p.sorted(e.Value, depth+1)
			if err != nil {
				return nil, err
			}
			if err := out.Set(e.Key, val); err != nil {
				return nil, err
			}
		}
		return out, nil
	case *value.List:
		items = v.Items
	case *value.Tuple:
		items = v.Items
	default:
		return v, nil
	}
	if err := p.Thread.GrowItems(len(items)); err != nil {
		return nil, err
	}
	out := make([]value.Value, len(items))
	for i := range items {
		var err error
		if out[i], err = p.sorted(items[i], depth+1); err != nil {
			return nil, err
		}
	}
	if _, ok := v.(*value.Tuple); ok {
		return &value.Tuple{Items: out}, nil
	}
	return &value.List{Items: out}, nil
}

// order returns a dict's entries sorted by key. Keys without an order are sorted by their type.
func (p *prettyPrinter) order(d *value.Dict) ([]value.Entry, error) {
	if err := p.Thread.GrowItems(2 * d.Len()); err != nil {
		return nil, err
	}
	entries := slices.Clone(d.Entries())
	less := func(a, b value.Value) bool {
		before, err := p.Thread.Compare(value.Lt, a, b)
		if err != nil {
			return a.Type() < b.Type()
		}
		return before
	}
	slices.SortStableFunc(entries, func(a, b value.Entry) int {
		switch {
		case less(a.Key, b.Key):
			return -1
		case less(b.Key, a.Key):
			return 1
		}
		return 0
	})
	return entries, nil
}

// dict is PrettyPrinter._pprint_dict.
func (p *prettyPrinter) dict(d *value.Dict, indent, allowance, level int) error {
	entries, err := p.order(d)
	if err != nil {
		return err
	}
	p.Text("{")
	indent++
	for i, e := range entries {
		if i > 0 {
			if err := p.newline(",", indent); err != nil {
				return err
			}
		}
		key, err := p.rep(e.Key)
		if err != nil {
			return err
		}
		p.str(key)
		p.Text(": ")
		if err := p.format(e.Value, indent+key.Count()+2, allowed(allowance, i == len(entries)-1), level); err != nil {
			return err
		}
	}
	p.Text("}")
	return nil
}

// items is PrettyPrinter._format_items.
func (p *prettyPrinter) items(items []value.Value, indent, allowance, level int) error {
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
	if err := p.Thread.Grow(int64(indent)); err != nil {
		return err
	}
	p.Text(end + "\n" + strings.Repeat(" ", indent))
	return nil
}

// str writes a text as it is.
func (p *prettyPrinter) str(s *value.Str) { p.Buffer.Str(s) }

// string is PrettyPrinter._pprint_str: a long string in several literals.
func (p *prettyPrinter) string(s, rep *value.Str, indent, allowance, level int) error {
	if level == 1 {
		indent++
		allowance++
	}
	var chunks []*value.Str
	add := func(x *value.Str) { chunks = append(chunks, literal(x)) }
	lines := splitLines(s, true)
	for i, v := range lines {
		line := v.(*value.Str)
		room := pprintWidth - indent
		last := 0
		if i == len(lines)-1 {
			last = allowance
		}
		if err := p.Thread.Grow(4 * int64(len(line.String()))); err != nil {
			return err
		}
		if literal(line).Count() <= room-last {
			add(line)
			continue
		}
		from, to := 0, 0 // the literal being collected
		for to < len(line.String()) {
			end := wordEnd(line.String(), to)
			if end == len(line.String()) {
				room -= last
			}
			if err := p.Thread.Work(4 + (end-from)>>2); err != nil {
				return err
			}
			if literal(line.Sub(from, end)).Count() > room {
				if to > from {
					add(line.Sub(from, to))
				}
				from = to
			}
			to = end
		}
		if to > from {
			add(line.Sub(from, to))
		}
	}
	if len(chunks) == 1 {
		p.str(rep)
		return nil
	}
	if level == 1 {
		p.Text("(")
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
		p.Text(")")
	}
	return nil
}

// literal is repr(s).
func literal(s *value.Str) *value.Str {
	var w value.Writer
	w.Quoted(s)
	return w.Done()
}

// wordEnd is the end of a word and the white space behind it.
func wordEnd(s string, i int) int {
	space := false
	for i < len(s) {
		r, n := utf8.DecodeRuneInString(s[i:])
		if space && !chars.IsSpace(r) {
			break
		}
		space = chars.IsSpace(r)
		i += n
	}
	return i
}
