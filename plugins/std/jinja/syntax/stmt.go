package syntax

import (
	"strings"

	"tgi/plugins/std/jinja/chars"
)

func (p *parser) parseSet() Stmt {
	line := p.line(p.next())
	target := p.assignTarget(targetOpts{namespace: true})
	if p.skip(tAssign) {
		return &Set{Line: line, Target: target, Value: p.tuple(tupleOpts{cond: true})}
	}
	s := &SetBlock{Line: line, Target: target}
	s.Filter = p.filters(nil, false)
	s.Body = p.statements(true, "endset")
	return s
}

func (p *parser) parseFor() Stmt {
	s := &For{Line: p.line(p.next())}
	s.Target = p.assignTarget(targetOpts{end: "in"})
	p.expectName("in")
	s.Iter = p.tuple(tupleOpts{end: "recursive"})
	if p.skipName("if") {
		s.Test = p.expression(true)
	}
	s.Recursive = p.skipName("recursive")
	s.Body = p.statements(false, "endfor", "else")
	if p.next().text == "else" {
		s.Else = p.statements(true, "endfor")
	}
	return s
}

func (p *parser) parseIf() Stmt {
	first := &If{Line: p.line(p.next())}
	node := first
	for p.ok() {
		node.Test = p.tuple(tupleOpts{})
		node.Body = p.statements(false, "elif", "else", "endif")
		switch p.next().text {
		case "elif":
			node = &If{Line: p.line(p.cur)}
			first.Elifs = append(first.Elifs, node)
			continue
		case "else":
			first.Else = p.statements(true, "endif")
		}
		break
	}
	return first
}

// signature reads the parameters of a macro or call block.
func (p *parser) signature(m *Signature) {
	p.expect(tLParen)
	for p.ok() && !p.is(tRParen) {
		if len(m.Params) > 0 {
			p.expect(tComma)
		}
		arg := p.nameTarget(Param)
		if p.skip(tAssign) {
			m.Defaults = append(m.Defaults, p.expression(true))
		} else if len(m.Defaults) > 0 {
			p.fail(p.cur.pos, "non-default argument follows default argument")
		}
		m.Params = append(m.Params, arg)
	}
	p.expect(tRParen)
}

func (p *parser) parseMacro() Stmt {
	s := &Macro{Line: p.line(p.next())}
	s.Target = p.nameTarget(Store)
	s.Name = s.Target.Name
	p.signature(&s.Signature)
	s.Body = p.statements(true, "endmacro")
	return s
}

func (p *parser) parseCallBlock() Stmt {
	start := p.next()
	s := &CallBlock{Line: p.line(start)}
	if p.is(tLParen) {
		p.signature(&s.Signature)
	}
	call, ok := p.expression(true).(*Call)
	if !ok {
		p.fail(start.pos, "expected call")
		return nil
	}
	s.Call = call
	s.Body = p.statements(true, "endcall")
	return s
}

func (p *parser) parseGeneration() Stmt {
	s := &CallBlock{Line: p.line(p.next())}
	s.Body = p.statements(true, "endgeneration")
	return s
}

func (p *parser) parseFilterBlock() Stmt {
	s := &FilterBlock{Line: p.line(p.next())}
	s.Filter = p.filters(nil, true)
	s.Body = p.statements(true, "endfilter")
	return s
}

func (p *parser) parseWith() Stmt {
	s := &With{Line: p.line(p.next())}
	for p.ok() && !p.is(tBlockEnd) {
		if len(s.Targets) > 0 {
			p.expect(tComma)
		}
		target := p.assignTarget(targetOpts{})
		setUse(target, Param)
		p.expect(tAssign)
		s.Targets = append(s.Targets, target)
		s.Values = append(s.Values, p.expression(true))
	}
	s.Body = p.statements(true, "endwith")
	return s
}

func (p *parser) parseAutoescape() Stmt {
	s := &Autoescape{Line: p.line(p.next())}
	s.Option = p.expression(true)
	s.Body = p.statements(true, "endautoescape")
	return s
}

func (p *parser) parseBlock() Stmt {
	s := &Block{Line: p.line(p.next())}
	s.Name = p.expect(tName).text
	s.Scoped = p.skipName("scoped")
	required := p.skipName("required")
	if p.is(tSub) {
		p.fail(p.cur.pos,
			"Block names in Jinja have to be valid Python identifiers and may not contain hyphens, "+
				"use an underscore instead.")
	}
	s.Body = p.statements(true, "endblock")
	if required && !blank(s.Body) {
		p.fail(p.cur.pos, "Required blocks can only contain comments or whitespace")
	}
	p.skipName(s.Name)
	return s
}

// blank reports whether a body prints white space at most.
func blank(body []Stmt) bool {
	for _, s := range body {
		out, ok := s.(*Output)
		if !ok {
			return false
		}
		for _, x := range out.Parts {
			c, ok := x.(*Const)
			if !ok {
				return false
			}
			text, ok := c.Value.(string)
			if !ok || strings.TrimLeftFunc(text, chars.IsSpace) != "" {
				return false
			}
		}
	}
	return true
}

func (p *parser) parsePrint() Stmt {
	s := &Output{Line: p.line(p.next())}
	for p.ok() && !p.is(tBlockEnd) {
		if len(s.Parts) > 0 {
			p.expect(tComma)
		}
		s.Parts = append(s.Parts, p.expression(true))
	}
	return s
}

func (p *parser) parseJump() Stmt {
	t := p.next()
	return &Jump{Line: p.line(t), Offset: t.pos, Break: t.text == "break"}
}

func (p *parser) parseExtends() Stmt {
	s := &LoadTemplate{Line: p.line(p.next())}
	s.Source = p.expression(true)
	return s
}

func (p *parser) importContext() {
	if (p.isName("with") || p.isName("without")) && p.look().kind == tName && p.look().text == "context" {
		p.next()
		p.next()
	}
}

func (p *parser) parseInclude() Stmt {
	s := &LoadTemplate{Line: p.line(p.next())}
	s.Source = p.expression(true)
	if p.isName("ignore") && p.look().kind == tName && p.look().text == "missing" {
		p.next()
		p.next()
	}
	p.importContext()
	return s
}

func (p *parser) parseImport() Stmt {
	s := &LoadTemplate{Line: p.line(p.next())}
	s.Source = p.expression(true)
	p.expectName("as")
	s.Targets = append(s.Targets, p.nameTarget(Store))
	p.importContext()
	return s
}

func (p *parser) parseFrom() Stmt {
	s := &LoadTemplate{Line: p.line(p.next())}
	s.Source = p.expression(true)
	p.expectName("import")
	for p.ok() {
		if len(s.Targets) > 0 {
			p.expect(tComma)
		}
		if !p.is(tName) {
			p.expect(tName)
		}
		before := p.i
		if p.importContext(); p.i != before {
			break
		}
		target := p.nameTarget(Store)
		if strings.HasPrefix(target.Name, "_") {
			p.fail(p.cur.pos, "names starting with an underline can not be imported")
		}
		if p.skipName("as") {
			target = p.nameTarget(Store)
		}
		s.Targets = append(s.Targets, target)
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

func (p *parser) nameTarget(use Use) *Name {
	t := p.expect(tName)
	p.assignable(t)
	return &Name{Line: p.line(t), Offset: t.pos, Name: t.text, Use: use}
}

// assignable refuses the constants' names.
func (p *parser) assignable(t token) {
	switch t.text {
	case "true", "false", "none", "True", "False", "None":
		p.fail(t.pos, "can't assign to 'name'")
	}
}

func (p *parser) assignTarget(o targetOpts) Expr {
	start := p.cur
	target := p.tuple(tupleOpts{simple: true, end: o.end, namespace: o.namespace})
	if bad := setUse(target, Store); bad != "" {
		p.fail(start.pos, "can't assign to '%s'", bad)
	}
	return target
}

// setUse makes a parsed expression a target; it names the kind of node that cannot be one.
func setUse(x Expr, use Use) string {
	switch x := x.(type) {
	case *Name:
		x.Use = use
	case *NamespaceAttr, nil:
	case *Tuple:
		for _, item := range x.Items {
			if bad := setUse(item, use); bad != "" {
				return "tuple"
			}
		}
	case *List:
		return "list"
	case *Dict:
		return "dict"
	case *Const:
		return "const"
	default:
		return "Expr"
	}
	return ""
}
