package grammar

import (
	"slices"

	"tgi/plugins/grammar/ir"
)

// properties finds which expressions match the empty text, which match some text, and which match one that is not
// empty. Each is a least fixed point, found by counting down what an expression still needs (Dowling and Gallier 1984),
// in time linear in the grammar.
func (c *compiler) properties() {
	up := c.parents()
	leaf := func(of func(i uint32, x *ir.Expr) bool) []bool {
		out := make([]bool, len(c.g.Exprs))
		for _, i := range c.order {
			out[i] = of(i, &c.g.Exprs[i])
		}
		return out
	}
	all := func(x *ir.Expr) int {
		switch x.Kind {
		case ir.Seq:
			return len(x.Args)
		case ir.Unordered:
			_, need := members(x)
			return need
		}
		return 1
	}
	none := func(x *ir.Expr) bool {
		if x.Kind == ir.Unordered {
			return x.Max == 0 || x.Min == 0 && !slices.ContainsFunc(x.Marks, func(m ir.Mark) bool {
				return m&ir.Required != 0
			})
		}
		return x.Kind == ir.Seq && len(x.Args) == 0 || x.Kind == ir.Times && (x.Min == 0 || x.Max == 0)
	}
	c.nullable = c.solve(up, all, leaf(func(_ uint32, x *ir.Expr) bool {
		return none(x) || x.Kind == ir.Terminal && c.terms[x.Ref].nullable
	}), nil)
	c.productive = c.solve(up, all, leaf(func(i uint32, x *ir.Expr) bool {
		return none(x) || x.Kind == ir.Terminal && c.w.isAlive(c.terms[x.Ref]) || c.toks[i] != nil
	}), nil)
	one := func(*ir.Expr) int { return 1 }
	never := leaf(func(i uint32, x *ir.Expr) bool {
		return !c.productive[i] || (x.Kind == ir.Times || x.Kind == ir.Unordered) && x.Max == 0
	})
	c.some = c.solve(up, one, leaf(func(i uint32, x *ir.Expr) bool {
		return x.Kind == ir.Terminal && c.longer(c.terms[x.Ref]) || c.toks[i] != nil
	}), never)
}

// members returns the operands of an unordered list, and how many of them must have a property for the list to have it:
// all required ones, or any.
func members(x *ir.Expr) (args []uint32, need int) {
	for i, m := range x.Marks {
		if m&ir.Required != 0 {
			args = append(args, x.Args[i+1])
		}
	}
	if len(args) > 0 {
		return args, len(args)
	}
	return x.Args[1:], 1
}

// longer reports whether t matches a text that is not empty.
func (c *compiler) longer(t *term) bool {
	if t.pure {
		return !t.first.empty()
	}
	for left := t.first; !left.empty() && c.w.err == nil; {
		b := left.lowest()
		left = left.minus(c.w.equivalent(t, b))
		if c.w.next(t, b) != nothing {
			return true
		}
	}
	return false
}

// parents lists, by expression, the expressions that it is an operand of; a rule's body is an operand of every
// reference to the rule.
func (c *compiler) parents() [][]uint32 {
	up := make([][]uint32, len(c.g.Exprs))
	for _, i := range c.order {
		x := &c.g.Exprs[i]
		args := x.Args
		if x.Kind == ir.Unordered {
			args, _ = members(x)
		}
		for _, a := range args {
			up[a] = append(up[a], i)
		}
		if x.Kind == ir.Rule {
			body := c.g.Rules[x.Ref].Body
			up[body] = append(up[body], i)
		}
	}
	return up
}

// solve starts with the expressions in first, then marks each expression once as many of its operands are marked as
// need returns. It never marks those in never.
func (c *compiler) solve(up [][]uint32, need func(*ir.Expr) int, first, never []bool) []bool {
	left := make([]int32, len(c.g.Exprs))
	out := make([]bool, len(c.g.Exprs))
	var todo []uint32
	for _, i := range c.order {
		left[i] = int32(need(&c.g.Exprs[i]))
		if first[i] && (never == nil || !never[i]) {
			out[i] = true
			todo = append(todo, i)
		}
	}
	for len(todo) > 0 {
		i := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		for _, p := range up[i] {
			left[p]--
			if left[p] <= 0 && !out[p] && (never == nil || !never[p]) {
				out[p] = true
				todo = append(todo, p)
			}
		}
	}
	return out
}
