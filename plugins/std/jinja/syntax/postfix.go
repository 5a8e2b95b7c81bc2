package syntax

import (
	"math/big"
	"strconv"
)

func (p *parser) postfix(x Expr) Expr {
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

func (p *parser) filterExpr(x Expr) Expr {
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

func (p *parser) subscript(x Expr) Expr {
	t := p.next()
	if t.kind == tDot {
		name := p.next()
		switch name.kind {
		case tName:
			return &Attr{Line: p.line(t), X: x, Attr: name.text}
		case tInteger:
			n, _ := strconv.ParseInt(name.text, 0, 64)
			return &Item{Line: p.line(t), X: x, Arg: &Const{big.NewInt(n)}}
		}
		p.fail(name.pos, "expected name or number")
		return nil
	}
	var args []Expr
	for p.ok() && !p.is(tRBracket) {
		if len(args) > 0 {
			p.expect(tComma)
		}
		args = append(args, p.subscribed())
	}
	p.expect(tRBracket)
	if len(args) == 1 {
		if s, ok := args[0].(*Slice); ok && s.X == nil {
			s.X = x
			return s
		}
		return &Item{Line: p.line(t), X: x, Arg: args[0]}
	}
	return &Item{Line: p.line(t), X: x, Arg: &Tuple{Line: p.line(t), Items: args}}
}

func (p *parser) subscribed() Expr {
	s := &Slice{Line: p.line(p.cur)}
	if !p.skip(tColon) {
		x := p.expression(true)
		if !p.skip(tColon) {
			return x
		}
		s.Start = x
	}
	if !p.is(tColon) && !p.is(tRBracket) && !p.is(tComma) {
		s.Stop = p.expression(true)
	}
	if p.skip(tColon) && !p.is(tRBracket) && !p.is(tComma) {
		s.Step = p.expression(true)
	}
	return s
}

func (p *parser) callArgs() Args {
	open := p.expect(tLParen)
	var a Args
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
			ensure(a.Star == nil && a.StarStar == nil)
			a.Star = p.expression(true)
		case p.skip(tPow):
			ensure(a.StarStar == nil)
			a.StarStar = p.expression(true)
		case p.is(tName) && p.look().kind == tAssign:
			ensure(a.StarStar == nil)
			name := p.next()
			for _, k := range a.Keywords {
				if k.Name == name.text {
					p.fail(name.pos, "keyword argument repeated: %s", name.text)
				}
			}
			p.next()
			a.Keywords = append(a.Keywords, Keyword{name.text, p.expression(true)})
		default:
			ensure(a.Star == nil && a.StarStar == nil && a.Keywords == nil)
			a.Pos = append(a.Pos, p.expression(true))
		}
	}
	p.expect(tRParen)
	return a
}

func (p *parser) call(fn Expr) Expr {
	line := p.line(p.cur)
	return &Call{Line: line, Fn: fn, Args: p.callArgs()}
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
func (p *parser) filters(x Expr, inline bool) Expr {
	for p.ok() && (inline || p.is(tPipe)) {
		if !inline {
			p.next()
		}
		inline = false
		p.link()
		name, t := p.dotted()
		f := &Filter{Line: p.line(t), Offset: t.pos, X: x, Name: name}
		if p.is(tLParen) {
			f.Args = p.callArgs()
		}
		x = f
	}
	return x
}

func (p *parser) test(x Expr) Expr {
	line := p.line(p.next())
	negated := p.skipName("not")
	name, word := p.dotted()
	t := &Test{Line: line, Offset: word.pos, X: x, Name: name}
	switch p.cur.kind {
	case tLParen:
		t.Args = p.callArgs()
	case tName, tString, tInteger, tFloat, tLBracket, tLBrace:
		if p.isName("else") || p.isName("or") || p.isName("and") {
			break
		}
		if p.isName("is") {
			p.fail(p.cur.pos, "You cannot chain multiple tests with is")
			break
		}
		t.Args.Pos = []Expr{p.postfix(p.primary(false))}
	}
	if negated {
		return &Not{t}
	}
	return t
}
