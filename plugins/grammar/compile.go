package grammar

import (
	"context"
	"fmt"

	"tgi/plugins/grammar/ir"
)

// Grammar is a compiled grammar over a vocabulary. It is safe for concurrent use; all its states share the automaton,
// which is built as texts reach it.
type Grammar struct {
	v     *Vocab
	m     *machine
	start *set
}

// Compile prepares g, which has passed its checks ([ir.Read] or Check) and is not kept. Its time is about linear in the
// size of g: automata and parser states are built later, as texts reach them. Errors wrap ErrEmpty, ErrToken, ErrLimit
// or the error of ctx.
func (p *Vocab) Compile(ctx context.Context, g *ir.Grammar, l Limits) (*Grammar, error) {
	longest := min(p.all.deep, maxToken)
	yield := l.Yield
	l.Yield = nil // the grammar outlives its compilation
	m := newMachine(l.withDefaults(), longest)
	w := m.work(p, m.limits.CompileWork)
	w.ctx, w.yield = ctx, yield
	c := &compiler{w: w, g: g}
	if err := c.compile(); err != nil {
		return nil, err
	}
	body := c.full(g.Rules[g.Start].Body)
	if body == nil {
		return nil, ErrEmpty
	}
	start := w.set([]thread{{rest: body, f: root}})
	if w.err != nil {
		return nil, w.err
	}
	return &Grammar{v: p, m: m, start: start}, nil
}

type compiler struct {
	w     *work
	g     *ir.Grammar
	terms []*term   // by regex, nil where unused
	order []uint32  // expressions in use, operands first, without rules
	used  []bool    // by expression
	toks  []*tokens // by expression
	solid []*expr   // by expression: without the empty text; nil if nothing else matches

	nullable, productive, some []bool
}

func (c *compiler) compile() error {
	c.reachable()
	c.regexes()
	if c.w.err != nil {
		return c.w.err
	}
	if err := c.leaves(); err != nil {
		return err
	}
	c.properties()
	if c.w.err != nil {
		return c.w.err
	}
	id := c.identity()
	c.solid = make([]*expr, len(c.g.Exprs))
	rules := make([]*expr, len(c.g.Rules))
	for _, i := range c.order {
		if c.some[i] {
			c.solid[i] = c.build(i, id)
		}
		if !c.w.spend(priceBuild) {
			return c.w.err
		}
	}
	for r, d := range c.g.Rules {
		rules[r] = c.solid[d.Body]
	}
	c.w.m.rules = rules
	return nil
}

// identity is the grammar's hash: rules of different grammars differ even if they have the same name.
func (c *compiler) identity() hash { return hashOf(c.g.Append([]byte{tagRule})) }

// reachable finds the expressions that the start needs.
func (c *compiler) reachable() {
	c.used = make([]bool, len(c.g.Exprs))
	seen := make([]bool, len(c.g.Rules))
	todo := []uint32{c.g.Start}
	seen[c.g.Start] = true
	var stack []uint32
	for len(todo) > 0 {
		stack = append(stack[:0], c.g.Rules[todo[len(todo)-1]].Body)
		todo = todo[:len(todo)-1]
		for len(stack) > 0 {
			i := stack[len(stack)-1]
			stack = stack[:len(stack)-1]
			if c.used[i] {
				continue
			}
			c.used[i] = true
			x := &c.g.Exprs[i]
			if x.Kind == ir.Rule && !seen[x.Ref] {
				seen[x.Ref] = true
				todo = append(todo, x.Ref)
			}
			stack = append(stack, x.Args...)
		}
	}
	for i, u := range c.used {
		if u {
			c.order = append(c.order, uint32(i))
		}
	}
}

// leaves finds the tokens that the grammar names.
func (c *compiler) leaves() error {
	c.toks = make([]*tokens, len(c.g.Exprs))
	for _, i := range c.order {
		x := &c.g.Exprs[i]
		if x.Kind != ir.Token && x.Kind != ir.TokenText {
			continue
		}
		t, err := c.w.v.tokensOf(x)
		if err != nil {
			return fmt.Errorf("exprs[%d]: %w", i, err)
		}
		c.toks[i] = t
		c.w.m.tokens = true
	}
	return nil
}

// build returns the expression without the empty text, made from those of its operands.
func (c *compiler) build(i uint32, id hash) *expr {
	x := &c.g.Exprs[i]
	w := c.w
	switch x.Kind {
	case ir.Terminal:
		return w.internExpr(expr{op: eTerm, t: c.terms[x.Ref]})
	case ir.Token, ir.TokenText:
		return w.internExpr(expr{op: eToken, tok: c.toks[i]})
	case ir.Rule:
		return w.internExpr(expr{op: eRule, rule: int32(x.Ref), grammar: id})
	case ir.Choice:
		var ks []*expr
		for _, a := range x.Args {
			if c.solid[a] != nil {
				ks = append(ks, c.solid[a])
			}
		}
		return w.choiceExpr(ks)
	case ir.Times:
		return c.times(x)
	case ir.Unordered:
		return c.unordered(x, id)
	}
	return c.sequence(x.Args)
}

// times is a repeat without the empty text.
func (c *compiler) times(x *ir.Expr) *expr {
	lo, hi := x.Min, x.Max
	k := c.solid[x.Args[0]]
	if c.nullable[x.Args[0]] {
		lo = 0
	}
	if lo > 0 {
		return c.w.timesExpr(k, lo, hi)
	}
	if hi != unbounded {
		hi--
	}
	return c.w.catExpr(k, c.w.timesExpr(k, 0, hi))
}

// sequence is a sequence without the empty text: if its first members can be empty, it may begin with any of them.
func (c *compiler) sequence(args []uint32) *expr {
	var solid *expr // of the members from here on
	nullable := true
	for i := len(args) - 1; i >= 0; i-- {
		a := args[i]
		rest := emptyExpr
		if solid != nil {
			rest = solid
			if nullable {
				rest = c.w.timesExpr(solid, 0, 1)
			}
		}
		var with *expr
		if c.solid[a] != nil {
			with = c.w.catExpr(c.solid[a], rest)
		}
		switch {
		case !c.nullable[a]:
			solid, nullable = with, false
		case with != nil && solid != nil:
			solid = c.w.choiceExpr([]*expr{with, solid})
		case with != nil:
			solid = with
		}
	}
	return solid
}

// full is the expression including the empty text; nil if it matches no text.
func (c *compiler) full(i uint32) *expr {
	switch {
	case c.solid[i] == nil && c.nullable[i]:
		return emptyExpr
	case c.nullable[i]:
		return c.w.timesExpr(c.solid[i], 0, 1)
	}
	return c.solid[i]
}
