package interp

import "tgi/plugins/std/jinja/syntax"

// analyze enters the names of nodes into s in the order of jinja2's
// FrameSymbolVisitor: inner scopes are left out, save for the parts of them
// that are evaluated outside.
func (s *symbols) analyze(body []syntax.Stmt) {
	for _, n := range body {
		s.analyzeStmt(n)
	}
}

func (s *symbols) analyzeStmt(n syntax.Stmt) {
	switch n := n.(type) {
	case *syntax.Output:
		s.exprs(n.Parts...)
	case *syntax.If:
		s.analyzeIf(n)
	case *syntax.For:
		s.exprs(n.Iter)
	case *syntax.Set:
		s.exprs(n.Value, n.Target)
	case *syntax.SetBlock:
		s.exprs(n.Target, n.Filter)
	case *syntax.Macro:
		s.store(n.Name)
	case *syntax.CallBlock:
		if n.Call != nil {
			s.exprs(n.Call)
		}
	case *syntax.FilterBlock:
		s.exprs(n.Filter)
	case *syntax.With:
		s.exprs(n.Values...)
	case *syntax.LoadTemplate:
		s.exprs(n.Source)
		for _, t := range n.Targets {
			s.store(t.Name)
		}
	}
}

func (s *symbols) analyzeIf(n *syntax.If) {
	s.exprs(n.Test)
	body, elifs, els := s.clone(), s.clone(), s.clone()
	body.analyze(n.Body)
	for _, e := range n.Elifs {
		elifs.analyzeIf(e)
	}
	els.analyze(n.Else)
	s.merge(body, elifs, els)
}

// exprs enters the names of expressions.
func (s *symbols) exprs(xs ...syntax.Expr) {
	for _, x := range xs {
		syntax.WalkExpr(x, func(x syntax.Expr) {
			switch x := x.(type) {
			case *syntax.Name:
				switch x.Use {
				case syntax.Param:
					s.param(x.Name)
				case syntax.Store:
					s.store(x.Name)
				default:
					s.load(x.Name)
				}
			case *syntax.NamespaceAttr:
				s.load(x.Name)
			}
		})
	}
}

// params enters the names of a target as parameters of the frame.
func (s *symbols) params(target syntax.Expr) {
	syntax.WalkExpr(target, func(x syntax.Expr) {
		if n, ok := x.(*syntax.Name); ok {
			s.param(n.Name)
		} else if n, ok := x.(*syntax.NamespaceAttr); ok {
			s.load(n.Name)
		}
	})
}
