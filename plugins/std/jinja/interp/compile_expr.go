package interp

import (
	"fmt"
	"math/big"

	"tgi/plugins/std/jinja/chars"
	"tgi/plugins/std/jinja/pylib"
	"tgi/plugins/std/jinja/syntax"
	"tgi/plugins/std/jinja/value"
)

var arithmetic = map[syntax.Op]value.Op{
	syntax.Add: value.Add, syntax.Sub: value.Sub, syntax.Mul: value.Mul, syntax.Div: value.Div,
	syntax.FloorDiv: value.FloorDiv, syntax.Mod: value.Mod, syntax.Pow: value.Pow,
}

var comparisons = map[syntax.CompareOp]value.CompareOp{
	syntax.Eq: value.Eq, syntax.Ne: value.Ne, syntax.Lt: value.Lt, syntax.Le: value.Le,
	syntax.Gt: value.Gt, syntax.Ge: value.Ge, syntax.In: value.In, syntax.NotIn: value.NotIn,
}

// exprs compiles expressions in their order.
func (c *compiler) exprs(x scope, es []syntax.Expr) []expr {
	out := make([]expr, 0, len(es))
	for _, e := range es {
		out = append(out, c.expr(e, x))
	}
	return out
}

// expr compiles an expression; nil stays nil. Parts are compiled in the order of
// jinja2's fields, which decides which of two errors is told.
//
// A chain such as a.b|c + d is as deep as it is long: it is compiled in a loop, from
// its first operand on, and not by as many calls.
func (c *compiler) expr(e syntax.Expr, x scope) expr {
	if e == nil {
		return nil
	}
	base := len(c.chain)
	for first := c.operand(e); first != nil; first = c.operand(e) {
		l := link{node: e, ctx: x}
		if cond, ok := e.(*syntax.Cond); ok {
			x = x.softer()
			l.ctx, l.test = x, c.expr(cond.Test, x)
		}
		c.check(e, x)
		c.chain = append(c.chain, l)
		e = first
	}
	out := c.start(e, x)
	for len(c.chain) > base {
		last := len(c.chain) - 1
		l := c.chain[last]
		c.chain = c.chain[:last]
		out = c.extend(&l, out)
	}
	return out
}

// link is an expression of a chain: what it does with the expression in it.
type link struct {
	node syntax.Expr
	ctx  scope
	test expr // of a Cond
}

// operand is the part of an expression that its chain goes on with, or nil.
func (c *compiler) operand(e syntax.Expr) syntax.Expr {
	switch e := e.(type) {
	case *syntax.Attr:
		return e.X
	case *syntax.Item:
		return e.X
	case *syntax.Slice:
		return e.X
	case *syntax.Call:
		return e.Fn
	case *syntax.Filter:
		return e.X
	case *syntax.Test:
		return e.X
	case *syntax.Cond:
		return e.Yes
	case *syntax.Logic:
		return e.Left
	case *syntax.Binary:
		if neg := negated(e); neg != nil {
			return neg.X
		}
		return e.Left
	case *syntax.Compare:
		return e.First
	}
	return nil
}

// check refuses filters and tests that there are not.
func (c *compiler) check(e syntax.Expr, x scope) {
	switch e := e.(type) {
	case *syntax.Filter:
		if why := unsupportedFilters[e.Name]; why != "" {
			c.fail(e.Offset, "The filter %s is not supported: %s.", chars.Quote(e.Name), why)
		} else if pylib.Filter(e.Name) == nil && !x.soft {
			c.fail(e.Offset, "No filter named %s.", chars.Quote(e.Name))
		}
	case *syntax.Test:
		if pylib.Test(e.Name) == nil && !x.soft {
			c.fail(e.Offset, "No test named %s.", chars.Quote(e.Name))
		}
	}
}

// negated is -(left), where the Python code of (-left) ** right has it: -left ** right,
// where the power binds first.
func negated(e *syntax.Binary) *syntax.Unary {
	neg, ok := e.Left.(*syntax.Unary)
	if ok && e.Op == syntax.Pow && neg.Op == syntax.Sub && isConst(neg) && !isConst(e.Right) {
		return neg
	}
	return nil
}

// start compiles an expression that begins a chain.
func (c *compiler) start(e syntax.Expr, x scope) expr {
	switch e := e.(type) {
	case *syntax.Const:
		return constant{constantOf(e.Value)}
	case *syntax.Name:
		return c.variable(e, x)
	case *syntax.NamespaceAttr:
		r, _ := x.sym.find(e.Name)
		return &nsRef{at: at(e.Line), name: e.Name, attr: e.Attr, ref: r.from(x.sym.fn)}
	case *syntax.Tuple:
		return &tupleExpr{at: at(e.Line), items: c.exprs(x, e.Items)}
	case *syntax.List:
		return &listExpr{items: c.exprs(x, e.Items)}
	case *syntax.Dict:
		d := &dictExpr{}
		for i := range e.Keys {
			d.keys = append(d.keys, c.expr(e.Keys[i], x))
			d.vals = append(d.vals, c.expr(e.Values[i], x))
		}
		return d
	case *syntax.Not:
		return &notExpr{c.expr(e.X, x)}
	case *syntax.Unary:
		return &unaryExpr{at: at(e.Line), op: arithmetic[e.Op], x: c.expr(e.X, x)}
	case *syntax.Concat:
		return &concatExpr{at: at(e.Line), parts: c.exprs(x, e.Parts)}
	}
	c.check(e, x)
	return c.extend(&link{node: e, ctx: x}, nil) // a slice, or a filter of a block's text
}

// extend compiles an expression around in, the operand that its chain came with.
func (c *compiler) extend(l *link, in expr) expr {
	x := l.ctx
	switch e := l.node.(type) {
	case *syntax.Attr:
		return &attrExpr{
			at: at(e.Line), x: in, attr: e.Attr, name: value.Text(e.Attr),
			key: !pylib.IsDictAttr(e.Attr) && e.Attr[0] != '_',
		}
	case *syntax.Item:
		return &itemExpr{at: at(e.Line), x: in, arg: c.expr(e.Arg, x)}
	case *syntax.Slice:
		return &sliceExpr{
			at: at(e.Line), x: in,
			start: c.expr(e.Start, x), stop: c.expr(e.Stop, x), step: c.expr(e.Step, x),
		}
	case *syntax.Call:
		return &callExpr{at: at(e.Line), fn: in, args: c.args(&e.Args, x)}
	case *syntax.Filter:
		return &filterExpr{at: at(e.Line), name: e.Name, f: pylib.Filter(e.Name), x: in, args: c.args(&e.Args, x)}
	case *syntax.Test:
		return &testExpr{at: at(e.Line), name: e.Name, f: pylib.Test(e.Name), x: in, args: c.args(&e.Args, x)}
	case *syntax.Cond:
		return &condExpr{at: at(e.Line), test: l.test, yes: in, no: c.expr(e.No, x)}
	case *syntax.Logic:
		return &logicExpr{or: e.Or, left: in, right: c.expr(e.Right, x)}
	case *syntax.Binary:
		return &binaryExpr{
			at: at(e.Line), op: arithmetic[e.Op], left: in, right: c.expr(e.Right, x), negated: negated(e) != nil,
		}
	case *syntax.Compare:
		out := &compareExpr{at: at(e.Line), first: in}
		for _, o := range e.Rest {
			out.ops = append(out.ops, operand{comparisons[o.Op], c.expr(o.X, x)})
		}
		return out
	}
	panic(fmt.Sprintf("BUG: an expression of type %T", l.node))
}

// constantOf is the value of a constant.
func constantOf(v any) value.Value {
	switch v := v.(type) {
	case string:
		return value.Text(v)
	case *big.Int:
		return value.NewInt(v)
	case float64:
		return value.Float(v)
	case bool:
		return value.Bool(v)
	}
	return value.None
}

func (c *compiler) variable(e *syntax.Name, x scope) *nameExpr {
	r, _ := x.sym.find(e.Name)
	return &nameExpr{at: at(e.Line), name: e.Name, ref: r.from(x.sym.fn), top: x.top && e.Use == syntax.Store}
}

func (c *compiler) args(a *syntax.Args, x scope) callArgs {
	out := callArgs{pos: c.exprs(x, a.Pos)}
	for _, k := range a.Keywords {
		out.kw = append(out.kw, keyword{k.Name, c.expr(k.Value, x)})
	}
	out.star, out.doubleStar = c.expr(a.Star, x), c.expr(a.StarStar, x)
	return out
}

// isConst reports whether jinja2 can work an expression out when it compiles.
func isConst(e syntax.Expr) bool {
	switch e.(type) {
	case *syntax.Name, *syntax.NamespaceAttr, *syntax.Call, *syntax.Filter, *syntax.Test:
		return false
	}
	for _, part := range syntax.Children(e) {
		if !isConst(part) {
			return false
		}
	}
	return true
}
