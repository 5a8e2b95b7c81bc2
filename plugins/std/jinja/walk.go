package jinja

// walk calls f for every statement and g for every expression with all its
// parts, from the outside in.
func walk(body []stmt, f func(stmt), g func(expr)) {
	exprs := func(xs ...expr) {
		for _, x := range xs {
			walkExpr(x, g)
		}
	}
	macro := func(m *macroDef) {
		exprs(m.defaults...)
		walk(m.body, f, g)
	}
	for _, n := range body {
		f(n)
		switch n := n.(type) {
		case *outputStmt:
			exprs(n.parts...)
		case *ifStmt:
			exprs(n.test)
			walk(n.body, f, g)
			for _, e := range n.elifs {
				walk([]stmt{e}, f, g)
			}
			walk(n.els, f, g)
		case *forStmt:
			exprs(n.iter, n.test)
			walk(n.body, f, g)
			walk(n.els, f, g)
		case *assignStmt:
			exprs(n.target, n.val)
		case *assignBlock:
			exprs(n.filter)
			walk(n.body, f, g)
		case *macroStmt:
			macro(&n.macroDef)
		case *callBlock:
			if n.call != nil {
				exprs(n.call)
			}
			macro(&n.macroDef)
		case *filterBlock:
			exprs(n.filter)
			walk(n.body, f, g)
		case *withStmt:
			exprs(n.vals...)
			walk(n.body, f, g)
		case *scopeStmt:
			exprs(n.option)
			walk(n.body, f, g)
		case *blockStmt:
			walk(n.body, f, g)
		}
	}
}

// isText reports whether x is a constant string that says want.
func isText(x expr, want string) bool {
	k, ok := x.(constant)
	if !ok {
		return false
	}
	s, ok := k.v.(*Str)
	return ok && s.s == want
}
