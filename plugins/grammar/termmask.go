package grammar

import (
	"math"
	"slices"
)

// mask is a set of tokens: words, which other masks may share, and additional ids. The mask of a term holds the tokens
// that stay within it; exits are the nodes, in order, where tokens may leave it: a text of the term ends there, and
// some tokens below do not stay within the term. It depends on the term alone, so it is valid in every grammar and at
// every position where the term is left to match.
type mask struct {
	words []uint32 // nil: none
	owned bool     // words are not shared with a slice or another mask
	ids   []uint32
	exits []uint32 // in the trie of all tokens
	none  bool     // of a set: no token is in it
	slack uint32   // of a term: each impure term that tokens lead to has a text of at most so many bytes
}

func (m *mask) bytes() int64 {
	n := int64(200) + 4*int64(len(m.ids)+len(m.exits))
	if m.owned {
		n += 4 * int64(len(m.words))
	}
	return n
}

// opening is a node at which a text of the term ends, until its descendants were visited.
type opening struct {
	at     uint32
	inside int // tokens found so far
}

// termMask returns the mask of a term that is left to match.
func (w *work) termMask(t *term) *mask {
	t = w.clamp(t)
	k := cacheKey{t.h, true}
	if m := w.v.cache.get(k); m != nil {
		return m
	}
	before := w.slack
	w.slack = 0
	m := w.maskByBucket(t)
	if m == nil {
		m = w.walkTerm(t)
	}
	w.slack = before
	if w.err == nil {
		w.v.cache.put(k, m)
	}
	return m
}

// walkTerm computes the mask by a walk: over shapes, along the exclusions, or over the trie, without a slice that the
// term accepts as a whole.
func (w *work) walkTerm(t *term) *mask {
	sc := w.v.getScratch()
	defer w.v.scratch.Put(sc)
	if t.split == 0 {
		most := unlimited
		if !t.pure {
			most = len(w.v.all.nodes) / 8
		}
		m := &mask{}
		if w.walkShapes(m, sc, t, most) {
			return w.finish(m, sc)
		}
		sc.clear()
	}
	if m := w.differ(t); m != nil {
		return m
	}
	m, tr := &mask{}, w.v.all
	c := w.cover(t)
	for i := range w.v.slices {
		s := &w.v.slices[i]
		if c.takes(plain, s.chars) {
			m.words, tr = s.words, s.rest
			break
		}
	}
	w.walkBytes(m, tr, sc, t, c)
	return w.finish(m, sc)
}

// unlimited is no limit on the nodes of a walk.
const unlimited = math.MaxInt

// finish builds the mask from the result of a walk.
func (w *work) finish(m *mask, sc *scratch) *mask {
	slices.Sort(m.exits)
	w.pack(m, sc.ids)
	m.slack = w.slack
	return m
}

// walkBytes walks a whole trie byte by byte.
func (w *work) walkBytes(m *mask, tr *trie, sc *scratch, t *term, c cover) {
	sc.terms[0], sc.covers[0] = t, c
	for left := t.first; !left.empty() && w.err == nil; {
		b := left.lowest()
		left = left.minus(byteSetOf(b))
		if at := tr.heads[b]; at >= 0 {
			w.walkTermFrom(m, tr, sc, uint32(at))
		}
	}
	if tr.full != nil {
		for i, e := range m.exits {
			m.exits[i] = tr.full[e]
		}
	}
}

func (w *work) walkTermFrom(m *mask, tr *trie, sc *scratch, at uint32) {
	nodes, end := tr.nodes, tr.nodes[at].end
	visited := int64(0)
	for i := at; i < end; visited++ {
		n := &nodes[i]
		if c := sc.covers[n.depth-1]; c.of != 0 && c.takes(tr.adds[i].of, int(tr.adds[i].tall)) {
			sc.settle(m, tr, i)
			sc.ids = append(sc.ids, tr.order[tr.rank[i]:tr.rank[n.end]]...)
			i = n.end
			continue
		}
		t := sc.terms[n.depth-1]
		next := nothing
		if t.first.has(n.b) {
			if next = t.cachedNext(n.b); next == nil {
				next = w.computeNext(t, n.b)
			}
		}
		if next == nothing {
			if i = n.end; w.err != nil {
				return
			}
			continue
		}
		if len(sc.open) > 0 {
			sc.settle(m, tr, i)
		}
		if !next.pure && !next.nullable {
			w.recordLength(next)
		}
		if w.takesBelow(tr, i, t, next) {
			sc.ids = append(sc.ids, tr.order[tr.rank[i]:tr.rank[n.end]]...)
			i = n.end
			continue
		}
		if n.token != noToken {
			sc.ids = append(sc.ids, n.token)
		}
		if i++; i < n.end {
			sc.terms[n.depth], sc.covers[n.depth] = next, cover{}
			if n.end-i >= minCovered && tr.adds != nil {
				sc.covers[n.depth] = w.coverOnWay(next)
			}
			if next.nullable {
				sc.open = append(sc.open, opening{i - 1, len(sc.ids)})
			}
		}
	}
	sc.settle(m, tr, end)
	w.spend(visited * priceNode)
}

// minCovered is the number of nodes below which a cover is not worth its cost.
const minCovered = 8

// settle resolves openings whose descendants end before node i.
func (sc *scratch) settle(m *mask, tr *trie, i uint32) {
	for n := len(sc.open); n > 0; n = len(sc.open) {
		o := sc.open[n-1]
		end := tr.nodes[o.at].end
		if end > i {
			return
		}
		if below := tr.rank[end] - tr.rank[o.at+1]; int(below) > len(sc.ids)-o.inside {
			m.exits = append(m.exits, o.at)
		}
		sc.open = sc.open[:n-1]
	}
}

// getScratch returns buffers for a walk over any of the tries; put them back into p.scratch.
func (p *Vocab) getScratch() *scratch {
	sc := p.scratch.Get().(*scratch)
	sc.clear()
	if need := p.all.deep + 1; len(sc.terms) < need {
		sc.terms, sc.likes, sc.sets = make([]*term, need), make([]*term, need), make([]*set, need)
		sc.covers = make([]cover, need)
	}
	return sc
}

func (sc *scratch) clear() { sc.ids, sc.open, sc.wide = sc.ids[:0], sc.open[:0], sc.wide[:0] }

// pack adds the tokens ids to m: as ids, or in its own words if that is smaller.
func (w *work) pack(m *mask, ids []uint32) {
	if len(ids) <= w.v.words/2 {
		m.ids = slices.Clone(ids)
		if len(w.v.twins) > 0 {
			for _, id := range ids {
				m.ids = append(m.ids, w.v.twinned[id]...)
			}
		}
		return
	}
	words := make([]uint32, w.v.words)
	copy(words, m.words)
	for _, id := range ids {
		setBit(words, id)
	}
	w.v.addTwins(words)
	m.words, m.owned, m.ids = words, true, nil
}

// clamp removes counts that no token can reach: within the length of a token, x{3,90000} is x{3,}. So long counted
// strings share their mask from character to character. Whether an intersection matches a text may depend on its
// counts, so those stay.
func (w *work) clamp(t *term) *term {
	if t.counts <= w.m.longest || !t.pure {
		return t
	}
	if n := t.near.Load(); n != nil {
		return n
	}
	n := t
	switch t.op {
	case opCat:
		n = w.cat(w.clamp(t.kids[0]), w.clamp(t.kids[1]))
	case opAlt:
		ks := make([]*term, len(t.kids))
		for i, k := range t.kids {
			ks[i] = w.clamp(k)
		}
		n = w.alt(ks)
	case opRep, opSpans:
		near := slices.Clone(t.counted())
		for i := range near {
			s := &near[i]
			if s.lo = min(s.lo, w.m.longest+1); s.hi > w.m.longest {
				s.hi = unbounded
			}
		}
		n = w.repeatSpans(w.clamp(t.kids[0]), near)
	}
	if w.err == nil {
		t.near.Store(n)
	}
	return n
}
