package grammar

// asciiSet is a set of ASCII characters. Its first member stands for NUL and everything outside ASCII.
type asciiSet [2]uint64

func (s *asciiSet) add(b byte) {
	if b < 0x80 {
		s[b>>6] |= 1 << (b & 63)
	} else {
		s[0] |= 1
	}
}

func (s asciiSet) within(o *asciiSet) bool { return s[0]&^o[0]|s[1]&^o[1] == 0 }

// minLooped is the number of nodes below which takesBelow is not worth its cost.
const minLooped = 1

// loops is the characters that lead from t to t; never its first member. A term that searches for something, such as
// names that a pattern does not match, loops on all other characters: if the nodes below a node have only such bytes,
// all tokens there stay within the term.
func (w *work) loops(t *term) *asciiSet {
	if s := t.loop.Load(); s != nil {
		return s
	}
	s := &asciiSet{}
	for left := t.first; !left.empty() && w.err == nil; {
		b := left.lowest()
		if b >= 0x80 {
			break
		}
		alike := w.equivalent(t, b)
		if w.next(t, b) == t {
			s[0], s[1] = s[0]|left[0]&alike[0], s[1]|left[1]&alike[1]
		}
		left = left.minus(alike)
	}
	s[0] &^= 1
	if w.err == nil {
		t.loop.Store(s)
	}
	return s
}

// takesBelow reports whether t, which byte n.b led to from before, accepts everything below node i.
func (w *work) takesBelow(tr *trie, i uint32, before, t *term) bool {
	return before == t && tr.below != nil && tr.nodes[i].end-i > minLooped && tr.below[i].within(w.loops(t))
}

// surveyBytes computes below.
func (t *trie) surveyBytes() {
	t.below = make([]asciiSet, len(t.nodes))
	way := make([]int, t.deep+1)
	for i, n := range t.nodes {
		way[n.depth] = i
		for d := n.depth - 1; d > 0; d-- {
			s := &t.below[way[d]]
			had := *s
			if s.add(n.b); *s == had {
				break // and so do its ancestors
			}
		}
	}
}
