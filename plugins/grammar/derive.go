package grammar

// next is where byte b leads from t: nothing where no text goes on. It is exact:
// what it returns has a text.
func (w *work) next(t *term, b byte) *term {
	if !t.first.has(b) {
		return nothing
	}
	if n := t.known(b); n != nil {
		return n
	}
	return w.find(t, b)
}

// known is where byte b leads from t, nil where that was not asked yet.
func (t *term) known(b byte) *term {
	if tab := t.tab.Load(); tab != nil {
		return tab.get(b)
	}
	return nil
}

// find computes a transition and remembers it for all bytes that lead alike.
func (w *work) find(t *term, b byte) *term {
	n := w.derive(t, b)
	if !n.pure && !w.lives(n) {
		n = nothing
	}
	if w.err != nil {
		return nothing
	}
	w.m.linkTerm(t, t.alike(b), n)
	return n
}

// alike are bytes, b among them, by which t has the same derivative.
func (t *term) alike(b byte) byteSet {
	switch t.op {
	case opClass, opLit:
		return t.first.side(b)
	case opCat:
		s := t.kids[0].alike(b)
		for t.op == opCat && t.kids[0].nullable {
			t = t.kids[1]
			if t.op == opCat {
				s = s.and(t.kids[0].alike(b))
			} else {
				s = s.and(t.alike(b))
			}
		}
		return s
	case opAlt, opAnd:
		s := allBytes
		for _, k := range t.kids {
			s = s.and(k.alike(b))
		}
		return s
	case opRep, opNot:
		return t.kids[0].alike(b)
	}
	return allBytes
}

// derive is what is left of t's texts that begin with b (Brzozowski's derivative).
func (w *work) derive(t *term, b byte) *term {
	if !t.first.has(b) || w.err != nil {
		return nothing
	}
	switch t.op {
	case opClass:
		return empty
	case opLit:
		return w.literal(t.lit[1:])
	case opCat:
		return w.deriveCat(t, b)
	case opAlt:
		out := make([]*term, 0, 4)
		for _, k := range t.kids {
			if k.first.has(b) {
				out = append(out, w.derive(k, b))
			}
		}
		return w.alt(out)
	case opRep:
		hi := t.hi
		if hi != unbounded {
			hi--
		}
		return w.cat(w.derive(t.kids[0], b), w.repeat(t.kids[0], max(t.lo, 1)-1, hi))
	case opAnd:
		out := make([]*term, len(t.kids))
		for i, k := range t.kids {
			if out[i] = w.derive(k, b); out[i].op == opNothing {
				return nothing
			}
		}
		return w.intersect(out)
	case opNot:
		return w.complement(w.derive(t.kids[0], b))
	}
	return nothing
}

func (w *work) deriveCat(t *term, b byte) *term {
	var out []*term
	for t.op == opCat {
		head, rest := t.kids[0], t.kids[1]
		if head.first.has(b) {
			out = append(out, w.cat(w.derive(head, b), rest))
		}
		if !head.nullable || !rest.first.has(b) {
			return w.alt(out)
		}
		if t = rest; !w.spend(priceNode) {
			return nothing
		}
	}
	return w.alt(append(out, w.derive(t, b)))
}
