package grammar

// longText is the length from which texts are not told apart.
const longText = 1 << 20

// dies in alive is a term without a text. Else alive is 1 more than the length of a
// text, or 0 where nothing is known.
const dies = -1

// isAlive reports whether t has a text. Only intersections and complements need a
// search, through derivatives until one matches the empty text: in the order of lengths
// at first, for the shorter the text the more maskByBucket can do with it, then depth first.
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

// minSearch is how many terms are looked at in the order of lengths.
const minSearch = 200

// found is a term that a search came by: the essence of where a byte led from the term before.
type found struct {
	essence
	before int
	left   byteSet // bytes not tried
}

// search looks at up to most terms, depth first where deep is set. known is false where
// they were not enough.
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
			book(all, n, e.length(0))
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
			f.t.alive.Store(dies)
		}
	}
	return false, true
}

// book notes of the terms on the way to one with a text of so many bytes how long their texts are.
func book(all []found, at, length int) {
	for ; at >= 0; at = all[at].before {
		length++
		all[at].t.alive.Store(int32(1 + min(length, longText)))
		length = all[at].length(length)
	}
}

// essence is what matters to whether a term has a text: t, without what is pure in a
// chain and without repeats. The term's texts are times texts of t, and more bytes.
type essence struct {
	t           *term
	times, more int
	known, yes  bool // yes is the answer already, and more the length of a text
}

// length is that of a text of the whole from that of one of t.
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
		case alive == dies:
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

// text is the length of a text of t, as far as that is known, else -1.
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
