package grammar

const (
	aliveYes = 1
	aliveNo  = 2
)

// lives reports whether t has a text. Only intersections and complements need a
// search: depth first through derivatives until one matches the empty text.
func (w *work) lives(t *term) bool {
	t, known, yes := w.essence(t)
	if known {
		return yes
	}
	type level struct {
		t    *term
		left byteSet // bytes not tried
	}
	path := []level{{t, t.first}}
	seen := map[hash]*term{t.h: t}
	for len(path) > 0 && w.err == nil {
		top := &path[len(path)-1]
		if top.left.empty() {
			path = path[:len(path)-1]
			continue
		}
		b := top.left.lowest()
		top.left = top.left.minus(top.t.alike(b))
		d, known, yes := w.essence(w.derive(top.t, b))
		if known && yes {
			for _, l := range path {
				l.t.alive.Store(aliveYes)
			}
			return true
		}
		if known || seen[d.h] != nil {
			continue
		}
		seen[d.h] = d
		if len(seen) > w.m.limits.Search {
			w.limit("states searched for a text of an intersection or complement", w.m.limits.Search, len(seen))
			return false
		}
		path = append(path, level{d, d.first})
	}
	if w.err == nil {
		for _, d := range seen {
			d.alive.Store(aliveNo)
		}
	}
	return false
}

// essence takes away what does not matter to whether t has a text: what is pure in
// a chain, and repeats. known says that yes is the answer already.
func (w *work) essence(t *term) (_ *term, known, yes bool) {
	for {
		switch {
		case t.pure:
			return t, true, t.op != opNothing
		case t.nullable || t.alive.Load() == aliveYes:
			return t, true, true
		case t.alive.Load() == aliveNo:
			return t, true, false
		case t.op == opCat && t.kids[0].pure:
			t = t.kids[1]
		case t.op == opCat && t.kids[1].pure:
			t = t.kids[0]
		case t.op == opRep:
			t = t.kids[0]
		case t.op == opAlt:
			for _, k := range t.kids {
				if k.pure || k.nullable || k.alive.Load() == aliveYes {
					return t, true, true
				}
			}
			return t, false, false
		default:
			return t, false, false
		}
	}
}
