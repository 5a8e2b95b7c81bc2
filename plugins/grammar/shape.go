package grammar

import "math/bits"

// A shape is a text with each byte replaced by its class: all numbers of three digits are one shape, and so are all
// words of five lower-case letters. A vocabulary has a tenth as many shapes as token prefixes, so if a term treats the
// bytes of each class alike, the walk is over shapes instead.

// classes are sets of bytes that most terms treat alike: letters, digits and the parts
// of UTF-8. Any other byte is a class of its own.
// sample has a byte of each.
var classes, classOf, sample = func() (sets []byteSet, of [256]uint8, sample [256]byte) {
	for b := range 256 {
		of[b] = 255
	}
	add := func(bounds ...byte) {
		var s byteSet
		for i := 0; i < len(bounds); i += 2 {
			s.addRange(bounds[i], bounds[i+1])
		}
		for b := range 256 {
			if s.has(byte(b)) {
				of[b] = uint8(len(sets))
			}
		}
		sample[len(sets)] = bounds[0]
		sets = append(sets, s)
	}
	add('a', 'z')
	add('A', 'Z')
	add('0', '9')
	add(0, '\t'-1, '\n'+1, '\r'-1, '\r'+1, 0x1F)
	add(0x80, 0x8F)
	add(0x90, 0x9F)
	add(0xA0, 0xBF)
	add(0xC3, 0xDF) // without the lead bytes of spaces and line ends, which patterns exclude
	add(0xE4, 0xEC)
	add(0xF1, 0xF3)
	add(0xC0, 0xC1, 0xF5, 0xFF)
	for b := range 256 {
		if of[b] == 255 {
			add(byte(b), byte(b))
		}
	}
	return sets, of, sample
}()

// shared is how many classes have several bytes; they come first.
const shared = 11

// splitBy is the shared classes of which a set has some bytes but not all.
func splitBy(s byteSet) (split uint16) {
	for i, c := range classes[:shared] {
		if in := s.and(c); !in.empty() && in != c {
			split |= 1 << i
		}
	}
	return split
}

// shapes is the trie of the shapes of tokens, flat and depth first like a trie.
type shapes struct {
	nodes []shape  // and one after the last
	order []uint32 // the tokens in the order of their shapes
	at    []uint32 // the nodes of the trie of all tokens in the order of their shapes
}

type shape struct {
	end    uint32
	tokens uint32 // index into order: its own, then those below
	at     uint32 // index into at: its own, up to the next shape's
	depth  uint16
	class  uint8
}

// newShapes computes the shapes of a trie.
func newShapes(t *trie) *shapes {
	s := &shapes{}
	var top []uint32
	for i := uint32(0); i < uint32(len(t.nodes)); i = t.nodes[i].end {
		top = append(top, i)
	}
	s.add(t, top, 1)
	s.nodes = append(s.nodes, shape{tokens: uint32(len(s.order)), at: uint32(len(s.at))})
	return s
}

// add appends the shapes of nodes, whose parents have the same shape, and of their descendants.
func (s *shapes) add(t *trie, nodes []uint32, depth uint16) {
	var counts [256]int
	var present [4]uint64
	for _, i := range nodes {
		c := classOf[t.nodes[i].b]
		counts[c]++
		present[c>>6] |= 1 << (c & 63)
	}
	sorted, from := make([]uint32, len(nodes)), 0
	var place [256]int
	for c := range len(classes) {
		place[c] = from
		from += counts[c]
	}
	for _, i := range nodes {
		c := classOf[t.nodes[i].b]
		sorted[place[c]] = i
		place[c]++
	}
	for w := range present {
		for left := present[w]; left != 0; left &= left - 1 {
			c := w<<6 + bits.TrailingZeros64(left)
			s.addOne(t, sorted[place[c]-counts[c]:place[c]], depth, uint8(c))
		}
	}
}

func (s *shapes) addOne(t *trie, nodes []uint32, depth uint16, class uint8) {
	at := len(s.nodes)
	s.nodes = append(s.nodes, shape{tokens: uint32(len(s.order)), at: uint32(len(s.at)), depth: depth, class: class})
	s.at = append(s.at, nodes...)
	var below []uint32
	for _, i := range nodes {
		n := t.nodes[i]
		if n.token != noToken {
			s.order = append(s.order, n.token)
		}
		for c := i + 1; c < n.end; c = t.nodes[c].end {
			below = append(below, c)
		}
	}
	if len(below) > 0 {
		s.add(t, below, depth+1)
	}
	s.nodes[at].end = uint32(len(s.nodes))
}

// bytes is the size of the shapes.
func (s *shapes) bytes() int64 { return int64(len(s.nodes))*16 + int64(len(s.order)+len(s.at))*4 }

// walkShapes finds the tokens that stay within t and the nodes where tokens may leave it. If a state distinguishes
// bytes of a class, the walk continues byte by byte; it returns false if that concerns more than most nodes.
func (w *work) walkShapes(m *mask, sc *scratch, t *term, most int) bool {
	sh, all := w.v.shapes, w.v.all
	nodes := sh.nodes
	end, visited := uint32(len(nodes)-1), int64(0)
	sc.terms[0] = t
	for i := uint32(0); i < end; visited++ {
		n := &nodes[i]
		t := sc.terms[n.depth-1]
		if n.class < shared && t.split>>n.class&1 != 0 {
			sc.covers[n.depth-1] = cover{}
			for _, at := range sh.at[n.at:nodes[i+1].at] {
				if t.first.has(all.nodes[at].b) {
					if most -= int(all.nodes[at].end - at); most < 0 {
						return false
					}
					w.walkTermFrom(m, all, sc, at)
				}
			}
			if i = n.end; w.err != nil {
				return true
			}
			continue
		}
		next, b := nothing, sample[n.class]
		if t.first.has(b) {
			if next = t.cachedNext(b); next == nil {
				next = w.computeNext(t, b)
			}
		}
		if next == nothing {
			if i = n.end; w.err != nil {
				return true
			}
			continue
		}
		if len(sc.wide) > 0 {
			sc.settleShapes(m, w.v, i)
		}
		own := &nodes[i+1]
		sc.ids = append(sc.ids, sh.order[n.tokens:own.tokens]...)
		if !next.pure && !next.nullable {
			w.recordLength(next)
		}
		if i++; i < n.end {
			sc.terms[n.depth] = next
			if next.nullable {
				sc.wide = append(sc.wide, opening{i - 1, len(sc.ids)})
			}
		}
	}
	sc.settleShapes(m, w.v, end)
	w.spend(visited * priceNode)
	return true
}

// settleShapes resolves openings whose shapes end before shape i.
func (sc *scratch) settleShapes(m *mask, v *Vocab, i uint32) {
	sh := v.shapes
	for n := len(sc.wide); n > 0; n = len(sc.wide) {
		o := sc.wide[n-1]
		s, next := &sh.nodes[o.at], &sh.nodes[o.at+1]
		if s.end > i {
			return
		}
		if below := sh.nodes[s.end].tokens - next.tokens; int(below) > len(sc.ids)-o.inside {
			for _, at := range sh.at[s.at:next.at] {
				if v.all.nodes[at].end > at+1 {
					m.exits = append(m.exits, at)
				}
			}
		}
		sc.wide = sc.wide[:n-1]
	}
}
