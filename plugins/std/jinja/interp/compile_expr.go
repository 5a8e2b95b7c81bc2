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
func (c *compiler) exprs(x ctx, es []syntax.Expr) []expr {
	out := make([]expr, 0, len(es))
	for _, e := range es {
		out = append(out, c.expr(e, x))
	}
	return out
}

// expr compiles an expression; nil stays nil. Parts are compiled in the order of
// jinja2's fields, which decides which of two errors is told.
func (c *compiler) expr(e syntax.Expr, x ctx) expr {
	switch e := e.(type) {
	case nil:
		return nil
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
	case *syntax.Attr:
		return &attrExpr{
			at: at(e.Line), x: c.expr(e.X, x), attr: e.Attr, name: value.Text(e.Attr),
			key: !pylib.IsDictAttr(e.Attr) && e.Attr[0] != '_',
		}
	case *syntax.Item:
		return &itemExpr{at: at(e.Line), x: c.expr(e.X, x), arg: c.expr(e.Arg, x)}
	case *syntax.Slice:
		return &sliceExpr{
			at: at(e.Line), x: c.expr(e.X, x),
			start: c.expr(e.Start, x), stop: c.expr(e.Stop, x), step: c.expr(e.Step, x),
		}
	case *syntax.Call:
		return c.call(e, x)
	case *syntax.Filter:
		return c.filter(e, x)
	case *syntax.Test:
		f := pylib.Test(e.Name)
		if f == nil && !x.soft {
			c.fail(e.Offset, "No test named %s.", chars.Quote(e.Name))
		}
		return &testExpr{at: at(e.Line), name: e.Name, f: f, x: c.expr(e.X, x), args: c.args(&e.Args, x)}
	}
	return c.operation(e, x)
}

// operation compiles an expression that is an operator and its operands.
func (c *compiler) operation(e syntax.Expr, x ctx) expr {
	switch e := e.(type) {
	case *syntax.Cond:
		x = x.softer()
		return &condExpr{at: at(e.Line), test: c.expr(e.Test, x), yes: c.expr(e.Yes, x), no: c.expr(e.No, x)}
	case *syntax.Logic:
		return &logicExpr{or: e.Or, left: c.expr(e.Left, x), right: c.expr(e.Right, x)}
	case *syntax.Not:
		return &notExpr{c.expr(e.X, x)}
	case *syntax.Unary:
		return &unaryExpr{at: at(e.Line), op: arithmetic[e.Op], x: c.expr(e.X, x)}
	case *syntax.Binary:
		left, negated := e.Left, false
		// The Python code of (-1) ** x is -1 ** x, where the power binds first.
		if neg, ok := left.(*syntax.Unary); ok && e.Op == syntax.Pow && neg.Op == syntax.Sub && isConst(neg) &&
			!isConst(e.Right) {
			left, negated = neg.X, true
		}
		return &binaryExpr{
			at: at(e.Line), op: arithmetic[e.Op], left: c.expr(left, x), right: c.expr(e.Right, x), negated: negated,
		}
	case *syntax.Concat:
		return &concatExpr{at: at(e.Line), parts: c.exprs(x, e.Parts)}
	case *syntax.Compare:
		out := &compareExpr{at: at(e.Line), first: c.expr(e.First, x)}
		for _, o := range e.Rest {
			out.ops = append(out.ops, operand{comparisons[o.Op], c.expr(o.X, x)})
		}
		return out
	}
	panic(fmt.Sprintf("BUG: an expression of type %T", e))
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

func (c *compiler) variable(e *syntax.Name, x ctx) *nameExpr {
	r, _ := x.sym.find(e.Name)
	return &nameExpr{at: at(e.Line), name: e.Name, ref: r.from(x.sym.fn), top: x.top && e.Use == syntax.Store}
}

func (c *compiler) call(e *syntax.Call, x ctx) *callExpr {
	return &callExpr{at: at(e.Line), fn: c.expr(e.Fn, x), args: c.args(&e.Args, x)}
}

func (c *compiler) filter(e *syntax.Filter, x ctx) *filterExpr {
	f := pylib.Filter(e.Name)
	if why := leftOut[e.Name]; why != "" {
		c.fail(e.Offset, "The filter %s is not supported: %s.", chars.Quote(e.Name), why)
	} else if f == nil && !x.soft {
		c.fail(e.Offset, "No filter named %s.", chars.Quote(e.Name))
	}
	return &filterExpr{at: at(e.Line), name: e.Name, f: f, x: c.expr(e.X, x), args: c.args(&e.Args, x)}
}

func (c *compiler) args(a *syntax.Args, x ctx) argList {
	out := argList{pos: c.exprs(x, a.Pos)}
	for _, k := range a.Keywords {
		out.kw = append(out.kw, keyword{k.Name, c.expr(k.Value, x)})
	}
	out.star, out.star2 = c.expr(a.Star, x), c.expr(a.StarStar, x)
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
