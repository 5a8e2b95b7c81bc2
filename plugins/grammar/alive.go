package grammar

// longText is the length from which texts are treated as equally long.
const longText = 1 << 20

// deadTerm, as a value of alive, marks a term that matches no text. Otherwise alive is 1 more than the length of a
// matching text, or 0 if unknown.
const deadTerm = -1

// isAlive reports whether t matches any text. Only intersections and complements need a search: through derivatives,
// until one matches the empty text. The search is breadth first at the beginning, because maskByBucket benefits from
// short texts, then depth first.
func (w *work) isAlive(t *term) bool {
	e := w.essence(t)
	if e.known {
		return e.yes
	}
	if alive, known := w.search(e.t, min(minSearch, w.m.limits.Search), false); known {
		return alive
	}
	alive, _ := w.search(e.t, w.m.limits.Search, true)
	return alive
}

// minSearch is how many terms are visited breadth first.
const minSearch = 200

// found is a term that a search visited: the essence of what a byte led to from the term before it.
type found struct {
	essence
	before int
	left   byteSet // bytes not tried
}

// search visits up to most terms, depth first if deep is set. known is false if that was not enough to decide.
func (w *work) search(t *term, most int, deep bool) (alive, known bool) {
	all := []found{{essence: essence{t: t, times: 1}, before: -1, left: t.first}}
	seen := map[hash]struct{}{t.h: {}}
	path := []int{0} // of those with bytes left, a stack or a queue
	for len(path) > 0 && w.err == nil {
		at := 0
		if deep {
			at = len(path) - 1
		}
		n := path[at]
		if all[n].left.empty() {
			if deep {
				path = path[:at]
			} else {
				path = path[1:]
			}
			continue
		}
		top := all[n].t
		b := all[n].left.lowest()
		all[n].left = all[n].left.minus(w.equivalent(top, b))
		e := w.essence(w.derive(top, b))
		if e.known && e.yes {
			recordLengths(all, n, e.length(0))
			return true, true
		}
		if _, ok := seen[e.t.h]; ok || e.known {
			continue
		}
		seen[e.t.h] = struct{}{}
		if len(seen) > most {
			if deep {
				w.limit("states searched for a text of an intersection or complement", most, len(seen))
			}
			return false, false
		}
		all = append(all, found{e, n, e.t.first})
		path = append(path, len(all)-1)
	}
	if w.err == nil {
		for _, f := range all {
			f.t.alive.Store(deadTerm)
		}
	}
	return false, true
}

// recordLengths records the lengths of texts for the terms on the path to a term whose text has length bytes.
func recordLengths(all []found, at, length int) {
	for ; at >= 0; at = all[at].before {
		length++
		all[at].t.alive.Store(int32(1 + min(length, longText)))
		length = all[at].length(length)
	}
}

// essence is the part of a term that decides whether it matches any text: t, which leaves out pure parts of a chain,
// and repeats. A text of the term is times texts of t and more other bytes.
type essence struct {
	t           *term
	times, more int
	known, yes  bool // yes is the answer already, and more the length of a text
}

// length computes the length of a text of the whole term from that of a text of t.
func (e essence) length(n int) int {
	return min(e.more+e.times*min(n, longText), longText)
}

func (w *work) essence(t *term) essence {
	e := essence{times: 1}
	add := func(n int) { e.more = min(e.more+e.times*n, longText) }
	for {
		alive := t.alive.Load()
		e.t = t
		switch {
		case t.pure:
			e.known, e.yes = true, t.op != opNothing
			add(int(t.least))
			return e
		case t.nullable || alive > 0:
			e.known, e.yes = true, true
			if !t.nullable {
				add(int(alive) - 1)
			}
			return e
		case alive == deadTerm:
			e.known = true
			return e
		case t.op == opCat && t.kids[0].pure:
			add(int(t.kids[0].least))
			t = t.kids[1]
		case t.op == opCat && t.kids[1].pure:
			add(int(t.kids[1].least))
			t = t.kids[0]
		case t.op == opRep:
			e.times = min(e.times*int(min(t.lo, longText)), longText)
			t = t.kids[0]
		case t.op == opSpans:
			e.times = min(e.times*int(min(t.spans[0].lo, longText)), longText)
			t = t.kids[0]
		case t.op == opAnd:
			if n, ok := w.capped(t); ok {
				e.known, e.yes = true, true
				add(n)
			}
			return e
		case t.op == opAlt:
			shortest := -1
			for _, k := range t.kids {
				if n := k.text(); n >= 0 && (shortest < 0 || n < shortest) {
					shortest = n
				}
			}
			if shortest >= 0 {
				e.known, e.yes = true, true
				add(shortest)
			}
			return e
		default:
			return e
		}
	}
}

// text is the length of a text of t, or -1 if unknown.
func (t *term) text() int {
	switch alive := t.alive.Load(); {
	case t.nullable:
		return 0
	case t.op == opNothing:
	case t.pure:
		return int(t.least)
	case alive > 0:
		return int(alive) - 1
	}
	return -1
}
