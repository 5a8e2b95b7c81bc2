package grammar

import (
	"encoding/binary"
	"slices"
	"sync/atomic"
)

// op is the kind of a term.
type op uint8

const (
	opNothing op = iota // no text
	opEmpty             // the empty text
	opClass             // one byte of first
	opLit               // the text lit, of at least two bytes
	opCat               // kids[0], which is not an opCat, then kids[1]
	opAlt               // any of kids, at least two, none an opAlt, by hash
	opRep               // kids[0] lo to hi times; hi may be unbounded
	opSpans             // kids[0] as often as one of spans says, of which there are several
	opAnd               // all of kids
	opNot               // the complement of kids[0]
)

const unbounded = ^uint32(0)

// term is a regular expression over bytes, and at the same time a state of its automaton: the state is what is left to
// match. Terms are immutable and made by the constructors below, which normalise them (Brzozowski 1964; Owens, Reppy
// and Turon 2009), so that equivalent states are usually equal terms. Counts are part of a term, not unrolled.
type term struct {
	h        hash
	op       op
	nullable bool
	pure     bool   // contains no opAnd or opNot: it matches some text unless it is opNothing
	counts   uint32 // the largest finite bound of its repeats
	least    uint32 // the length of the shortest text, if pure; at most longText
	lo, hi   uint32
	spans    []span  // in order, not adjacent
	parts    uint32  // of an opCat, and of the opCats in its second kid
	first    byteSet // bytes that texts begin with; perhaps more if not pure
	split    uint16  // the classes whose bytes it distinguishes; perhaps more
	lit      string
	kids     []*term

	tab   atomic.Pointer[table[term]]
	alive atomic.Int32             // if not pure: whether it matches any text, see deadTerm
	near  atomic.Pointer[term]     // equal within the length of a token, see clamp
	cover atomic.Uint64            // its packed cover, 0: not known
	fits  atomic.Pointer[term]     // the c of a proven fits(t, c); opNothing: none
	loop  atomic.Pointer[asciiSet] // see loops
	slack atomic.Uint32            // of the terms explored for its cover, see recordLength
}

var (
	nothing = finish(&term{op: opNothing})
	empty   = finish(&term{op: opEmpty})
	anyByte = finish(&term{op: opClass, first: allBytes})
	anyText = finish(&term{op: opRep, kids: []*term{anyByte}, hi: unbounded})
)

// finish computes a term's derived fields from its operands.
func finish(t *term) *term {
	var room [512]byte
	b := append(room[:0], tagTerm, byte(t.op))
	b = binary.LittleEndian.AppendUint32(b, t.lo)
	b = binary.LittleEndian.AppendUint32(b, t.hi)
	t.pure = t.op != opAnd && t.op != opNot
	for _, k := range t.kids {
		b = k.h.append(b)
		t.pure = t.pure && k.pure
		t.counts = max(t.counts, k.counts)
	}
	switch t.op {
	case opEmpty:
		t.nullable = true
	case opClass:
		t.least, t.split = 1, splitBy(t.first)
		for _, w := range t.first {
			b = binary.LittleEndian.AppendUint64(b, w)
		}
	case opLit:
		b = append(b, t.lit...)
		t.least = uint32(min(len(t.lit), longText))
		t.first.add(t.lit[0])
		t.split = splitBy(t.first)
	case opCat:
		t.parts = t.kids[1].parts + 1
		t.first, t.nullable = t.kids[0].first, t.kids[0].nullable && t.kids[1].nullable
		t.least, t.split = min(t.kids[0].least+t.kids[1].least, longText), t.kids[0].split
		if t.kids[0].nullable {
			t.first, t.split = t.first.or(t.kids[1].first), t.split|t.kids[1].split
		}
	case opAlt:
		t.least = longText
		for _, k := range t.kids {
			t.least, t.split = min(t.least, k.least), t.split|k.split
			t.first, t.nullable = t.first.or(k.first), t.nullable || k.nullable
		}
	case opRep:
		t.first, t.nullable, t.split = t.kids[0].first, t.lo == 0, t.kids[0].split
		t.least = min(t.kids[0].least*min(t.lo, longText/max(t.kids[0].least, 1)+1), longText)
		t.counts = max(t.counts, t.lo)
		if t.hi != unbounded {
			t.counts = max(t.counts, t.hi)
		}
	case opSpans:
		least := t.spans[0].lo
		t.first, t.nullable, t.split = t.kids[0].first, least == 0, t.kids[0].split
		t.least = min(t.kids[0].least*min(least, longText/max(t.kids[0].least, 1)+1), longText)
		last := t.spans[len(t.spans)-1]
		if t.counts = max(t.counts, last.lo); last.hi != unbounded {
			t.counts = max(t.counts, last.hi)
		}
		b = appendSpans(b, t.spans)
	case opAnd:
		t.first, t.nullable = allBytes, true
		for _, k := range t.kids {
			t.first, t.nullable, t.split = t.first.and(k.first), t.nullable && k.nullable, t.split|k.split
		}
	case opNot:
		t.first, t.nullable, t.split = allBytes, !t.kids[0].nullable, t.kids[0].split
	}
	t.h = hashOf(b)
	return t
}

// intern returns the canonical term equal to t.
func (w *work) intern(t *term) *term {
	n := finish(t)
	if n.h == anyText.h {
		return anyText
	}
	w.spend(priceBuild)
	w.m.mu.Lock()
	defer w.m.mu.Unlock()
	if old := w.m.terms[n.h]; old != nil {
		return old
	}
	w.m.terms[n.h] = n
	w.m.grow(264 + len(n.lit) + 8*len(n.kids) + 8*len(n.spans))
	return n
}

func (w *work) class(s byteSet) *term {
	if s.empty() {
		return nothing
	}
	return w.intern(&term{op: opClass, first: s})
}

func (w *work) literal(s string) *term {
	switch len(s) {
	case 0:
		return empty
	case 1:
		return w.class(byteSetOf(s[0]))
	}
	return w.intern(&term{op: opLit, lit: s})
}

// maxParts is the longest chain that may be put before another: it is copied for that, and chains that each contain the
// previous one twice would grow exponentially.
const maxParts = 20_000

func (w *work) cat(a, b *term) *term {
	switch {
	case a.op == opNothing || b.op == opNothing:
		return nothing
	case a.op == opEmpty:
		return b
	case b.op == opEmpty:
		return a
	case a.op != opCat:
		return w.catOne(a, b)
	}
	if a.parts > maxParts {
		w.limit("parts of a regular expression in a row", maxParts, int(a.parts))
		return nothing
	}
	var heads []*term // of the chain a, so that chains are right-nested
	for ; a.op == opCat; a = a.kids[1] {
		heads = append(heads, a.kids[0])
	}
	b = w.catOne(a, b)
	for _, h := range slices.Backward(heads) {
		b = w.catOne(h, b)
	}
	return b
}

// catOne puts a, which is not an opCat, before b. It merges adjacent repeats of the same term: two counts of one thing
// can be split in many ways.
func (w *work) catOne(a, b *term) *term {
	if a.isCounted() {
		next := cut(b)
		if n := next.head; n.isCounted() && n.kids[0].h == a.kids[0].h {
			if sum, ok := addedSpans(a.counted(), n.counted()); ok {
				return w.cat(w.repeatSpans(a.kids[0], sum), next.rest)
			}
		}
	}
	return w.intern(&term{op: opCat, kids: []*term{a, b}})
}

func (w *work) repeat(x *term, lo, hi uint32) *term {
	if x.nullable {
		lo = 0
	}
	switch {
	case hi == 0 || x.op == opEmpty:
		return empty
	case x.op == opNothing:
		if lo == 0 {
			return empty
		}
		return nothing
	case lo == 1 && hi == 1:
		return x
	case x.op == opRep:
		if low, high, ok := nestedCounts(x.lo, x.hi, lo, hi); ok {
			return w.repeat(x.kids[0], low, high)
		}
	}
	return w.intern(&term{op: opRep, kids: []*term{x}, lo: lo, hi: hi})
}

// repeatSpans is x as often as one of s says, which it takes over.
func (w *work) repeatSpans(x *term, s []span) *term {
	s = joinSpans(s)
	if !w.spend(priceNode*int64(len(s))) || len(s) == 0 {
		return nothing
	}
	if last := s[len(s)-1]; x.nullable || len(s) == 1 {
		return w.repeat(x, s[0].lo, last.hi)
	}
	if x.op < opClass {
		return w.repeat(x, s[0].lo, s[0].hi)
	}
	return w.intern(&term{op: opSpans, kids: []*term{x}, spans: s})
}

func (w *work) complement(x *term) *term {
	switch {
	case x.op == opNot:
		return x.kids[0]
	case x == nothing:
		return anyText
	case x == anyText:
		return nothing
	}
	return w.intern(&term{op: opNot, kids: []*term{x}})
}

func (w *work) intersect(ks []*term) *term {
	var out, nots []*term
	class := allBytes
	classes, empties := false, false
	for _, k := range flatten(opAnd, ks) {
		switch {
		case k.op == opNothing:
			return nothing
		case k == anyText:
		case k.op == opEmpty:
			empties = true
		case k.op == opClass:
			class, classes = class.and(k.first), true
		case k.op == opNot:
			nots = append(nots, k.kids[0])
		default:
			out = append(out, k)
		}
	}
	if len(nots) > 0 {
		n := w.complement(w.alt(nots))
		if n.op == opNothing {
			return nothing
		}
		if n != anyText {
			out = append(out, n)
		}
	}
	if classes {
		if class.empty() {
			return nothing
		}
		out = append(out, w.class(class))
	}
	out = distinct(out)
	if empties {
		if classes || slices.ContainsFunc(out, func(k *term) bool { return !k.nullable }) {
			return nothing
		}
		return empty
	}
	if l := slices.IndexFunc(out, func(k *term) bool { return k.op == opLit }); l >= 0 {
		return w.only(out[l], out)
	}
	if contradicts(out) {
		return nothing
	}
	switch len(out) {
	case 0:
		return anyText
	case 1:
		return out[0]
	}
	return w.intern(&term{op: opAnd, kids: out})
}

// only is the literal l if all of ks match it, otherwise nothing.
func (w *work) only(l *term, ks []*term) *term {
	for _, k := range ks {
		if k == l {
			continue
		}
		for i := 0; i < len(l.lit); i++ {
			k = w.derive(k, l.lit[i])
		}
		if !k.nullable {
			return nothing
		}
	}
	return l
}

// contradicts reports whether an intersection contains both x and not x.
func contradicts(ks []*term) bool {
	for _, n := range ks {
		if n.op != opNot {
			continue
		}
		for _, x := range flatten(opAlt, n.kids) {
			if slices.ContainsFunc(ks, func(k *term) bool { return k.h == x.h }) {
				return true
			}
		}
	}
	return false
}

// flatten replaces operands of kind o by their own operands, which are of other kinds.
func flatten(o op, ks []*term) []*term {
	n := 0
	for _, k := range ks {
		if k.op == o {
			n += len(k.kids)
		} else {
			n++
		}
	}
	out := make([]*term, 0, n)
	for _, k := range ks {
		if k.op == o {
			out = append(out, k.kids...)
		} else {
			out = append(out, k)
		}
	}
	return out
}

// distinct sorts ks by hash and removes duplicates.
func distinct(ks []*term) []*term {
	slices.SortFunc(ks, func(x, y *term) int { return x.h.compare(y.h) })
	return slices.CompactFunc(ks, func(x, y *term) bool { return x.h == y.h })
}
