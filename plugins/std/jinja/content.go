package jinja

// contentReading tells how a template deals with a message's content.
//
// It reads parts if it loops over content, filters it by attributes, or looks
// into one of its items. A test whether content is a string does not count:
// templates that only test lose the text of a list. Of those that read parts,
// those without such a test lose the text of a string: they read nothing else.
//
// It goes by the syntax, as vLLM's detection of the content format does
// (vllm/entrypoints/chat_utils.py, _detect_content_format), and is blind to
// scopes: a name that is content anywhere is content everywhere.
func contentReading(body []stmt) (parts, onlyParts bool) {
	c := &contentNames{names: map[string]bool{}, macros: map[string]*macroDef{}}
	walk(body, func(n stmt) {
		if m, ok := n.(*macroStmt); ok {
			c.macros[m.name] = &m.macroDef
		}
	}, func(expr) {})
	for before := -1; before < len(c.names); { // until no name is new
		before = len(c.names)
		walk(body, c.assigned, c.passed)
	}
	tested := false
	walk(body, func(n stmt) {
		if f, ok := n.(*forStmt); ok && c.is(f.iter) {
			parts = true
		}
	}, func(x expr) {
		parts = parts || c.takesApart(x)
		t, ok := x.(*testExpr)
		tested = tested || ok && (t.name == "string" || t.name == "iterable" || t.name == "mapping" || t.name == "sequence") && c.is(t.x)
	})
	return parts, parts && !tested
}

// contentNames are the names that stand for a message's content.
type contentNames struct {
	names  map[string]bool
	macros map[string]*macroDef
}

// is reports whether x is content, or may be.
func (c *contentNames) is(x expr) bool {
	switch x := x.(type) {
	case *nameExpr:
		return c.names[x.name]
	case *attrExpr:
		return x.attr == "content"
	case *itemExpr:
		return isText(x.arg, "content")
	case *callExpr: // message.get('content')
		fn, ok := x.fn.(*attrExpr)
		return ok && fn.attr == "get" && len(x.args.pos) > 0 && isText(x.args.pos[0], "content")
	case *condExpr:
		return c.is(x.yes) || x.no != nil && c.is(x.no)
	case *logicExpr:
		return c.is(x.left) || c.is(x.right)
	case *filterExpr:
		switch x.name {
		case "list", "default", "d", "selectattr", "rejectattr", "select", "reject":
			return x.x != nil && c.is(x.x)
		}
	}
	return false
}

// takesApart reports whether x works on a list of objects that is content.
func (c *contentNames) takesApart(x expr) bool {
	switch x := x.(type) {
	case *attrExpr: // content[0].type
		return c.isItem(x.x)
	case *itemExpr: // content[0]['type']
		_, ok := x.arg.(constant)
		return ok && c.isItem(x.x)
	case *filterExpr:
		return (x.name == "selectattr" || x.name == "rejectattr" || x.name == "map") && x.x != nil && c.is(x.x)
	}
	return false
}

// isItem reports whether x is one item of content.
func (c *contentNames) isItem(x expr) bool {
	switch x := x.(type) {
	case *itemExpr:
		n, ok := x.arg.(constant)
		if !ok {
			return false
		}
		_, ok = n.v.(Int)
		return ok && c.is(x.x)
	case *filterExpr:
		return (x.name == "first" || x.name == "last") && x.x != nil && c.is(x.x)
	}
	return false
}

func isText(x expr, want string) bool {
	k, ok := x.(constant)
	if !ok {
		return false
	}
	s, ok := k.v.(*Str)
	return ok && s.s == want
}

// assigned enters the names that are set to content.
func (c *contentNames) assigned(n stmt) {
	switch n := n.(type) {
	case *assignStmt:
		c.enter(n.target, n.val)
	case *withStmt:
		for i, t := range n.targets {
			c.enter(t, n.vals[i])
		}
	}
}

func (c *contentNames) enter(target, val expr) {
	if t, ok := target.(*nameExpr); ok && c.is(val) {
		c.names[t.name] = true
	}
}

// passed enters the parameters of macros that are called with content.
func (c *contentNames) passed(x expr) {
	call, ok := x.(*callExpr)
	if !ok {
		return
	}
	fn, ok := call.fn.(*nameExpr)
	if !ok || c.macros[fn.name] == nil {
		return
	}
	params := c.macros[fn.name].args
	for i, a := range call.args.pos {
		if i < len(params) {
			c.enter(params[i], a)
		}
	}
	for _, k := range call.args.kw {
		for _, p := range params {
			if p.name == k.name {
				c.enter(p, k.val)
			}
		}
	}
}

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
