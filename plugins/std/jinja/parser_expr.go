package jinja

import (
	"fmt"
	"math/big"
	"strconv"
	"strings"
)

func (p *parser) expression(cond bool) expr {
	if !p.enter() {
		return nil
	}
	defer p.leave()
	if cond {
		return p.condExpr()
	}
	return p.or()
}

func (p *parser) condExpr() expr {
	start := p.cur
	x := p.or()
	for p.ok() && p.skipName("if") && p.link() {
		c := &condExpr{at: p.at(start), yes: x}
		c.test = p.or()
		if p.skipName("else") {
			if p.enter() {
				c.no = p.condExpr()
			}
			p.leave()
		}
		c.where = fmt.Sprintf("line %d", c.at)
		x = c
		start = p.cur
	}
	return x
}

func (p *parser) or() expr {
	x := p.and()
	for p.ok() && p.skipName("or") && p.link() {
		x = &logicExpr{or: true, left: x, right: p.and()}
	}
	return x
}

func (p *parser) and() expr {
	x := p.not()
	for p.ok() && p.skipName("and") && p.link() {
		x = &logicExpr{left: x, right: p.not()}
	}
	return x
}

func (p *parser) not() expr {
	if !p.isName("not") {
		return p.compare()
	}
	if !p.enter() {
		return nil
	}
	defer p.leave()
	p.next()
	return &notExpr{p.not()}
}

var compareOps = map[kind]cmpOp{tEq: cmpEq, tNe: cmpNe, tLt: cmpLt, tLtEq: cmpLe, tGt: cmpGt, tGtEq: cmpGe}

func (p *parser) compare() expr {
	start := p.cur
	x := p.sum()
	var ops []operand
	for p.ok() {
		op, ok := compareOps[p.cur.kind]
		switch {
		case ok:
			p.next()
		case p.skipName("in"):
			op = cmpIn
		case p.isName("not") && p.look().kind == tName && p.look().text == "in":
			p.next()
			p.next()
			op = cmpNotIn
		default:
			if ops == nil {
				return x
			}
			return &compareExpr{at: p.at(start), first: x, ops: ops}
		}
		ops = append(ops, operand{op, p.sum()})
	}
	return x
}

// chain reads operators of one precedence, from left to right.
func (p *parser) chain(below func() expr, ops ...kind) expr {
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
		x = &binaryExpr{at: p.at(start), op: op, left: x, right: below()}
		start = p.cur
	}
	return x
}

func (p *parser) sum() expr { return p.chain(p.concat, tAdd, tSub) }

func (p *parser) concat() expr {
	start := p.cur
	x := p.product()
	if !p.is(tTilde) {
		return x
	}
	c := &concatExpr{at: p.at(start), parts: []expr{x}}
	for p.ok() && p.skip(tTilde) {
		c.parts = append(c.parts, p.product())
	}
	return c
}

func (p *parser) product() expr { return p.chain(p.power, tMul, tDiv, tFloorDiv, tMod) }

func (p *parser) power() expr { return p.chain(func() expr { return p.unary(true) }, tPow) }

func (p *parser) unary(filters bool) expr {
	if !p.enter() {
		return nil
	}
	defer p.leave()
	start := p.cur
	var x expr
	if p.is(tSub) || p.is(tAdd) {
		p.next()
		x = &unaryExpr{at: p.at(start), op: start.kind, x: p.unary(false)}
	} else {
		x = p.primary(false)
	}
	x = p.postfix(x)
	if filters {
		x = p.filterExpr(x)
	}
	return x
}

func (p *parser) primary(namespace bool) expr {
	t := p.cur
	switch t.kind {
	case tName:
		p.next()
		switch t.text {
		case "true", "True":
			return constant{Bool(true)}
		case "false", "False":
			return constant{Bool(false)}
		case "none", "None":
			return constant{none}
		}
		if namespace && p.skip(tDot) {
			return &nsRef{at: p.at(t), name: t.text, attr: p.expect(tName).text}
		}
		return &nameExpr{at: p.at(t), pos: t.pos, name: t.text}
	case tString:
		var b strings.Builder
		for p.ok() && p.is(tString) {
			b.WriteString(p.next().text)
		}
		return constant{text(b.String())}
	case tInteger:
		p.next()
		n, ok := new(big.Int).SetString(t.text, 0)
		if !ok {
			n, _ = new(big.Int).SetString(strings.TrimLeft(t.text, "0")+"0", 10)
			n = new(big.Int).Quo(n, big.NewInt(10))
		}
		return constant{normInt(n)}
	case tFloat:
		p.next()
		f, _ := strconv.ParseFloat(t.text, 64)
		return constant{Float(f)}
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
	p.fail(t.pos, "unexpected %s", reprText(text(t.describe())))
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

func (p *parser) tuple(o tupleOpts) expr {
	if !p.enter() {
		return nil
	}
	defer p.leave()
	t := &tupleExpr{at: p.at(p.cur)}
	isTuple := false
	for p.ok() {
		if len(t.items) > 0 {
			p.expect(tComma)
		}
		if p.is(tVarEnd) || p.is(tBlockEnd) || p.is(tRParen) || o.end != "" && p.isName(o.end) {
			break
		}
		if o.simple {
			t.items = append(t.items, p.primary(o.namespace))
		} else {
			t.items = append(t.items, p.expression(o.cond))
		}
		if !p.is(tComma) {
			break
		}
		isTuple = true
	}
	if !isTuple {
		if len(t.items) > 0 {
			return t.items[0]
		}
		if !o.parens {
			p.fail(p.cur.pos, "Expected an expression, got %s", reprText(text(p.cur.describe())))
		}
	}
	return t
}

func (p *parser) list() expr {
	p.next()
	l := &listExpr{}
	for p.ok() && !p.is(tRBracket) {
		if len(l.items) > 0 {
			p.expect(tComma)
		}
		if p.is(tRBracket) {
			break
		}
		l.items = append(l.items, p.expression(true))
	}
	p.expect(tRBracket)
	return l
}

func (p *parser) dict() expr {
	p.next()
	d := &dictExpr{}
	for p.ok() && !p.is(tRBrace) {
		if len(d.keys) > 0 {
			p.expect(tComma)
		}
		if p.is(tRBrace) {
			break
		}
		d.keys = append(d.keys, p.expression(true))
		p.expect(tColon)
		d.vals = append(d.vals, p.expression(true))
	}
	p.expect(tRBrace)
	return d
}
