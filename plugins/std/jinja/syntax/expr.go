package syntax

import (
	"math/big"
	"strconv"
	"strings"

	"tgi/plugins/std/jinja/chars"
)

func (p *parser) expression(cond bool) Expr {
	if !p.enter() {
		return nil
	}
	defer p.leave()
	if cond {
		return p.condExpr()
	}
	return p.or()
}

func (p *parser) condExpr() Expr {
	start := p.cur
	x := p.or()
	for p.ok() && p.skipName("if") && p.link() {
		c := &Cond{Line: p.line(start), Yes: x}
		c.Test = p.or()
		if p.skipName("else") {
			if p.enter() {
				c.No = p.condExpr()
			}
			p.leave()
		}
		x = c
		start = p.cur
	}
	return x
}

func (p *parser) or() Expr {
	x := p.and()
	for p.ok() && p.skipName("or") && p.link() {
		x = &Logic{Or: true, Left: x, Right: p.and()}
	}
	return x
}

func (p *parser) and() Expr {
	x := p.not()
	for p.ok() && p.skipName("and") && p.link() {
		x = &Logic{Left: x, Right: p.not()}
	}
	return x
}

func (p *parser) not() Expr {
	if !p.isName("not") {
		return p.compare()
	}
	if !p.enter() {
		return nil
	}
	defer p.leave()
	p.next()
	return &Not{p.not()}
}

var arithmetic = map[kind]Op{
	tAdd: Add, tSub: Sub, tMul: Mul, tDiv: Div, tFloorDiv: FloorDiv, tMod: Mod, tPow: Pow,
}

var compareOps = map[kind]CompareOp{tEq: Eq, tNe: Ne, tLt: Lt, tLtEq: Le, tGt: Gt, tGtEq: Ge}

func (p *parser) compare() Expr {
	start := p.cur
	x := p.sum()
	var ops []Operand
	for p.ok() {
		op, ok := compareOps[p.cur.kind]
		switch {
		case ok:
			p.next()
		case p.skipName("in"):
			op = In
		case p.isName("not") && p.look().kind == tName && p.look().text == "in":
			p.next()
			p.next()
			op = NotIn
		default:
			if ops == nil {
				return x
			}
			return &Compare{Line: p.line(start), First: x, Rest: ops}
		}
		ops = append(ops, Operand{op, p.sum()})
	}
	return x
}

// chain reads operators of one precedence, from left to right.
func (p *parser) chain(below func() Expr, ops ...kind) Expr {
	start := p.cur
	x := below()
	for p.ok() {
		op := p.cur.kind
		found := false
		for _, o := range ops {
			found = found || o == op
		}
		if !found {
			break
		}
		p.next()
		p.link()
		x = &Binary{Line: p.line(start), Op: arithmetic[op], Left: x, Right: below()}
		start = p.cur
	}
	return x
}

func (p *parser) sum() Expr { return p.chain(p.concat, tAdd, tSub) }

func (p *parser) concat() Expr {
	start := p.cur
	x := p.product()
	if !p.is(tTilde) {
		return x
	}
	c := &Concat{Line: p.line(start), Parts: []Expr{x}}
	for p.ok() && p.skip(tTilde) {
		c.Parts = append(c.Parts, p.product())
	}
	return c
}

func (p *parser) product() Expr { return p.chain(p.power, tMul, tDiv, tFloorDiv, tMod) }

func (p *parser) power() Expr { return p.chain(func() Expr { return p.unary(true) }, tPow) }

func (p *parser) unary(filters bool) Expr {
	if !p.enter() {
		return nil
	}
	defer p.leave()
	start := p.cur
	var x Expr
	if p.is(tSub) || p.is(tAdd) {
		p.next()
		x = &Unary{Line: p.line(start), Op: arithmetic[start.kind], X: p.unary(false)}
	} else {
		x = p.primary(false)
	}
	x = p.postfix(x)
	if filters {
		x = p.filterExpr(x)
	}
	return x
}

func (p *parser) primary(namespace bool) Expr {
	t := p.cur
	switch t.kind {
	case tName:
		p.next()
		switch t.text {
		case "true", "True":
			return &Const{true}
		case "false", "False":
			return &Const{false}
		case "none", "None":
			return &Const{nil}
		}
		if namespace && p.skip(tDot) {
			return &NamespaceAttr{Line: p.line(t), Name: t.text, Attr: p.expect(tName).text}
		}
		return &Name{Line: p.line(t), Offset: t.pos, Name: t.text}
	case tString:
		var b strings.Builder
		for p.ok() && p.is(tString) {
			b.WriteString(p.next().text)
		}
		return &Const{b.String()}
	case tInteger:
		p.next()
		n, ok := new(big.Int).SetString(t.text, 0)
		if !ok {
			n, _ = new(big.Int).SetString(strings.TrimLeft(t.text, "0")+"0", 10)
			n = new(big.Int).Quo(n, big.NewInt(10))
		}
		return &Const{n}
	case tFloat:
		p.next()
		f, _ := strconv.ParseFloat(t.text, 64)
		return &Const{f}
	case tLParen:
		p.next()
		x := p.tuple(tupleOpts{cond: true, parens: true})
		p.expect(tRParen)
		return x
	case tLBracket:
		return p.list()
	case tLBrace:
		return p.dict()
	}
	p.fail(t.pos, "unexpected %s", chars.Quote(t.describe()))
	return nil
}

// tupleOpts are the modes of jinja2's parse_tuple.
type tupleOpts struct {
	simple    bool   // names and literals only
	cond      bool   // a if b else c is allowed
	parens    bool   // () is an empty tuple
	namespace bool   // ns.attr is allowed (with simple)
	end       string // a name that ends the tuple
}

func (p *parser) tuple(o tupleOpts) Expr {
	if !p.enter() {
		return nil
	}
	defer p.leave()
	t := &Tuple{Line: p.line(p.cur)}
	isTuple := false
	for p.ok() {
		if len(t.Items) > 0 {
			p.expect(tComma)
		}
		if p.is(tVarEnd) || p.is(tBlockEnd) || p.is(tRParen) || o.end != "" && p.isName(o.end) {
			break
		}
		if o.simple {
			t.Items = append(t.Items, p.primary(o.namespace))
		} else {
			t.Items = append(t.Items, p.expression(o.cond))
		}
		if !p.is(tComma) {
			break
		}
		isTuple = true
	}
	if !isTuple {
		if len(t.Items) > 0 {
			return t.Items[0]
		}
		if !o.parens {
			p.fail(p.cur.pos, "Expected an expression, got %s", chars.Quote(p.cur.describe()))
		}
	}
	return t
}

func (p *parser) list() Expr {
	p.next()
	l := &List{}
	for p.ok() && !p.is(tRBracket) {
		if len(l.Items) > 0 {
			p.expect(tComma)
		}
		if p.is(tRBracket) {
			break
		}
		l.Items = append(l.Items, p.expression(true))
	}
	p.expect(tRBracket)
	return l
}

func (p *parser) dict() Expr {
	p.next()
	d := &Dict{}
	for p.ok() && !p.is(tRBrace) {
		if len(d.Keys) > 0 {
			p.expect(tComma)
		}
		if p.is(tRBrace) {
			break
		}
		d.Keys = append(d.Keys, p.expression(true))
		p.expect(tColon)
		d.Values = append(d.Values, p.expression(true))
	}
	p.expect(tRBrace)
	return d
}
