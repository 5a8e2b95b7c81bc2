package jinja

import "strconv"

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
