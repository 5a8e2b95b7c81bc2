package jinja

// compiler ties every name of a parsed template to a slot, as jinja2's
// CodeGenerator does, and finds the errors that jinja2 finds then.
type compiler struct {
	name, src string
	err       error
	blocks    map[string]*blockStmt
	loops     int // loops around the statement within its function
}

// ctx is jinja2's Frame: the scope that a statement runs in.
type ctx struct {
	sym  *symbols
	top  bool // the template's own level: sets are visible to macros and blocks
	soft bool // inside an if: unknown filters fail only when they are used
}

func (c ctx) inner(f *fn) ctx { return ctx{sym: newSymbols(c.sym, f)} }

func (c ctx) softer() ctx {
	c.soft = true
	return c
}

func (c *compiler) fail(pos int, format string, args ...any) {
	if c.err == nil {
		c.err = syntaxError(c.name, c.src, pos, format, args...)
	}
}

// template compiles a whole template and returns its outermost frame.
func (c *compiler) template(body []stmt) *frame {
	top := ctx{sym: newSymbols(nil, newFn(nil)), top: true}
	c.findBlocks(body)
	top.sym.analyze(body)
	c.stmts(body, top)
	c.refuseLipsum(body)
	return top.sym.frame()
}

// leftOut are filters that jinja2 has and why they are left out.
var leftOut = map[string]string{
	"random": "a rendering depends on nothing but its input",
	"urlize": "prompts have no links",
}

// refuseLipsum refuses calls of jinja2's global lipsum, which makes texts up.
func (c *compiler) refuseLipsum(body []stmt) {
	own := !undeclared(body, "lipsum")["lipsum"]
	walk(body, func(n stmt) {
		m, ok := n.(*macroStmt)
		own = own || ok && m.name == "lipsum"
	}, func(expr) {})
	walk(body, func(stmt) {}, func(x expr) {
		call, ok := x.(*callExpr)
		if !ok || own {
			return
		}
		if fn, ok := call.fn.(*nameExpr); ok && fn.name == "lipsum" {
			c.fail(fn.pos, "The function 'lipsum' is not supported: a rendering depends on nothing but its input.")
		}
	})
}

// findBlocks collects the blocks, which all share one table of names.
func (c *compiler) findBlocks(body []stmt) {
	for _, n := range body {
		if b, ok := n.(*blockStmt); ok {
			if c.blocks[b.name] != nil {
				c.fail(0, "block %s defined twice", reprText(text(b.name)))
			}
			c.blocks[b.name] = b
		}
		for _, inner := range bodies(n) {
			c.findBlocks(inner)
		}
	}
}

// bodies are the statement lists inside a statement.
func bodies(n stmt) [][]stmt {
	switch n := n.(type) {
	case *ifStmt:
		out := [][]stmt{n.body, n.els}
		for _, e := range n.elifs {
			out = append(out, bodies(e)...)
		}
		return out
	case *forStmt:
		return [][]stmt{n.body, n.els}
	case *assignBlock:
		return [][]stmt{n.body}
	case *macroStmt:
		return [][]stmt{n.body}
	case *callBlock:
		return [][]stmt{n.body}
	case *filterBlock:
		return [][]stmt{n.body}
	case *withStmt:
		return [][]stmt{n.body}
	case *scopeStmt:
		return [][]stmt{n.body}
	case *blockStmt:
		return [][]stmt{n.body}
	}
	return nil
}

func (c *compiler) stmts(body []stmt, x ctx) {
	for _, n := range body {
		c.stmt(n, x)
	}
}

func (c *compiler) stmt(n stmt, x ctx) {
	switch n := n.(type) {
	case *outputStmt:
		c.exprs(x, n.parts...)
	case *ifStmt:
		c.ifs(n, x.softer())
	case *forStmt:
		c.loop(n, x)
	case *assignStmt:
		c.exprs(x, n.val, n.target)
	case *assignBlock:
		in := x.inner(x.sym.fn)
		in.sym.analyze(n.body)
		c.stmts(n.body, in)
		c.exprs(x, n.target)
		c.exprs(in, n.filter)
		n.frame = in.sym.frame()
	case *macroStmt:
		c.macro(&n.macroDef, int(n.at), x)
		c.exprs(x, n.target)
	case *callBlock:
		if n.call != nil {
			c.exprs(x, n.call)
		}
		c.macro(&n.macroDef, int(n.at), x)
	case *filterBlock:
		in := x.inner(x.sym.fn)
		in.sym.analyze(n.body)
		in.sym.exprs(n.filter)
		c.stmts(n.body, in)
		c.exprs(in, n.filter)
		n.frame = in.sym.frame()
	case *withStmt:
		in := x.inner(x.sym.fn)
		in.sym.exprs(n.targets...)
		in.sym.analyze(n.body)
		c.exprs(x, n.vals...)
		c.exprs(in, n.targets...)
		c.stmts(n.body, in)
		n.frame = in.sym.frame()
	case *scopeStmt:
		in := x.inner(x.sym.fn)
		in.sym.exprs(n.option)
		in.sym.analyze(n.body)
		c.exprs(in, n.option)
		c.stmts(n.body, in)
		n.frame = in.sym.frame()
	case *blockStmt:
		c.block(n, x)
	case *loadStmt:
		c.exprs(x, n.source)
	case *loopJump:
		if c.loops == 0 {
			word := "continue"
			if n.leave {
				word = "break"
			}
			c.fail(n.pos, "'%s' outside loop", word)
		}
	}
}

func (c *compiler) ifs(n *ifStmt, x ctx) {
	c.exprs(x, n.test)
	c.stmts(n.body, x)
	for _, e := range n.elifs {
		c.ifs(e, x)
	}
	c.stmts(n.els, x)
}

// function compiles a body that is a function of its own, where break cannot
// reach the loops outside.
func (c *compiler) function(f func()) {
	loops := c.loops
	c.loops = 0
	f()
	c.loops = loops
}

func (c *compiler) block(n *blockStmt, x ctx) {
	in := ctx{sym: newSymbols(nil, newFn(nil))}
	in.sym.analyze(n.body)
	c.function(func() { c.stmts(n.body, in) })
	n.frame = in.sym.frame()
	if !n.scoped {
		return
	}
	n.visible = map[string]slotRef{}
	for s := x.sym; s != nil; s = s.parent {
		for name := range s.stores {
			if _, ok := n.visible[name]; !ok {
				r, _ := x.sym.find(name)
				n.visible[name] = r.from(x.sym.fn)
			}
		}
	}
}

func (c *compiler) loop(n *forStmt, x ctx) {
	bodyFn := x.sym.fn
	if n.recursive {
		bodyFn = newFn(x.sym.fn)
		n.bodyFn = bodyFn
	}
	in, els := x.inner(bodyFn), x.inner(bodyFn)
	n.extended = n.recursive || undeclared(n.body, "loop")["loop"] || hasScopedBlock(n.body)
	if n.extended {
		n.loopRef = in.sym.param("loop").from(bodyFn)
	}
	in.sym.params(n.target)
	in.sym.analyze(n.body)
	els.sym.analyze(n.els)
	if n.test != nil {
		test := x.inner(newFn(x.sym.fn))
		test.sym.params(n.testTarget)
		test.sym.exprs(n.test)
		c.exprs(test, n.test, n.testTarget)
		n.testFrame = test.sym.frame()
	}
	c.noLoopTarget(n)
	c.exprs(x, n.iter)
	c.exprs(in, n.target)
	body := func() {
		c.loops++
		c.stmts(n.body, in)
		c.loops--
		c.stmts(n.els, els)
	}
	if n.recursive {
		c.function(body)
	} else {
		body()
	}
	n.bodyFrame, n.elseFrame = in.sym.frame(), els.sym.frame()
}

// noLoopTarget refuses to assign to loop anywhere within a loop.
func (c *compiler) noLoopTarget(n *forStmt) {
	check := func(x expr) {
		walkExpr(x, func(x expr) {
			if t, ok := x.(*nameExpr); ok && t.ctx == ctxStore && t.name == "loop" {
				c.fail(t.pos, "Can't assign to special loop variable in for-loop target")
			}
		})
	}
	check(n.target)
	eachStmt(n.body, func(s stmt) {
		for _, t := range targets(s) {
			check(t)
		}
	})
	eachStmt(n.els, func(s stmt) {
		for _, t := range targets(s) {
			check(t)
		}
	})
}

func targets(s stmt) []expr {
	switch s := s.(type) {
	case *assignStmt:
		return []expr{s.target}
	case *assignBlock:
		return []expr{s.target}
	case *forStmt:
		return []expr{s.target}
	}
	return nil
}

func eachStmt(body []stmt, f func(stmt)) {
	for _, s := range body {
		f(s)
		for _, inner := range bodies(s) {
			eachStmt(inner, f)
		}
	}
}

func hasScopedBlock(body []stmt) bool {
	found := false
	eachStmt(body, func(s stmt) {
		if b, ok := s.(*blockStmt); ok && b.scoped {
			found = true
		}
	})
	return found
}

// macro compiles the body of a macro or call block.
func (c *compiler) macro(m *macroDef, line int, x ctx) {
	f := newFn(x.sym.fn)
	in := x.inner(f)
	enter := func() {
		for _, a := range m.args {
			in.sym.param(a.name)
		}
		in.sym.exprs(m.defaults...)
		in.sym.analyze(m.body)
	}
	enter()
	free := undeclared(m.body, "caller", "kwargs", "varargs")
	for i, name := range []string{"caller", "kwargs", "varargs"} {
		if !free[name] {
			continue
		}
		explicit := -1
		for j, a := range m.args {
			if a.name == name {
				explicit = j
			}
		}
		if explicit < 0 {
			m.uses[i] = true
			m.special[i] = in.sym.param(name).from(f)
		} else if i == 0 {
			m.uses[i] = true
			if explicit < len(m.args)-len(m.defaults) {
				c.fail(0, `When defining macros or call blocks the special "caller" argument must be omitted or be given a default.`)
			}
		}
	}
	enter()
	for _, a := range m.args {
		r, _ := in.sym.find(a.name)
		a.ref = r.from(f)
	}
	c.exprs(in, m.defaults...)
	c.function(func() { c.stmts(m.body, in) })
	m.frame = in.sym.frame()
}

// isConst reports whether jinja2 can work an expression out when it compiles.
func isConst(e expr) bool {
	switch e.(type) {
	case *nameExpr, *nsRef, *callExpr, *filterExpr, *testExpr:
		return false
	}
	for _, part := range children(e) {
		if !isConst(part) {
			return false
		}
	}
	return true
}

// exprs ties the names of expressions to their slots.
func (c *compiler) exprs(x ctx, xs ...expr) {
	for _, e := range xs {
		c.expr(e, x)
	}
}

func (c *compiler) expr(e expr, x ctx) {
	switch e := e.(type) {
	case nil:
		return
	case *nameExpr:
		r, _ := x.sym.find(e.name)
		e.ref = r.from(x.sym.fn)
		e.top = x.top && e.ctx == ctxStore
	case *nsRef:
		r, _ := x.sym.find(e.name)
		e.ref = r.from(x.sym.fn)
	case *condExpr:
		x = x.softer()
	case *binaryExpr:
		// The Python code of (-1) ** x is -1 ** x, where the power binds first.
		if neg, ok := e.left.(*unaryExpr); ok && e.op == tPow && neg.op == tSub && isConst(neg) && !isConst(e.right) {
			e.left, e.negated = neg.x, true
		}
	case *filterExpr:
		if why := leftOut[e.name]; why != "" {
			c.fail(e.pos, "The filter %s is not supported: %s.", reprText(text(e.name)), why)
		} else if e.f == nil && !x.soft {
			c.fail(e.pos, "No filter named %s.", reprText(text(e.name)))
		}
	case *testExpr:
		if e.f == nil && !x.soft {
			c.fail(e.pos, "No test named %s.", reprText(text(e.name)))
		}
	}
	for _, part := range children(e) {
		c.expr(part, x)
	}
}
