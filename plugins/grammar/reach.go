package grammar

// endless is the reach of a term that takes any number of safe characters.
const endless = 1 << 30

// maxReach is how far a term is looked into; no slice asks for more.
const maxReach = 32

// category is a kind of characters in UTF-8: by their first byte, and then what
// each byte behind it may be.
type category struct {
	lead  byteSet
	tails []byteSet
}

var categories = func() []category {
	span := func(lo, hi byte) (s byteSet) {
		s.addRange(lo, hi)
		return s
	}
	c := span(0x80, 0xBF)
	return []category{
		{safeASCII, nil},
		{span(0xC2, 0xDF), []byteSet{c}},
		{span(0xE0, 0xE0), []byteSet{span(0xA0, 0xBF), c}},
		{span(0xE1, 0xEC).or(span(0xEE, 0xEF)), []byteSet{c, c}},
		{span(0xED, 0xED), []byteSet{span(0x80, 0x9F), c}},
		{span(0xF0, 0xF0), []byteSet{span(0x90, 0xBF), c, c}},
		{span(0xF1, 0xF3), []byteSet{c, c, c}},
		{span(0xF4, 0xF4), []byteSet{span(0x80, 0x8F), c, c}},
	}
}()

// reach is how many safe characters, of any kind and in any order, t certainly
// takes: up to maxReach, or endless. Then the slice of all tokens of so many
// characters need not be walked.
func (w *work) reach(t *term) int {
	if n := t.safe.Load(); n > 0 {
		return int(n) - 1
	}
	level, seen := []*term{t}, map[*term]bool{t: true}
	line := []*term{t} // the levels, while they are of one term
	n := 0
	for ; n < maxReach; n++ {
		next := w.characters(level)
		if next == nil {
			break
		}
		fresh := next[:0:0]
		for _, s := range next {
			if !seen[s] {
				seen[s] = true
				fresh = append(fresh, s)
			}
		}
		if len(fresh) == 0 {
			n = endless
			break
		}
		if len(fresh) > 8 {
			break // no string: a walk is quicker
		}
		if level = fresh; len(level) == 1 && len(line) == n+1 {
			line = append(line, level[0])
			if s := int(level[0].safe.Load()); s > 0 {
				n += s // one character, then s-1
				break
			}
		}
	}
	if w.err != nil {
		return 0
	}
	if n >= endless {
		n = endless
	} else if n >= maxReach { // further on it may be more than n less the way there
		line, n = line[:1], maxReach
	}
	for i, s := range line {
		if n == endless {
			s.safe.Store(endless + 1)
		} else {
			s.safe.Store(int32(max(n-i, 0)) + 1)
		}
	}
	return n
}

// characters is where the terms of a level are after any safe character; nil where
// one of them does not take one.
func (w *work) characters(level []*term) []*term {
	var out []*term
	for _, t := range level {
		for _, c := range categories {
			at := w.images([]*term{t}, c.lead)
			for _, tail := range c.tails {
				at = w.images(at, tail)
			}
			if at == nil {
				return nil
			}
			out = append(out, at...)
		}
	}
	return out
}

// images is where bytes of a set lead from any of ts; nil where one leads nowhere.
func (w *work) images(ts []*term, on byteSet) []*term {
	var out []*term
	for _, t := range ts {
		for left := on; !left.empty(); {
			b := left.lowest()
			left = left.minus(t.alike(b))
			n := w.next(t, b)
			if n == nothing {
				return nil
			}
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
