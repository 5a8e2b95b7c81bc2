package interp

import (
	"fmt"
	"slices"

	"tgi/plugins/std/jinja/chars"
	"tgi/plugins/std/jinja/syntax"
)

// compiler ties every name of a parsed template to a slot, as jinja2's
// CodeGenerator does, and finds the errors that jinja2 finds then.
type compiler struct {
	name, src string
	err       error
	blocks    map[string]*blockStmt
	loops     int    // loops around the statement within its function
	chain     []link // of the expressions that are being compiled
}

// scope is jinja2's Frame: the scope that a statement runs in.
type scope struct {
	sym  *symbols
	top  bool // the template's own level: sets are visible to macros and blocks
	soft bool // inside an if: unknown filters fail only when they are used
}

func (c scope) nested(f *function) scope { return scope{sym: newSymbols(c.sym, f)} }

func (c scope) softer() scope {
	c.soft = true
	return c
}

func (c *compiler) fail(pos int, format string, args ...any) {
	if c.err == nil {
		c.err = syntax.Errorf(c.name, c.src, pos, format, args...)
	}
}

// template compiles a whole template.
func (c *compiler) template(body []syntax.Stmt) *Program {
	top := scope{sym: newSymbols(nil, newFunction(nil)), top: true}
	c.findBlocks(body)
	top.sym.analyze(body)
	out := c.stmts(body, top)
	c.refuseLipsum(body)
	return &Program{body: out, frame: top.sym.frame(), blocks: c.blocks}
}

// unsupportedFilters are filters that jinja2 has and why they are left out.
var unsupportedFilters = map[string]string{
	"random": "a rendering depends on nothing but its input",
	"urlize": "prompts have no links",
}

// refuseLipsum refuses calls of jinja2's global lipsum, which makes texts up.
func (c *compiler) refuseLipsum(body []syntax.Stmt) {
	own := !syntax.Undeclared(body, "lipsum")["lipsum"]
	syntax.Walk(body, func(n syntax.Stmt) {
		m, ok := n.(*syntax.Macro)
		own = own || ok && m.Name == "lipsum"
	}, func(syntax.Expr) {})
	syntax.Walk(body, func(syntax.Stmt) {}, func(x syntax.Expr) {
		call, ok := x.(*syntax.Call)
		if !ok || own {
			return
		}
		if fn, ok := call.Fn.(*syntax.Name); ok && fn.Name == "lipsum" {
			c.fail(fn.Offset, "The function 'lipsum' is not supported: a rendering depends on nothing but its input.")
		}
	})
}

// findBlocks refuses two blocks of one name: all of them share one table.
func (c *compiler) findBlocks(body []syntax.Stmt) {
	seen := map[string]bool{}
	eachStmt(body, func(s syntax.Stmt) {
		b, ok := s.(*syntax.Block)
		if !ok {
			return
		}
		if seen[b.Name] {
			c.fail(0, "block %s defined twice", chars.Quote(b.Name))
		}
		seen[b.Name] = true
	})
}

func (c *compiler) stmts(body []syntax.Stmt, x scope) []stmt {
	out := make([]stmt, 0, len(body))
	for _, n := range body {
		out = append(out, c.stmt(n, x))
	}
	return out
}

func (c *compiler) stmt(n syntax.Stmt, x scope) stmt {
	switch n := n.(type) {
	case *syntax.Output:
		return &outputStmt{at: at(n.Line), parts: c.exprs(x, n.Parts)}
	case *syntax.If:
		return c.ifs(n, x.softer())
	case *syntax.For:
		return c.loop(n, x)
	case *syntax.Set:
		val := c.expr(n.Value, x)
		return &assignStmt{at: at(n.Line), val: val, target: c.expr(n.Target, x)}
	case *syntax.Macro:
		s := &macroStmt{at: at(n.Line), macroDef: c.macro(&n.Signature, x)}
		s.target = c.variable(n.Target, x)
		return s
	case *syntax.CallBlock:
		s := &callBlock{at: at(n.Line)}
		if n.Call != nil {
			s.call = c.expr(n.Call, x).(*callExpr)
		}
		s.macroDef = c.macro(&n.Signature, x)
		return s
	case *syntax.Block:
		return c.block(n, x)
	case *syntax.LoadTemplate:
		return &loadStmt{at: at(n.Line), source: c.expr(n.Source, x)}
	case *syntax.Jump:
		if c.loops == 0 {
			word := "continue"
			if n.Break {
				word = "break"
			}
			c.fail(n.Offset, "'%s' outside loop", word)
		}
		return &loopJump{at: at(n.Line), leave: n.Break}
	}
	return c.scope(n, x, x.nested(x.sym.fn))
}

// scope compiles a statement whose body is a scope of its own, which is in.
func (c *compiler) scope(n syntax.Stmt, x, in scope) stmt {
	switch n := n.(type) {
	case *syntax.SetBlock:
		s := &assignBlock{at: at(n.Line)}
		in.sym.analyze(n.Body)
		s.body = c.stmts(n.Body, in)
		s.target = c.expr(n.Target, x)
		s.filter = c.expr(n.Filter, in)
		s.frame = in.sym.frame()
		return s
	case *syntax.FilterBlock:
		s := &filterBlock{at: at(n.Line)}
		in.sym.analyze(n.Body)
		in.sym.exprs(n.Filter)
		s.body = c.stmts(n.Body, in)
		s.filter = c.expr(n.Filter, in)
		s.frame = in.sym.frame()
		return s
	case *syntax.With:
		s := &withStmt{at: at(n.Line)}
		in.sym.exprs(n.Targets...)
		in.sym.analyze(n.Body)
		s.vals = c.exprs(x, n.Values)
		s.targets = c.exprs(in, n.Targets)
		s.body = c.stmts(n.Body, in)
		s.frame = in.sym.frame()
		return s
	case *syntax.Autoescape:
		s := &scopeStmt{at: at(n.Line)}
		in.sym.exprs(n.Option)
		in.sym.analyze(n.Body)
		s.option = c.expr(n.Option, in)
		s.body = c.stmts(n.Body, in)
		s.frame = in.sym.frame()
		return s
	}
	panic(fmt.Sprintf("BUG: a statement of type %T", n))
}

func (c *compiler) ifs(n *syntax.If, x scope) *ifStmt {
	s := &ifStmt{at: at(n.Line), test: c.expr(n.Test, x)}
	s.body = c.stmts(n.Body, x)
	for _, e := range n.Elifs {
		s.elifs = append(s.elifs, c.ifs(e, x))
	}
	s.els = c.stmts(n.Else, x)
	return s
}

// function compiles a body that is a function of its own, where break cannot
// reach the loops outside.
func (c *compiler) function(f func()) {
	loops := c.loops
	c.loops = 0
	f()
	c.loops = loops
}

func (c *compiler) block(n *syntax.Block, x scope) *blockStmt {
	s := &blockStmt{at: at(n.Line), name: n.Name, scoped: n.Scoped}
	c.blocks[n.Name] = s
	in := scope{sym: newSymbols(nil, newFunction(nil))}
	in.sym.analyze(n.Body)
	c.function(func() { s.body = c.stmts(n.Body, in) })
	s.frame = in.sym.frame()
	if !n.Scoped {
		return s
	}
	s.visible = map[string]slotRef{}
	for sym := x.sym; sym != nil; sym = sym.parent {
		for name := range sym.stores {
			if _, ok := s.visible[name]; !ok {
				r, _ := x.sym.find(name)
				s.visible[name] = r.from(x.sym.fn)
			}
		}
	}
	return s
}

func (c *compiler) loop(n *syntax.For, x scope) *forStmt {
	s := &forStmt{at: at(n.Line), recursive: n.Recursive}
	bodyFn := x.sym.fn
	if n.Recursive {
		bodyFn = newFunction(x.sym.fn)
		s.bodyFn = bodyFn
	}
	in, els := x.nested(bodyFn), x.nested(bodyFn)
	s.extended = n.Recursive || syntax.Undeclared(n.Body, "loop")["loop"] || hasScopedBlock(n.Body)
	if s.extended {
		s.loopRef = in.sym.param("loop").from(bodyFn)
	}
	in.sym.params(n.Target)
	in.sym.analyze(n.Body)
	els.sym.analyze(n.Else)
	if n.Test != nil {
		test := x.nested(newFunction(x.sym.fn))
		test.sym.params(n.Target)
		test.sym.exprs(n.Test)
		s.test = c.expr(n.Test, test)
		s.testTarget = c.expr(n.Target, test)
		s.testFrame = test.sym.frame()
	}
	c.noLoopTarget(n)
	s.iter = c.expr(n.Iter, x)
	s.target = c.expr(n.Target, in)
	body := func() {
		c.loops++
		s.body = c.stmts(n.Body, in)
		c.loops--
		s.els = c.stmts(n.Else, els)
	}
	if n.Recursive {
		c.function(body)
	} else {
		body()
	}
	s.bodyFrame, s.elseFrame = in.sym.frame(), els.sym.frame()
	return s
}

// noLoopTarget refuses to assign to loop anywhere within a loop.
func (c *compiler) noLoopTarget(n *syntax.For) {
	check := func(s syntax.Stmt) {
		syntax.WalkExpr(target(s), func(x syntax.Expr) {
			if t, ok := x.(*syntax.Name); ok && t.Use == syntax.Store && t.Name == "loop" {
				c.fail(t.Offset, "Can't assign to special loop variable in for-loop target")
			}
		})
	}
	check(n)
	eachStmt(n.Body, check)
	eachStmt(n.Else, check)
}

// target is what a statement assigns to, or nil.
func target(s syntax.Stmt) syntax.Expr {
	switch s := s.(type) {
	case *syntax.Set:
		return s.Target
	case *syntax.SetBlock:
		return s.Target
	case *syntax.For:
		return s.Target
	}
	return nil
}

func eachStmt(body []syntax.Stmt, f func(syntax.Stmt)) {
	for _, s := range body {
		f(s)
		for _, inner := range syntax.Bodies(s) {
			eachStmt(inner, f)
		}
	}
}

func hasScopedBlock(body []syntax.Stmt) bool {
	found := false
	eachStmt(body, func(s syntax.Stmt) {
		if b, ok := s.(*syntax.Block); ok && b.Scoped {
			found = true
		}
	})
	return found
}

// macro compiles a macro or call block.
func (c *compiler) macro(m *syntax.Signature, x scope) macroDef {
	d := macroDef{name: m.Name}
	f := newFunction(x.sym.fn)
	in := x.nested(f)
	enter := func() {
		for _, a := range m.Params {
			in.sym.param(a.Name)
		}
		in.sym.exprs(m.Defaults...)
		in.sym.analyze(m.Body)
	}
	enter()
	c.specials(m, &d, in)
	enter()
	for _, a := range m.Params {
		r, _ := in.sym.find(a.Name)
		d.args = append(d.args, param{a.Name, r.from(f)})
	}
	d.defaults = c.exprs(in, m.Defaults)
	c.function(func() { d.body = c.stmts(m.Body, in) })
	d.frame = in.sym.frame()
	return d
}

// specials makes parameters of the names caller, kwargs and varargs where the body
// reads them.
func (c *compiler) specials(m *syntax.Signature, d *macroDef, in scope) {
	free := syntax.Undeclared(m.Body, "caller", "kwargs", "varargs")
	for i, name := range []string{"caller", "kwargs", "varargs"} {
		if !free[name] {
			continue
		}
		explicit := slices.IndexFunc(m.Params, func(a *syntax.Name) bool { return a.Name == name })
		if explicit < 0 {
			d.usesSpecial[i] = true
			d.special[i] = in.sym.param(name).from(in.sym.fn)
		} else if i == 0 {
			d.usesSpecial[i] = true
			if explicit < len(m.Params)-len(m.Defaults) {
				c.fail(0, `When defining macros or call blocks the special "caller" argument must be omitted `+
					`or be given a default.`)
			}
		}
	}
}
