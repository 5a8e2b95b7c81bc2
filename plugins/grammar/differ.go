package grammar

// differ derives the mask of a term with exclusions, such as a property name other than the declared ones, from the
// mask of the same term without them. It walks the trie only where the two terms still differ, which is where an
// excluded text may still follow. It returns nil if nothing is excluded or a plain walk is faster.
func (w *work) differ(t *term) *mask {
	like := w.lenient(t)
	if like.h == t.h || w.err != nil {
		return nil
	}
	base := w.termMask(like)
	d := difference{w: w, sc: w.v.getScratch(), words: make([]uint32, w.v.words)}
	defer w.v.scratch.Put(d.sc)
	copy(d.words, base.words)
	for _, id := range base.ids {
		setBit(d.words, id)
	}
	d.sc.terms[0], d.sc.likes[0] = t, like
	if !d.walk() {
		return nil
	}
	m := &mask{words: base.words, ids: base.ids}
	if d.changed {
		m = &mask{words: d.words, owned: true}
	}
	m.exits = d.merge(base.exits)
	m.slack = max(base.slack, w.slack)
	return m
}

// lenient is t without its complements; t itself if it has none.
func (w *work) lenient(t *term) *term {
	if t.pure {
		return t
	}
	switch t.op {
	case opNot:
		return anyText
	case opCat:
		return w.cat(w.lenient(t.kids[0]), w.lenient(t.kids[1]))
	case opAlt, opAnd:
		ks := make([]*term, len(t.kids))
		for i, k := range t.kids {
			ks[i] = w.lenient(k)
		}
		if t.op == opAnd {
			return w.intersect(ks)
		}
		return w.alt(ks)
	}
	return t
}

// difference walks along two terms at once.
type difference struct {
	w       *work
	sc      *scratch
	words   []uint32
	changed bool // words differ from those of the lenient term
	fresh   []uint32
	gone    [][2]uint32 // ranges of nodes whose exits differ from the lenient term's
}

// walk visits the nodes where the terms differ; it returns false if there are too many.
func (d *difference) walk() bool {
	w, nodes := d.w, d.w.v.all.nodes
	end := uint32(len(nodes))
	visited := 0
	for i := uint32(0); i < end; visited++ {
		n := &nodes[i]
		t, like := w.next(d.sc.terms[n.depth-1], n.b), w.next(d.sc.likes[n.depth-1], n.b)
		switch {
		case w.err != nil || visited > len(nodes)/32:
			return false
		case t.h == like.h:
			i = n.end
			continue
		case t == nothing:
			for j := i; j < n.end; j++ {
				d.put(nodes[j].token, false)
			}
			d.gone = append(d.gone, [2]uint32{i, n.end})
			i = n.end
			continue
		}
		w.recordLength(t)
		d.put(n.token, true)
		if before, was := d.sc.terms[n.depth-1], d.sc.likes[n.depth-1]; was == like &&
			w.takesBelow(w.v.all, i, before, t) && w.takesBelow(w.v.all, i, was, like) {
			d.gone = append(d.gone, [2]uint32{i, i + 1})
			i = n.end
			continue
		}
		d.gone = append(d.gone, [2]uint32{i, i + 1})
		if t.nullable && i+1 < n.end {
			d.fresh = append(d.fresh, i)
		}
		d.sc.terms[n.depth], d.sc.likes[n.depth] = t, like
		i++
	}
	return w.spend(int64(visited) * 2 * priceNode)
}

func (d *difference) put(token uint32, in bool) {
	if token == noToken || hasBit(d.words, token) == in {
		return
	}
	d.changed = true
	d.words[token>>5] ^= 1 << (token & 31)
	for _, id := range d.w.v.twinned[token] {
		d.words[id>>5] ^= 1 << (id & 31)
	}
}

// merge returns the remaining exits and the new ones, in order.
func (d *difference) merge(exits []uint32) []uint32 {
	var out []uint32
	gone, fresh := d.gone, d.fresh
	for _, e := range exits {
		for len(fresh) > 0 && fresh[0] < e {
			out, fresh = append(out, fresh[0]), fresh[1:]
		}
		for len(gone) > 0 && gone[0][1] <= e {
			gone = gone[1:]
		}
		if len(gone) == 0 || e < gone[0][0] {
			out = append(out, e)
		}
	}
	return append(out, fresh...)
}
