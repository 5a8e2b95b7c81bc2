package jinja

import "strings"

func (p *parser) parseSet() stmt {
	line := p.at(p.next())
	target := p.assignTarget(targetOpts{namespace: true})
	if p.skip(tAssign) {
		return &assignStmt{at: line, target: target, val: p.tuple(tupleOpts{cond: true})}
	}
	s := &assignBlock{at: line, target: target}
	s.filter = p.filters(nil, false)
	s.body = p.statements(true, "endset")
	return s
}

func (p *parser) parseFor() stmt {
	s := &forStmt{at: p.at(p.next())}
	s.target = p.assignTarget(targetOpts{end: "in"})
	p.expectName("in")
	s.iter = p.tuple(tupleOpts{end: "recursive"})
	if p.skipName("if") {
		s.test = p.expression(true)
		s.testTarget = copyTarget(s.target)
	}
	s.recursive = p.skipName("recursive")
	s.body = p.statements(false, "endfor", "else")
	if p.next().text == "else" {
		s.els = p.statements(true, "endfor")
	}
	return s
}

// copyTarget repeats an assignment's target, to be resolved in another scope.
func copyTarget(x expr) expr {
	switch x := x.(type) {
	case *nameExpr:
		c := *x
		return &c
	case *tupleExpr:
		c := &tupleExpr{at: x.at}
		for _, item := range x.items {
			c.items = append(c.items, copyTarget(item))
		}
		return c
	}
	return x
}

func (p *parser) parseIf() stmt {
	first := &ifStmt{at: p.at(p.next())}
	node := first
	for p.ok() {
		node.test = p.tuple(tupleOpts{})
		node.body = p.statements(false, "elif", "else", "endif")
		switch p.next().text {
		case "elif":
			node = &ifStmt{at: p.at(p.cur)}
			first.elifs = append(first.elifs, node)
			continue
		case "else":
			first.els = p.statements(true, "endif")
		}
		break
	}
	return first
}

// signature reads the parameters of a macro or call block.
func (p *parser) signature(m *macroDef) {
	p.expect(tLParen)
	for p.ok() && !p.is(tRParen) {
		if len(m.args) > 0 {
			p.expect(tComma)
		}
		arg := p.nameTarget(ctxParam)
		if p.skip(tAssign) {
			m.defaults = append(m.defaults, p.expression(true))
		} else if len(m.defaults) > 0 {
			p.fail(p.cur.pos, "non-default argument follows default argument")
		}
		m.args = append(m.args, arg)
	}
	p.expect(tRParen)
}

func (p *parser) parseMacro() stmt {
	s := &macroStmt{at: p.at(p.next())}
	s.target = p.nameTarget(ctxStore)
	s.name = s.target.name
	p.signature(&s.macroDef)
	s.body = p.statements(true, "endmacro")
	return s
}

func (p *parser) parseCallBlock() stmt {
	start := p.next()
	s := &callBlock{at: p.at(start)}
	if p.is(tLParen) {
		p.signature(&s.macroDef)
	}
	call, ok := p.expression(true).(*callExpr)
	if !ok {
		p.fail(start.pos, "expected call")
		return nil
	}
	s.call = call
	s.body = p.statements(true, "endcall")
	return s
}

func (p *parser) parseGeneration() stmt {
	s := &callBlock{at: p.at(p.next())}
	s.body = p.statements(true, "endgeneration")
	return s
}

func (p *parser) parseFilterBlock() stmt {
	s := &filterBlock{at: p.at(p.next())}
	s.filter = p.filters(nil, true)
	s.body = p.statements(true, "endfilter")
	return s
}

func (p *parser) parseWith() stmt {
	s := &withStmt{at: p.at(p.next())}
	for p.ok() && !p.is(tBlockEnd) {
		if len(s.targets) > 0 {
			p.expect(tComma)
		}
		target := p.assignTarget(targetOpts{})
		setCtx(target, ctxParam)
		p.expect(tAssign)
		s.targets = append(s.targets, target)
		s.vals = append(s.vals, p.expression(true))
	}
	s.body = p.statements(true, "endwith")
	return s
}

func (p *parser) parseAutoescape() stmt {
	s := &scopeStmt{at: p.at(p.next())}
	s.option = p.expression(true)
	s.body = p.statements(true, "endautoescape")
	return s
}

func (p *parser) parseBlock() stmt {
	s := &blockStmt{at: p.at(p.next())}
	s.name = p.expect(tName).text
	s.scoped = p.skipName("scoped")
	required := p.skipName("required")
	if p.is(tSub) {
		p.fail(p.cur.pos, "Block names in Jinja have to be valid Python identifiers and may not contain hyphens, use an underscore instead.")
	}
	s.body = p.statements(true, "endblock")
	if required && !blank(s.body) {
		p.fail(p.cur.pos, "Required blocks can only contain comments or whitespace")
	}
	p.skipName(s.name)
	return s
}

// blank reports whether a body prints white space at most.
func blank(body []stmt) bool {
	for _, s := range body {
		out, ok := s.(*outputStmt)
		if !ok {
			return false
		}
		for _, x := range out.parts {
			c, ok := x.(constant)
			if !ok || strings.TrimLeftFunc(c.v.(*Str).s, isSpace) != "" {
				return false
			}
		}
	}
	return true
}

func (p *parser) parsePrint() stmt {
	s := &outputStmt{at: p.at(p.next())}
	for p.ok() && !p.is(tBlockEnd) {
		if len(s.parts) > 0 {
			p.expect(tComma)
		}
		s.parts = append(s.parts, p.expression(true))
	}
	return s
}

func (p *parser) parseJump() stmt {
	t := p.next()
	return &loopJump{at: p.at(t), pos: t.pos, leave: t.text == "break"}
}

func (p *parser) parseExtends() stmt {
	s := &loadStmt{at: p.at(p.next())}
	s.source = p.expression(true)
	return s
}

func (p *parser) importContext() {
	if (p.isName("with") || p.isName("without")) && p.look().kind == tName && p.look().text == "context" {
		p.next()
		p.next()
	}
}

func (p *parser) parseInclude() stmt {
	s := &loadStmt{at: p.at(p.next())}
	s.source = p.expression(true)
	if p.isName("ignore") && p.look().kind == tName && p.look().text == "missing" {
		p.next()
		p.next()
	}
	p.importContext()
	return s
}

func (p *parser) parseImport() stmt {
	s := &loadStmt{at: p.at(p.next())}
	s.source = p.expression(true)
	p.expectName("as")
	s.targets = append(s.targets, p.nameTarget(ctxStore))
	p.importContext()
	return s
}

func (p *parser) parseFrom() stmt {
	s := &loadStmt{at: p.at(p.next())}
	s.source = p.expression(true)
	p.expectName("import")
	for p.ok() {
		if len(s.targets) > 0 {
			p.expect(tComma)
		}
		if !p.is(tName) {
			p.expect(tName)
		}
		before := p.i
		if p.importContext(); p.i != before {
			break
		}
		target := p.nameTarget(ctxStore)
		if strings.HasPrefix(target.name, "_") {
			p.fail(p.cur.pos, "names starting with an underline can not be imported")
		}
		if p.skipName("as") {
			target = p.nameTarget(ctxStore)
		}
		s.targets = append(s.targets, target)
		before = p.i
		if p.importContext(); p.i != before || !p.is(tComma) {
			break
		}
	}
	return s
}

// targetOpts says what an assignment may be made to.
type targetOpts struct {
	end       string // name that ends the target
	namespace bool   // ns.attr is allowed
}

func (p *parser) nameTarget(ctx nameCtx) *nameExpr {
	t := p.expect(tName)
	p.assignable(t)
	return &nameExpr{at: p.at(t), pos: t.pos, name: t.text, ctx: ctx}
}

// assignable refuses the constants' names.
func (p *parser) assignable(t token) {
	switch t.text {
	case "true", "false", "none", "True", "False", "None":
		p.fail(t.pos, "can't assign to 'name'")
	}
}

func (p *parser) assignTarget(o targetOpts) expr {
	start := p.cur
	target := p.tuple(tupleOpts{simple: true, end: o.end, namespace: o.namespace})
	if bad := setCtx(target, ctxStore); bad != "" {
		p.fail(start.pos, "can't assign to '%s'", bad)
	}
	return target
}

// setCtx makes a parsed expression a target; it names the kind of node that cannot be one.
func setCtx(x expr, ctx nameCtx) string {
	switch x := x.(type) {
	case *nameExpr:
		x.ctx = ctx
	case *nsRef, nil:
	case *tupleExpr:
		for _, item := range x.items {
			if bad := setCtx(item, ctx); bad != "" {
				return "tuple"
			}
		}
	case *listExpr:
		return "list"
	case *dictExpr:
		return "dict"
	case *constant, constant:
		return "const"
	default:
		return "expr"
	}
	return ""
}
