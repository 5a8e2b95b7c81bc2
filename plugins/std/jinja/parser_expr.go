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

func (p *parser) postfix(x expr) expr {
	for p.ok() {
		switch p.cur.kind {
		case tDot, tLBracket:
			p.link()
			x = p.subscript(x)
		case tLParen:
			p.link()
			x = p.call(x)
		default:
			return x
		}
	}
	return x
}

func (p *parser) filterExpr(x expr) expr {
	for p.ok() {
		switch {
		case p.is(tPipe):
			x = p.filters(x, false)
		case p.isName("is"):
			p.link()
			x = p.test(x)
		case p.is(tLParen):
			p.link()
			x = p.call(x)
		default:
			return x
		}
	}
	return x
}

func (p *parser) subscript(x expr) expr {
	t := p.next()
	if t.kind == tDot {
		name := p.next()
		switch name.kind {
		case tName:
			return &attrExpr{at: p.at(t), x: x, attr: name.text, name: text(name.text),
				key: !dictAttrs[name.text] && name.text[0] != '_'}
		case tInteger:
			n, _ := strconv.ParseInt(name.text, 0, 64)
			return &itemExpr{at: p.at(t), x: x, arg: constant{Int(n)}}
		}
		p.fail(name.pos, "expected name or number")
		return nil
	}
	var args []expr
	for p.ok() && !p.is(tRBracket) {
		if len(args) > 0 {
			p.expect(tComma)
		}
		args = append(args, p.subscribed())
	}
	p.expect(tRBracket)
	if len(args) == 1 {
		if s, ok := args[0].(*sliceExpr); ok && s.x == nil {
			s.x = x
			return s
		}
		return &itemExpr{at: p.at(t), x: x, arg: args[0]}
	}
	return &itemExpr{at: p.at(t), x: x, arg: &tupleExpr{at: p.at(t), items: args}}
}

func (p *parser) subscribed() expr {
	s := &sliceExpr{at: p.at(p.cur)}
	if !p.skip(tColon) {
		x := p.expression(true)
		if !p.skip(tColon) {
			return x
		}
		s.start = x
	}
	if !p.is(tColon) && !p.is(tRBracket) && !p.is(tComma) {
		s.stop = p.expression(true)
	}
	if p.skip(tColon) && !p.is(tRBracket) && !p.is(tComma) {
		s.step = p.expression(true)
	}
	return s
}

func (p *parser) callArgs() argList {
	open := p.expect(tLParen)
	var a argList
	ensure := func(ok bool) {
		if !ok {
			p.fail(open.pos, "invalid syntax for function call expression")
		}
	}
	for first := true; p.ok() && !p.is(tRParen); first = false {
		if !first {
			p.expect(tComma)
			if p.is(tRParen) {
				break
			}
		}
		switch {
		case p.skip(tMul):
			ensure(a.star == nil && a.star2 == nil)
			a.star = p.expression(true)
		case p.skip(tPow):
			ensure(a.star2 == nil)
			a.star2 = p.expression(true)
		case p.is(tName) && p.look().kind == tAssign:
			ensure(a.star2 == nil)
			name := p.next()
			for _, k := range a.kw {
				if k.name == name.text {
					p.fail(name.pos, "keyword argument repeated: %s", name.text)
				}
			}
			p.next()
			a.kw = append(a.kw, keyword{name.text, p.expression(true)})
		default:
			ensure(a.star == nil && a.star2 == nil && a.kw == nil)
			a.pos = append(a.pos, p.expression(true))
		}
	}
	p.expect(tRParen)
	return a
}

func (p *parser) call(fn expr) expr {
	line := p.at(p.cur)
	return &callExpr{at: line, fn: fn, args: p.callArgs()}
}

// dotted reads the name of a filter or test.
func (p *parser) dotted() (string, token) {
	t := p.expect(tName)
	name := t.text
	for p.ok() && p.skip(tDot) {
		name += "." + p.expect(tName).text
	}
	return name, t
}

// filters reads a chain of filters; inline is set where the first has no bar.
func (p *parser) filters(x expr, inline bool) expr {
	for p.ok() && (inline || p.is(tPipe)) {
		if !inline {
			p.next()
		}
		inline = false
		p.link()
		name, t := p.dotted()
		f := &filterExpr{at: p.at(t), pos: t.pos, x: x, name: name, f: filters[name]}
		if p.is(tLParen) {
			f.args = p.callArgs()
		}
		x = f
	}
	return x
}

func (p *parser) test(x expr) expr {
	line := p.at(p.next())
	negated := p.skipName("not")
	name, word := p.dotted()
	t := &testExpr{at: line, pos: word.pos, x: x, name: name, f: tests[name]}
	switch p.cur.kind {
	case tLParen:
		t.args = p.callArgs()
	case tName, tString, tInteger, tFloat, tLBracket, tLBrace:
		if p.isName("else") || p.isName("or") || p.isName("and") {
			break
		}
		if p.isName("is") {
			p.fail(p.cur.pos, "You cannot chain multiple tests with is")
			break
		}
		t.args.pos = []expr{p.postfix(p.primary(false))}
	}
	if negated {
		return &notExpr{t}
	}
	return t
}
