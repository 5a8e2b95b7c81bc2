package grammar

import "slices"

// mask is the tokens that may follow in s, except those that end a text.
func (w *work) mask(s *set) *mask {
	k := cacheKey{s.h, false}
	if m := w.v.cache.get(k); m != nil {
		return m
	}
	m := w.compose(s)
	if w.err == nil {
		w.v.cache.put(k, m)
	}
	return m
}

// compose builds the mask of a set: for each term still to match, the tokens within it, and those that leave it for
// what follows. Threads with equal terms are walked together.
func (w *work) compose(s *set) *mask {
	threads := slices.Clone(s.threads)
	slices.SortStableFunc(threads, func(x, y thread) int { return hash.compare(x.sortKey(), y.sortKey()) })
	b := maskBuilder{w: w}
	for i := 0; i < len(threads) && w.err == nil; {
		from := i
		for t := threads[from].t; i < len(threads) && threads[i].t != nil && threads[i].t.h == t.h; i++ {
		}
		if i == from {
			b.words(threads[i].tok.words)
			i++
			continue
		}
		m := w.termMask(threads[from].t)
		if m.words != nil {
			b.words(m.words)
		}
		b.ids = append(b.ids, m.ids...)
		if len(m.exits) > 0 {
			kernel := make([]thread, 0, i-from)
			for _, th := range threads[from:i] {
				kernel = append(kernel, thread{rest: th.rest, f: th.f})
			}
			w.walkExits(&b, m.exits, w.set(kernel))
		}
	}
	return b.mask()
}

// sortKey groups threads with equal terms, and puts those that take tokens first.
func (h *thread) sortKey() hash {
	if h.t == nil {
		return hash{}
	}
	return h.t.h
}

// walkExits adds the tokens that leave a term at exits and continue in s.
func (w *work) walkExits(b *maskBuilder, exits []uint32, s *set) {
	if s.first.empty() {
		return
	}
	sc := w.v.getScratch()
	defer w.v.scratch.Put(sc)
	nodes, visited := w.v.all.nodes, int64(0)
	for _, exit := range exits {
		sc.sets[nodes[exit].depth] = s
		end := nodes[exit].end
		for i := exit + 1; i < end; visited++ {
			n := &nodes[i]
			next := w.step(sc.sets[n.depth-1], n.b)
			if next == dead {
				if i = n.end; w.err != nil {
					return
				}
				continue
			}
			if n.token != noToken {
				b.ids = append(b.ids, n.token)
				b.fresh = true
			}
			sc.sets[n.depth] = next
			i++
		}
	}
	w.spend(visited * priceNode)
}

// maskBuilder composes a mask.
type maskBuilder struct {
	w     *work
	base  []uint32 // words of the mask so far; read-only unless own
	own   bool
	ids   []uint32
	fresh bool // some ids lack their twins
}

func (b *maskBuilder) words(words []uint32) {
	switch {
	case b.base == nil:
		b.base = words
		return
	case &b.base[0] == &words[0]:
		return
	case !b.own:
		b.base, b.own = slices.Clone(b.base), true
	}
	for i, x := range words {
		b.base[i] |= x
	}
}

func (b *maskBuilder) mask() *mask {
	v := b.w.v
	if b.fresh && len(v.twins) > 0 {
		for _, id := range b.ids[:len(b.ids):len(b.ids)] {
			b.ids = append(b.ids, v.twinned[id]...)
		}
	}
	if len(b.ids) > v.words/2 {
		switch {
		case b.base == nil:
			b.base = make([]uint32, v.words)
		case !b.own:
			b.base = slices.Clone(b.base)
		}
		b.own = true
		for _, id := range b.ids {
			setBit(b.base, id)
		}
		b.ids = nil
	}
	none := len(b.ids) == 0 && !slices.ContainsFunc(b.base, func(x uint32) bool { return x != 0 })
	return &mask{words: b.base, owned: b.own, ids: slices.Clip(b.ids), none: none}
}
