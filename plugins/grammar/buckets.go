package grammar

import "slices"

// lengthBuckets are the lengths in bytes that divide tokens into buckets. Few tokens are longer
// than the first one, and next to none longer than the last.
var lengthBuckets = [...]int{12, 16, 20, 24, 32, 48, 64, 80, 96, 112}

// lengthBucket holds the tokens longer than a given number of bytes.
type lengthBucket struct {
	over  int
	short []uint32 // all other tokens that are matched by their bytes
	trie  *trie
}

// buildBuckets divides the vocabulary by length; the last bucket has no token.
func (p *Vocab) buildBuckets(tokens []tokenText) {
	for _, n := range append(slices.Clone(lengthBuckets[:]), p.all.deep) {
		if n > p.all.deep || len(p.buckets) > 0 && p.buckets[len(p.buckets)-1].over == n {
			continue
		}
		l := lengthBucket{over: n, short: slices.Clone(p.normal)}
		var rest []tokenText
		for _, t := range tokens {
			if len(t.text) > n {
				rest = append(rest, t)
				l.short[t.id>>5] &^= 1 << (t.id & 31)
				for _, id := range p.twinned[t.id] {
					l.short[id>>5] &^= 1 << (id & 31)
				}
			}
		}
		l.trie = newTrie(rest)
		l.trie.within(p.all)
		p.buckets = append(p.buckets, l)
	}
}

// maskByBucket derives the mask of a term with counts, such as a string of at most 200 characters, from the mask of the
// same term without its largest counts. The counts make no difference to short tokens, and long tokens are few. So
// strings of all maximum lengths share a mask, and one string keeps it from character to character. It returns nil if
// this does not apply.
//
// In a pure term x{0,n} and x* have the same prefixes of at most n bytes, because each x takes at least one byte. With
// intersections, each state of the loosened term that tokens reach must also have a text of at most slack bytes: a text
// that ends with it, of at most n bytes in total, then belongs to both terms.
func (w *work) maskByBucket(t *term) *mask {
	for i := len(w.v.buckets) - 1; i >= 0; i-- {
		l := &w.v.buckets[i]
		if int(t.counts) <= l.over {
			continue
		}
		k := loosening{w: w, over: uint32(l.over), lowest: unbounded}
		like := k.loosen(t, false)
		if w.err != nil {
			return nil
		}
		if like.h == t.h {
			continue
		}
		base := w.termMask(like)
		if w.err != nil {
			return nil
		}
		if !t.pure && k.lowest != unbounded && int(k.lowest) < l.over+int(base.slack) {
			continue
		}
		return w.addLongTokens(t, base, l)
	}
	return nil
}

// addLongTokens makes the mask of t from base, which is correct for all tokens that are not long.
func (w *work) addLongTokens(t *term, base *mask, l *lengthBucket) *mask {
	m := &mask{words: base.words, ids: base.ids, exits: base.exits, slack: base.slack}
	if len(l.trie.nodes) == 0 {
		return m
	}
	sc := w.v.getScratch()
	defer w.v.scratch.Put(sc)
	var rest mask
	w.walkBytes(&rest, l.trie, sc, t, cover{})
	m.slack = max(m.slack, w.slack)
	words := make([]uint32, w.v.words)
	copy(words, base.words)
	for _, id := range base.ids {
		setBit(words, id)
	}
	for i, s := range l.short {
		words[i] &= s
	}
	for _, id := range sc.ids {
		setBit(words, id)
		for _, twin := range w.v.twinned[id] {
			setBit(words, twin)
		}
	}
	if len(base.ids) > 0 || !slices.Equal(words, base.words) {
		m.words, m.owned, m.ids = words, true, nil
	}
	for _, e := range base.exits {
		if int(w.v.all.nodes[e].depth) <= l.over {
			rest.exits = append(rest.exits, e)
		}
	}
	slices.Sort(rest.exits)
	m.exits = slices.Compact(rest.exits)
	return m
}

// loosening removes bounds of repeats that are larger than 1.
type loosening struct {
	w      *work
	over   uint32
	lowest uint32 // the smallest upper bound removed; unbounded: none
	done   map[*term]*term
}

// loosen returns t without those bounds. It changes nothing in complements, and no lower bounds in intersections.
func (k *loosening) loosen(t *term, within bool) *term {
	if t.counts <= k.over || t.op == opNot {
		return t
	}
	if n := k.done[t]; n != nil {
		return n
	}
	w, n := k.w, t
	within = within || t.op == opAnd
	switch t.op {
	case opCat:
		n = w.cat(k.loosen(t.kids[0], within), k.loosen(t.kids[1], within))
	case opAlt, opAnd:
		ks := make([]*term, len(t.kids))
		for i, x := range t.kids {
			ks[i] = k.loosen(x, within)
		}
		if t.op == opAnd {
			n = w.intersect(ks)
		} else {
			n = w.alt(ks)
		}
	case opRep, opSpans:
		loose := slices.Clone(t.counted())
		for i := range loose {
			s := &loose[i]
			if s.hi != unbounded && s.hi > k.over {
				k.lowest, s.hi = min(k.lowest, s.hi), unbounded
			}
			if !within {
				s.lo = min(s.lo, k.over+1)
			}
		}
		n = w.repeatSpans(k.loosen(t.kids[0], within), loose)
	}
	if k.done == nil {
		k.done = map[*term]*term{}
	}
	k.done[t] = n
	return n
}
