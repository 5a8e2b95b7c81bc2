package grammar

import "tgi/plugins/grammar/ir"

// regexes builds terms for the regular expressions of terminals in use.
func (c *compiler) regexes() {
	used := make([]bool, len(c.g.Regexes))
	for _, i := range c.order {
		if x := &c.g.Exprs[i]; x.Kind == ir.Terminal {
			used[x.Ref] = true
		}
	}
	for i := len(used) - 1; i >= 0; i-- { // operands have lower indices
		if used[i] {
			for _, a := range c.g.Regexes[i].Args {
				used[a] = true
			}
		}
	}
	c.terms = make([]*term, len(c.g.Regexes))
	for i := range c.g.Regexes {
		if used[i] && c.w.spend(priceBuild) {
			c.terms[i] = c.regex(&c.g.Regexes[i])
		}
	}
}

func (c *compiler) regex(x *ir.Regex) *term {
	w := c.w
	args := make([]*term, len(x.Args))
	for i, a := range x.Args {
		args[i] = c.terms[a]
	}
	switch x.Op {
	case ir.Bytes:
		var s byteSet
		for _, r := range x.Ranges {
			s.addRange(byte(r.Lo), byte(r.Hi))
		}
		return w.class(s)
	case ir.Chars:
		return w.chars(x.Ranges)
	case ir.Literal:
		return w.literal(string(x.Text))
	case ir.Concat:
		out := empty
		for i := len(args) - 1; i >= 0; i-- {
			out = w.cat(args[i], out)
		}
		return out
	case ir.Union:
		return w.union(args)
	case ir.Repeat:
		return w.repeat(args[0], x.Min, x.Max)
	case ir.And:
		return w.intersect(args)
	case ir.Not:
		return w.complement(args[0])
	}
	texts := make([]string, len(x.Texts))
	for i, t := range x.Texts {
		texts[i] = string(t)
	}
	return w.literals(texts)
}
