package grammar

import "unicode/utf8"

// endless is the reach of a cover of any number of characters.
const endless = 1 << 30

// maxReach is how far a term is looked into.
const maxReach = 40

// maxCoverSteps is how many terms are looked into in one call. It is the price of walks
// that are shorter for it; terms that lead to many others are not worth more.
const maxCoverSteps = 150

// enough is the reach that is not worth a second look: few tokens have more characters.
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
	wide     // what else is not ASCII
	other    // none of these, or no whole character: never covered

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

// category is characters of one kind in UTF-8: by their first byte, and then what
// each byte behind it may be.
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

// cover says that a term takes, for certain, up to reach characters of these kinds,
// in any order: a walk need not look at tokens of nothing else.
type cover struct {
	of    kinds
	reach int
}

func (c cover) pack() uint64 { return 1<<63 | uint64(c.of)<<32 | uint64(c.reach) }

// passing marks a packed cover that was found on the way to that of another term:
// there may be a better one.
const passing = 1 << 62

func unpack(n uint64) cover { return cover{kinds(n >> 32), int(uint32(n))} }

// coverOnWay is a cover of a term that a walk comes through, perhaps not the best.
func (w *work) coverOnWay(t *term) cover {
	if n := t.cover.Load(); n != 0 {
		w.slack = max(w.slack, t.slack.Load())
		return unpack(n)
	}
	return w.cover(t)
}

// note books, of a term that tokens lead to, how long its texts are: see mask.slack.
func (w *work) note(t *term) {
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

// keepCover remembers a cover of t, found when the terms on its way had so much slack.
func (w *work) keepCover(t *term, old, packed uint64) {
	for {
		was := t.slack.Load()
		if was >= w.slack || t.slack.CompareAndSwap(was, w.slack) {
			break
		}
	}
	t.cover.CompareAndSwap(old, packed)
}

// takes reports whether what is covered includes strings of these kinds, so long.
func (c cover) takes(k kinds, chars int) bool { return k&^c.of == 0 && chars <= c.reach }

// cover looks into t. A kind that t does not take from some place on is given up, if
// others go on from there.
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
		return c // from the way to another's, and as good as its own
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

// visit is a term that was come by, so many characters on.
type visit struct {
	t     *term
	level int
}

// dropSingleByteKids leaves out alternatives that begin with one certain byte, if there are others:
// what these take t takes too, and there are fewer terms to look at.
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

// advance goes from t by characters of some kinds: how far all are taken, and by which
// terms. keep, where it is not 0, is the kinds that are taken further.
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

// after is where any character of some kinds leads from terms, and which kinds all of
// the terms take; only where these are all it is complete.
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

// images is where bytes of a set lead from any of ts; nil where one leads nowhere.
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
			w.note(n)
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

// extent is what a node of a trie and those below it add to their parent: the kinds of
// characters and how many.
type extent struct {
	of   kinds
	tall uint8
}

// survey fills in the extents. Characters are read off the ends of tokens towards the
// root: children come behind their parents.
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

// What the bytes down to a node are.
const (
	whole  = iota // whole characters
	within        // the last one is not complete
	broken        // no UTF-8
)

// shapes gives the parents of nodes, what the bytes down to them are, and of whole
// characters the kind of the last.
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
