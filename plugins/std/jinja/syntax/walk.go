package syntax

// Walk calls f for every statement and g for every expression with all its
// parts, from the outside in.
func Walk(body []Stmt, f func(Stmt), g func(Expr)) {
	exprs := func(xs ...Expr) {
		for _, x := range xs {
			WalkExpr(x, g)
		}
	}
	for _, n := range body {
		f(n)
		switch n := n.(type) {
		case *Output:
			exprs(n.Parts...)
		case *If:
			exprs(n.Test)
			Walk(n.Body, f, g)
			for _, e := range n.Elifs {
				Walk([]Stmt{e}, f, g)
			}
			Walk(n.Else, f, g)
			continue
		case *For:
			exprs(n.Iter, n.Test)
		case *Set:
			exprs(n.Target, n.Value)
		case *SetBlock:
			exprs(n.Filter)
		case *Macro:
			exprs(n.Defaults...)
		case *CallBlock:
			if n.Call != nil {
				exprs(n.Call)
			}
			exprs(n.Defaults...)
		case *FilterBlock:
			exprs(n.Filter)
		case *With:
			exprs(n.Values...)
		}
		for _, inner := range Bodies(n) {
			Walk(inner, f, g)
		}
	}
}

// Bodies are the statement lists inside a statement.
func Bodies(n Stmt) [][]Stmt {
	switch n := n.(type) {
	case *If:
		out := [][]Stmt{n.Body, n.Else}
		for _, e := range n.Elifs {
			out = append(out, Bodies(e)...)
		}
		return out
	case *For:
		return [][]Stmt{n.Body, n.Else}
	case *SetBlock:
		return [][]Stmt{n.Body}
	case *Macro:
		return [][]Stmt{n.Body}
	case *CallBlock:
		return [][]Stmt{n.Body}
	case *FilterBlock:
		return [][]Stmt{n.Body}
	case *With:
		return [][]Stmt{n.Body}
	case *Autoescape:
		return [][]Stmt{n.Body}
	case *Block:
		return [][]Stmt{n.Body}
	}
	return nil
}

// WalkExpr calls f for x and all its parts, from the outside in.
func WalkExpr(x Expr, f func(Expr)) {
	if x == nil {
		return
	}
	f(x)
	for _, c := range Children(x) {
		WalkExpr(c, f)
	}
}

// Children are the direct parts of an expression in the order of jinja2's
// fields. Absent parts are left out.
func Children(x Expr) []Expr {
	switch x := x.(type) {
	case *Tuple:
		return x.Items
	case *List:
		return x.Items
	case *Dict:
		var out []Expr
		for i := range x.Keys {
			out = append(out, x.Keys[i], x.Values[i])
		}
		return out
	case *Cond:
		return present(x.Test, x.Yes, x.No)
	case *Logic:
		return present(x.Left, x.Right)
	case *Not:
		return present(x.X)
	case *Unary:
		return present(x.X)
	case *Binary:
		return present(x.Left, x.Right)
	case *Concat:
		return x.Parts
	case *Compare:
		out := present(x.First)
		for _, o := range x.Rest {
			out = append(out, o.X)
		}
		return out
	case *Attr:
		return present(x.X)
	case *Item:
		return present(x.X, x.Arg)
	case *Slice:
		return present(x.X, x.Start, x.Stop, x.Step)
	case *Call:
		return append(present(x.Fn), x.Args.exprs()...)
	case *Filter:
		return append(present(x.X), x.Args.exprs()...)
	case *Test:
		return append(present(x.X), x.Args.exprs()...)
	}
	return nil
}

func present(xs ...Expr) []Expr {
	out := make([]Expr, 0, len(xs))
	for _, x := range xs {
		if x != nil {
			out = append(out, x)
		}
	}
	return out
}

func (a *Args) exprs() []Expr {
	out := append([]Expr(nil), a.Pos...)
	for _, k := range a.Keywords {
		out = append(out, k.Value)
	}
	return append(out, present(a.Star, a.StarStar)...)
}

// Undeclared reports which of names the statements read without having set
// them, as jinja2's find_undeclared: in order of the text, blind to scopes.
func Undeclared(body []Stmt, names ...string) map[string]bool {
	u := &undeclaredNames{open: map[string]bool{}, found: map[string]bool{}}
	for _, n := range names {
		u.open[n] = true
	}
	u.stmts(body)
	return u.found
}

type undeclaredNames struct{ open, found map[string]bool }

func (u *undeclaredNames) exprs(xs ...Expr) {
	for _, x := range xs {
		WalkExpr(x, func(x Expr) {
			n, ok := x.(*Name)
			if !ok {
				return
			}
			if n.Use != Load {
				delete(u.open, n.Name)
			} else if u.open[n.Name] {
				u.found[n.Name] = true
			}
		})
	}
}

func (u *undeclaredNames) macro(m *Signature) {
	for _, a := range m.Params {
		u.exprs(a)
	}
	u.exprs(m.Defaults...)
	u.stmts(m.Body)
}

func (u *undeclaredNames) stmts(body []Stmt) {
	for _, n := range body {
		switch n := n.(type) {
		case *Output:
			u.exprs(n.Parts...)
		case *If:
			u.ifs(n)
		case *For:
			u.exprs(n.Target, n.Iter)
			u.stmts(n.Body)
			u.stmts(n.Else)
			u.exprs(n.Test)
		case *Set:
			u.exprs(n.Target, n.Value)
		case *SetBlock:
			u.exprs(n.Target, n.Filter)
			u.stmts(n.Body)
		case *Macro:
			u.macro(&n.Signature)
		case *CallBlock:
			if n.Call != nil {
				u.exprs(n.Call)
			}
			u.macro(&n.Signature)
		case *FilterBlock:
			u.stmts(n.Body)
			u.exprs(n.Filter)
		case *With:
			u.exprs(n.Targets...)
			u.exprs(n.Values...)
			u.stmts(n.Body)
		case *Autoescape:
			u.exprs(n.Option)
			u.stmts(n.Body)
		case *LoadTemplate:
			u.exprs(n.Source)
		}
	}
}

func (u *undeclaredNames) ifs(n *If) {
	u.exprs(n.Test)
	u.stmts(n.Body)
	for _, e := range n.Elifs {
		u.ifs(e)
	}
	u.stmts(n.Else)
}
