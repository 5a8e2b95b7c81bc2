package grammar

// fits reports whether all texts of x, which is pure, are also texts of c*. It is false if the structure of the two
// does not prove it. With it most intersections of a pattern and a length are known to match some text without a
// search.
func (w *work) fits(x, c *term) bool {
	if known := x.fits.Load(); known != nil && (known.h == c.h || known == nothing) {
		return known != nothing
	}
	// After one text of c there may be x again, which proves nothing.
	if w.fitting[x] {
		return false
	}
	if w.fitting == nil {
		w.fitting = map[*term]bool{}
	}
	w.fitting[x] = true
	ok := w.fitsBy(x, c)
	delete(w.fitting, x)
	if w.err != nil {
		return false
	}
	if ok {
		x.fits.Store(c)
	} else {
		x.fits.Store(nothing)
	}
	return ok
}

func (w *work) fitsBy(x, c *term) bool {
	single := byteSet{}
	for _, k := range flatten(opAlt, []*term{c}) {
		if k.h == x.h {
			return true
		}
		if k.op == opClass {
			single = single.or(k.first)
		}
	}
	switch x.op {
	case opEmpty:
		return true
	case opClass:
		return x.first.minus(single).empty()
	case opRep, opSpans:
		return w.fits(x.kids[0], c)
	case opAlt:
		for _, k := range x.kids {
			if !w.fits(k, c) {
				return false
			}
		}
		return true
	case opCat:
		if w.fits(x.kids[1], c) && w.fits(x.kids[0], c) {
			return true
		}
	case opLit:
	default:
		return false
	}
	if x.nullable {
		return false
	}
	left := maxFitted
	return w.fitsFirst(x, w.repeat(c, 0, unbounded), c, &left)
}

// maxFitted limits the steps through the first repetition of c.
const maxFitted = 100

// fitsFirst walks byte by byte through the first repetition of c that texts of x begin with. at is what remains of c*.
func (w *work) fitsFirst(x, at, c *term, left *int) bool {
	if !x.first.minus(at.first).empty() || x.nullable {
		return false
	}
	for todo := x.first; !todo.empty(); {
		if *left--; *left < 0 || w.err != nil {
			return false
		}
		b := todo.lowest()
		todo = todo.minus(w.equivalent(x, b).and(w.equivalent(at, b)))
		rest, to := w.next(x, b), w.next(at, b)
		if to.nullable {
			if !w.fits(rest, c) {
				return false
			}
		} else if !w.fitsFirst(rest, to, c, left) {
			return false
		}
	}
	return true
}

// capped is the length of a text of an intersection of a pattern and a maximum number of characters; ok is false if
// that is not known.
func (w *work) capped(t *term) (length int, ok bool) {
	if len(t.kids) != 2 {
		return 0, false
	}
	for i, k := range t.kids {
		x := t.kids[1-i]
		if k.op == opRep && k.lo == 0 && k.pure && x.pure && (k.hi == unbounded || x.least <= k.hi) &&
			w.fits(x, k.kids[0]) {
			return int(x.least), true
		}
	}
	return 0, false
}
