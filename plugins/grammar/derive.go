package grammar

// next is the term that byte b leads to from t: nothing if no text continues. It is exact: what it returns matches some
// text.
func (w *work) next(t *term, b byte) *term {
	if !t.first.has(b) {
		return nothing
	}
	if n := t.cachedNext(b); n != nil {
		return n
	}
	return w.computeNext(t, b)
}

// cachedNext is the term that byte b leads to from t, nil if not computed yet.
func (t *term) cachedNext(b byte) *term {
	if tab := t.tab.Load(); tab != nil {
		return tab.get(b)
	}
	return nil
}

// computeNext computes a transition and caches it for all equivalent bytes.
func (w *work) computeNext(t *term, b byte) *term {
	n := w.derive(t, b)
	if !n.pure && !w.isAlive(n) {
		n = nothing
	}
	if w.err != nil {
		return nothing
	}
	w.m.linkTerm(t, w.equivalent(t, b), n)
	return n
}

// equivalent returns bytes, b among them, by which t has the same derivative. Deep terms
// are memoized, as in derive.
func (w *work) equivalent(t *term, b byte) byteSet {
	switch t.op {
	case opClass, opLit:
		return t.first.side(b)
	case opNothing, opEmpty:
		return allBytes
	}
	if w.depth < memoDepth {
		w.depth++
		s := w.equivalentByKids(t, b)
		if w.depth--; w.depth == 0 {
			w.sides = nil
		}
		return s
	}
	s, ok := w.sides[derivation{t, b}]
	if !ok && w.spend(priceAsk) {
		s = w.equivalentByKids(t, b)
		if w.sides == nil {
			w.sides = map[derivation]byteSet{}
		}
		w.sides[derivation{t, b}] = s
	}
	return s
}

func (w *work) equivalentByKids(t *term, b byte) byteSet {
	s := allBytes
	switch t.op {
	case opCat:
		s = w.equivalent(t.kids[0], b)
		for t.op == opCat && t.kids[0].nullable {
			t = t.kids[1]
			if t.op == opCat {
				s = s.and(w.equivalent(t.kids[0], b))
			} else {
				s = s.and(w.equivalent(t, b))
			}
		}
	case opAlt, opAnd:
		if !w.spend(int64(len(t.kids)) * priceKid) {
			return s
		}
		for _, k := range t.kids {
			s = s.and(w.equivalent(k, b))
		}
	case opRep, opSpans, opNot:
		s = w.equivalent(t.kids[0], b)
	}
	return s
}

// memoDepth is the nesting depth from which derivatives are memoized. A term that contains another twice, which
// contains another twice, and so on, has exponentially many occurrences.
const memoDepth = 8

// derivation is the key of a memoized derivative.
type derivation struct {
	term *term
	b    byte
}

// derive is what is left of t's texts that begin with b (Brzozowski's derivative).
func (w *work) derive(t *term, b byte) *term {
	if !t.first.has(b) || w.err != nil {
		return nothing
	}
	if w.depth < memoDepth || t.op < opCat {
		w.depth++
		n := w.deriveUncached(t, b)
		if w.depth--; w.depth == 0 {
			w.derived = nil
		}
		return n
	}
	n := w.derived[derivation{t, b}]
	if n == nil {
		if !w.spend(priceAsk) {
			return nothing
		}
		n = w.deriveUncached(t, b)
		if w.derived == nil {
			w.derived = map[derivation]*term{}
		}
		w.derived[derivation{t, b}] = n
	}
	return n
}

func (w *work) deriveUncached(t *term, b byte) *term {
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
	case opSpans:
		return w.cat(w.derive(t.kids[0], b), w.repeatSpans(t.kids[0], afterOne(t.spans)))
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
