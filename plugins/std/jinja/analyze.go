package jinja

// analyze enters the names of nodes into s in the order of jinja2's
// FrameSymbolVisitor: inner scopes are left out, save for the parts of them
// that are evaluated outside.
func (s *symbols) analyze(body []stmt) {
	for _, n := range body {
		s.analyzeStmt(n)
	}
}

func (s *symbols) analyzeStmt(n stmt) {
	switch n := n.(type) {
	case *outputStmt:
		s.exprs(n.parts...)
	case *ifStmt:
		s.analyzeIf(n)
	case *forStmt:
		s.exprs(n.iter)
	case *assignStmt:
		s.exprs(n.val, n.target)
	case *assignBlock:
		s.exprs(n.target, n.filter)
	case *macroStmt:
		s.store(n.name)
	case *callBlock:
		if n.call != nil {
			s.exprs(n.call)
		}
	case *filterBlock:
		s.exprs(n.filter)
	case *withStmt:
		s.exprs(n.vals...)
	case *loadStmt:
		s.exprs(n.source)
		for _, t := range n.targets {
			s.store(t.name)
		}
	}
}

func (s *symbols) analyzeIf(n *ifStmt) {
	s.exprs(n.test)
	body, elifs, els := s.clone(), s.clone(), s.clone()
	body.analyze(n.body)
	for _, e := range n.elifs {
		elifs.analyzeIf(e)
	}
	els.analyze(n.els)
	s.merge(body, elifs, els)
}

// exprs enters the names of expressions.
func (s *symbols) exprs(xs ...expr) {
	for _, x := range xs {
		walkExpr(x, func(x expr) {
			switch x := x.(type) {
			case *nameExpr:
				switch x.ctx {
				case ctxParam:
					s.param(x.name)
				case ctxStore:
					s.store(x.name)
				default:
					s.load(x.name)
				}
			case *nsRef:
				s.load(x.name)
			}
		})
	}
}

// params enters the names of a target as parameters of the frame.
func (s *symbols) params(target expr) {
	walkExpr(target, func(x expr) {
		if n, ok := x.(*nameExpr); ok {
			s.param(n.name)
		} else if n, ok := x.(*nsRef); ok {
			s.load(n.name)
		}
	})
}

// walkExpr calls f for x and all its parts, from the outside in.
func walkExpr(x expr, f func(expr)) {
	if x == nil {
		return
	}
	f(x)
	for _, c := range children(x) {
		walkExpr(c, f)
	}
}

// children are the direct parts of an expression in the order of jinja2's
// fields. Absent parts are left out.
func children(x expr) []expr {
	switch x := x.(type) {
	case *tupleExpr:
		return x.items
	case *listExpr:
		return x.items
	case *dictExpr:
		var out []expr
		for i := range x.keys {
			out = append(out, x.keys[i], x.vals[i])
		}
		return out
	case *condExpr:
		return present(x.test, x.yes, x.no)
	case *logicExpr:
		return present(x.left, x.right)
	case *notExpr:
		return present(x.x)
	case *unaryExpr:
		return present(x.x)
	case *binaryExpr:
		return present(x.left, x.right)
	case *concatExpr:
		return x.parts
	case *compareExpr:
		out := present(x.first)
		for _, o := range x.ops {
			out = append(out, o.x)
		}
		return out
	case *attrExpr:
		return present(x.x)
	case *itemExpr:
		return present(x.x, x.arg)
	case *sliceExpr:
		return present(x.x, x.start, x.stop, x.step)
	case *callExpr:
		return append(present(x.fn), x.args.exprs()...)
	case *filterExpr:
		return append(present(x.x), x.args.exprs()...)
	case *testExpr:
		return append(present(x.x), x.args.exprs()...)
	}
	return nil
}

func present(xs ...expr) []expr {
	out := make([]expr, 0, len(xs))
	for _, x := range xs {
		if x != nil {
			out = append(out, x)
		}
	}
	return out
}

func (a *argList) exprs() []expr {
	out := append([]expr(nil), a.pos...)
	for _, k := range a.kw {
		out = append(out, k.val)
	}
	return append(out, present(a.star, a.star2)...)
}

// undeclared reports which of names the statements read without having set
// them, as jinja2's find_undeclared: in order of the text, blind to scopes.
func undeclared(body []stmt, names ...string) map[string]bool {
	u := &undeclaredNames{open: map[string]bool{}, found: map[string]bool{}}
	for _, n := range names {
		u.open[n] = true
	}
	u.stmts(body)
	return u.found
}

type undeclaredNames struct{ open, found map[string]bool }

func (u *undeclaredNames) exprs(xs ...expr) {
	for _, x := range xs {
		walkExpr(x, func(x expr) {
			n, ok := x.(*nameExpr)
			if !ok {
				return
			}
			if n.ctx != ctxLoad {
				delete(u.open, n.name)
			} else if u.open[n.name] {
				u.found[n.name] = true
			}
		})
	}
}

func (u *undeclaredNames) macro(m *macroDef) {
	for _, a := range m.args {
		u.exprs(a)
	}
	u.exprs(m.defaults...)
	u.stmts(m.body)
}

func (u *undeclaredNames) stmts(body []stmt) {
	for _, n := range body {
		switch n := n.(type) {
		case *outputStmt:
			u.exprs(n.parts...)
		case *ifStmt:
			u.ifs(n)
		case *forStmt:
			u.exprs(n.target, n.iter)
			u.stmts(n.body)
			u.stmts(n.els)
			u.exprs(n.test)
		case *assignStmt:
			u.exprs(n.target, n.val)
		case *assignBlock:
			u.exprs(n.target, n.filter)
			u.stmts(n.body)
		case *macroStmt:
			u.macro(&n.macroDef)
		case *callBlock:
			if n.call != nil {
				u.exprs(n.call)
			}
			u.macro(&n.macroDef)
		case *filterBlock:
			u.stmts(n.body)
			u.exprs(n.filter)
		case *withStmt:
			u.exprs(n.targets...)
			u.exprs(n.vals...)
			u.stmts(n.body)
		case *scopeStmt:
			u.exprs(n.option)
			u.stmts(n.body)
		case *loadStmt:
			u.exprs(n.source)
		}
	}
}

func (u *undeclaredNames) ifs(n *ifStmt) {
	u.exprs(n.test)
	u.stmts(n.body)
	for _, e := range n.elifs {
		u.ifs(e)
	}
	u.stmts(n.els)
}
