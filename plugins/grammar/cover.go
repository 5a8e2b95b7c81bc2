package grammar

import "unicode/utf8"

// endless is the reach of a cover without a limit on the number of characters.
const endless = 1 << 30

// maxReach is how many characters ahead a term is explored.
const maxReach = 40

// maxCoverSteps is how many terms one call explores. The effort pays off through shorter trie walks, but not for terms
// that lead to many others.
const maxCoverSteps = 150

// enough is the reach that is not worth improving: few tokens have more characters.
const enough = 20

// kinds is a set of kinds of characters that stand for themselves inside strings.
type kinds uint16

const (
	lower kinds = 1 << iota
	upper
	digits
	space
	marks    // other ASCII but the quote, the backslash and controls
	cyrillic // U+0400 to U+047F: leading bytes of which all characters are letters
	han      // U+5000 to U+8FFF
	hangul   // U+B000 to U+CFFF
	wide     // all other characters outside ASCII
	other    // none of these, or an incomplete character: never covered

	plain = lower | upper | digits | space | marks | cyrillic | han | hangul | wide
)

// kindOf is the kind of a character by its first byte.
func kindOf(b byte) kinds {
	switch {
	case b == 0xD0 || b == 0xD1:
		return cyrillic
	case 0xE5 <= b && b <= 0xE8:
		return han
	case b == 0xEB || b == 0xEC:
		return hangul
	case b >= utf8.RuneSelf:
		return wide
	case 'a' <= b && b <= 'z':
		return lower
	case 'A' <= b && b <= 'Z':
		return upper
	case '0' <= b && b <= '9':
		return digits
	case b == ' ':
		return space
	case safeASCII.has(b):
		return marks
	}
	return other
}

// category is the characters of one kind in UTF-8: their first byte, and the possible values of each byte after it.
type category struct {
	kind  kinds
	lead  byteSet
	tails []byteSet
}

var categories = func() []category {
	span := func(lo, hi byte) (s byteSet) {
		s.addRange(lo, hi)
		return s
	}
	var out []category
	for k := lower; k <= marks; k <<= 1 {
		var s byteSet
		for b := range byte(utf8.RuneSelf) {
			if kindOf(b) == k {
				s.add(b)
			}
		}
		out = append(out, category{k, s, nil})
	}
	c := span(0x80, 0xBF)
	return append(out,
		category{cyrillic, span(0xD0, 0xD1), []byteSet{c}},
		category{han, span(0xE5, 0xE8), []byteSet{c, c}},
		category{hangul, span(0xEB, 0xEC), []byteSet{c, c}},
		category{wide, span(0xC2, 0xCF).or(span(0xD2, 0xDF)), []byteSet{c}},
		category{wide, span(0xE0, 0xE0), []byteSet{span(0xA0, 0xBF), c}},
		category{wide, span(0xE1, 0xE4).or(span(0xE9, 0xEA)).or(span(0xEE, 0xEF)), []byteSet{c, c}},
		category{wide, span(0xED, 0xED), []byteSet{span(0x80, 0x9F), c}},
		category{wide, span(0xF0, 0xF0), []byteSet{span(0x90, 0xBF), c, c}},
		category{wide, span(0xF1, 0xF3), []byteSet{c, c, c}},
		category{wide, span(0xF4, 0xF4), []byteSet{span(0x80, 0x8F), c, c}},
	)
}()

// cover states that a term certainly accepts up to reach characters of these kinds, in any order. A walk can skip
// tokens that consist only of them.
type cover struct {
	of    kinds
	reach int
}

func (c cover) pack() uint64 { return 1<<63 | uint64(c.of)<<32 | uint64(c.reach) }

// passing marks a packed cover that was found while another term was explored: a better one may exist.
const passing = 1 << 62

func unpack(n uint64) cover { return cover{kinds(n >> 32), int(uint32(n))} }

// coverOnWay is a cover of a term that a walk passes through, perhaps not the best.
func (w *work) coverOnWay(t *term) cover {
	if n := t.cover.Load(); n != 0 {
		w.slack = max(w.slack, t.slack.Load())
		return unpack(n)
	}
	return w.cover(t)
}

// recordLength records the text length of a term that tokens lead to: see mask.slack.
func (w *work) recordLength(t *term) {
	if t.pure || t.nullable {
		return
	}
	n := t.alive.Load()
	if n <= 0 {
		n = 1 + longText
		if e := w.essence(t); e.known && e.yes {
			n = int32(1 + e.more)
			t.alive.Store(n)
		}
	}
	w.slack = max(w.slack, uint32(n-1))
}

// keepCover stores a cover of t, with the slack of the terms explored for it.
func (w *work) keepCover(t *term, old, packed uint64) {
	for {
		was := t.slack.Load()
		if was >= w.slack || t.slack.CompareAndSwap(was, w.slack) {
			break
		}
	}
	t.cover.CompareAndSwap(old, packed)
}

// takes reports whether the cover includes strings of these kinds and this length.
func (c cover) takes(k kinds, chars int) bool { return k&^c.of == 0 && chars <= c.reach }

// cover explores t. It drops a kind that t stops accepting at some point, if other kinds continue from there.
func (w *work) cover(t *term) cover {
	known := t.cover.Load()
	if known != 0 && known&passing == 0 {
		w.slack = max(w.slack, t.slack.Load())
		return unpack(known)
	}
	if w.steps > maxCoverSteps {
		return cover{}
	}
	if part := w.dropSingleByteKids(t); part != t {
		c := w.cover(part)
		if n := part.cover.Load(); w.err == nil && n != 0 {
			w.keepCover(t, known, n)
		}
		return c
	}
	of, _ := w.after([]*term{t}, plain)
	if c := unpack(known); c.of == of && c.reach >= enough {
		w.slack = max(w.slack, t.slack.Load())
		return c // found while exploring another term, and as good as its own
	}
	c := cover{}
	for of != 0 && w.err == nil {
		way, reach, keep := w.advance(t, of)
		if keep != 0 {
			of = keep
			continue
		}
		for _, s := range way {
			left := cover{of, endless}
			if reach != endless {
				left.reach = reach - s.level
			}
			if left.reach > 0 {
				w.keepCover(s.t, 0, left.pack()|passing)
			}
		}
		c = cover{of, reach}
		break
	}
	if w.err == nil && w.steps <= maxCoverSteps {
		w.keepCover(t, known, c.pack())
	}
	return c
}

// visit is a term reached after some number of characters.
type visit struct {
	t     *term
	level int
}

// dropSingleByteKids removes alternatives that begin with one fixed byte, if there are others. t accepts whatever the
// others accept, and there are fewer terms to explore.
func (w *work) dropSingleByteKids(t *term) *term {
	if t.op != opAlt {
		return t
	}
	var keep []*term
	for _, k := range t.kids {
		if k.first.count() > 1 {
			keep = append(keep, k)
		}
	}
	if len(keep) == 0 || len(keep) == len(t.kids) {
		return t
	}
	return w.alt(keep)
}

// advance explores t by characters of some kinds. It returns the terms reached and how far all kinds are accepted;
// keep, if not 0, is the kinds that are accepted further.
func (w *work) advance(t *term, of kinds) (way []visit, reach int, keep kinds) {
	level, seen := []*term{t}, map[hash]bool{t.h: true}
	for ; reach < maxReach; reach++ {
		taken, next := w.after(level, of)
		if taken != of {
			return way, reach, taken
		}
		level = level[:0:0]
		for _, s := range next {
			if !seen[s.h] {
				seen[s.h] = true
				level = append(level, s)
				way = append(way, visit{s, reach + 1})
			}
		}
		if len(level) == 0 {
			return way, endless, 0
		}
		if len(level) > 4 || w.steps > maxCoverSteps {
			return way, reach + 1, 0
		}
		if len(level) != 1 {
			continue
		}
		if n := level[0].cover.Load(); n != 0 && unpack(n).of == of {
			w.slack = max(w.slack, level[0].slack.Load())
			if more := unpack(n).reach; more == endless && n&passing == 0 {
				return way, endless, 0
			} else if more+reach+1 >= maxReach {
				return way, maxReach, 0
			}
		}
	}
	return way, reach, 0
}

// after returns the terms that characters of some kinds lead to, and the kinds that all terms of level accept. The
// result is complete only if those are all kinds asked for.
func (w *work) after(level []*term, of kinds) (taken kinds, out []*term) {
	taken = of
	w.steps += len(level)
	for _, t := range level {
		for i := range categories {
			c := &categories[i]
			if c.kind&taken == 0 {
				continue
			}
			at := w.images([]*term{t}, c.lead)
			for _, tail := range c.tails {
				at = w.images(at, tail)
			}
			if at == nil {
				taken &^= c.kind
			}
			out = append(out, at...)
		}
	}
	return taken, out
}

// images returns the terms that bytes of a set lead to from any of ts; nil if one of them leads nowhere.
func (w *work) images(ts []*term, on byteSet) []*term {
	var out []*term
	for _, t := range ts {
		if on.minus(t.first) != (byteSet{}) {
			return nil
		}
		for left := on; !left.empty(); {
			b := left.lowest()
			left = left.minus(w.equivalent(t, b))
			n := w.next(t, b)
			if n == nothing {
				return nil
			}
			w.recordLength(n)
			n = w.dropSingleByteKids(n)
			dup := false
			for _, o := range out {
				dup = dup || o == n
			}
			if !dup {
				out = append(out, n)
			}
		}
	}
	return out
}

// extent is what a trie node and its descendants add to their parent: kinds of characters and their number.
type extent struct {
	of   kinds
	tall uint8
}

// survey computes the extents from the leaves to the root: children come after their parents in the array.
func (t *trie) survey() {
	t.adds = make([]extent, len(t.nodes))
	below := make([]extent, len(t.nodes))
	parents, shape, last := t.shapes()
	for i := len(t.nodes) - 1; i >= 0; i-- {
		n, e := t.nodes[i], below[i]
		switch {
		case shape[i] == broken || shape[i] == within && n.token != noToken:
			e = extent{of: other}
		case shape[i] == whole:
			e = extent{e.of | last[i], uint8(min(int(e.tall)+1, 255))}
		}
		p := parents[i]
		if p >= 0 {
			below[p] = extent{below[p].of | e.of, max(below[p].tall, e.tall)}
		}
		if p >= 0 && shape[p] != whole || e.tall == 255 { // 255 or more
			e.of |= other
		}
		t.adds[i] = e
	}
}

// What the bytes on the path to a node are.
const (
	whole  = iota // whole characters
	within        // the last one is not complete
	broken        // not UTF-8
)

// shapes returns the parents of nodes, what the bytes on the path to them are, and for whole characters the kind of the
// last one.
func (t *trie) shapes() (parents []int32, shape []uint8, last []kinds) {
	parents, shape, last = make([]int32, len(t.nodes)), make([]uint8, len(t.nodes)), make([]kinds, len(t.nodes))
	path, way := make([]byte, t.deep), make([]int32, t.deep+1)
	way[0] = -1
	for i, n := range t.nodes {
		path[n.depth-1] = n.b
		way[n.depth] = int32(i)
		parents[i] = way[n.depth-1]
		text := path[:n.depth]
		switch m := complete(text); {
		case !utf8.Valid(text[:m]):
			shape[i] = broken
		case m < len(text):
			shape[i] = within
		default:
			_, size := utf8.DecodeLastRune(text)
			last[i] = kindOf(text[len(text)-size])
		}
	}
	return parents, shape, last
}
