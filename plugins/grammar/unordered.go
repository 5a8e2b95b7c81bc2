package grammar

import (
	"encoding/binary"
	"fmt"

	"tgi/plugins/grammar/ir"
)

// unordered is a list of members that come in any order. The parser treats it like a rule, with a number after those of
// the rules: a frame holds its continuations, and a copy of that frame holds the set of members read so far. So the
// state does not depend on their order, and only states that texts reach are built, not one per order.
type unordered struct {
	h        hash
	rule     int32
	sep      *expr // the separator, possibly empty, then one more member
	next     *expr
	members  []*expr // each followed by its eSeen
	marks    []ir.Mark
	required int    // number of required members
	lo, hi   uint32 // bounds: distinct members at least, members in total at most
}

// membersRead is the members of a list that were read.
type membersRead struct {
	base  *frame // the frame of the list before the first member
	list  *unordered
	seen  []uint64 // members that were read, if that makes a difference
	left  int      // required ones not read yet
	kinds uint32   // number of distinct ones read, up to list.lo
	count uint32   // total number read, if list.hi bounds it
}

func (p *membersRead) has(i int) bool { return p.seen != nil && p.seen[i>>6]>>(i&63)&1 != 0 }

// unordered is the expression of a list, without the empty text.
func (c *compiler) unordered(x *ir.Expr, id hash) *expr {
	w := c.w
	l := &unordered{lo: x.Min, hi: x.Max, rule: int32(len(c.g.Rules) + len(w.m.lists))}
	l.h = hashOf(binary.LittleEndian.AppendUint32(id.append([]byte{tagList}), uint32(l.rule)))
	w.m.lists = append(w.m.lists, l)
	l.next = w.internExpr(expr{op: eNext, list: l})
	sep := c.full(x.Args[0])
	if sep == nil {
		w.fail(fmt.Errorf("%w: the separator of an unordered list has no text", ErrEmpty))
		return nil
	}
	l.sep = w.catExpr(sep, l.next)
	for i, a := range x.Args[1:] {
		if c.nullable[a] {
			w.fail(fmt.Errorf("%w: member %d of an unordered list may be the empty text", ErrEmpty, i))
			return nil
		}
		if c.solid[a] == nil {
			continue
		}
		seen := w.internExpr(expr{op: eSeen, list: l, rule: int32(len(l.members))})
		l.members = append(l.members, w.catExpr(c.solid[a], seen))
		l.marks = append(l.marks, x.Marks[i])
		if x.Marks[i]&ir.Required != 0 {
			l.required++
		}
	}
	if n := uint32(len(l.members)); n < l.lo {
		w.fail(fmt.Errorf("%w: an unordered list needs %d members, and %d have a text", ErrEmpty, l.lo, n))
		return nil
	}
	return w.internExpr(expr{op: eAny, list: l})
}

func (w *work) fail(err error) {
	if w.err == nil {
		w.err = err
	}
}

// members expands the members of a list that may come next.
func (c *closer) members(l *unordered, o origin) {
	p := &membersRead{list: l, left: l.required}
	if o.f != nil && o.f.membersRead != nil {
		p = o.f.membersRead
	}
	for i, m := range l.members {
		if p.admits(i) {
			c.add(m, o)
		}
	}
}

// admits reports whether member i may come next: there must be room for the members still required after it.
func (p *membersRead) admits(i int) bool {
	l, came := p.list, p.has(i)
	mark := l.marks[i]
	if came && mark&ir.Repeats == 0 {
		return false
	}
	if l.hi == unbounded {
		return true
	}
	left, kinds := p.left, p.kinds
	if !came {
		if kinds = min(kinds+1, l.lo); mark&ir.Required != 0 {
			left--
		}
	}
	return int64(p.count)+1+max(int64(left), int64(l.lo-kinds)) <= int64(l.hi)
}

// memberRead records that member i of a list was read: the list ends here or continues.
func (c *closer) memberRead(l *unordered, i int, o origin) {
	if o.f == nil {
		panic("BUG: a member of a list ended where it began")
	}
	f := c.w.frameAfter(o.f, l, i)
	p := f.membersRead
	if p.left == 0 && p.kinds >= l.lo {
		for _, wt := range f.waits {
			c.add(wt.rest, origin{f: wt.f})
		}
	}
	for i := range l.members {
		if p.admits(i) {
			c.add(l.sep, origin{f: f})
			return
		}
	}
}

// frameAfter returns the frame after member i of a list. It is hashed by its content.
func (w *work) frameAfter(f *frame, l *unordered, i int) *frame {
	next := membersRead{base: f, list: l, left: l.required, seen: make([]uint64, (len(l.members)+63)/64)}
	if p := f.membersRead; p != nil {
		next.base, next.left, next.kinds, next.count = p.base, p.left, p.kinds, p.count
		copy(next.seen, p.seen)
	}
	next.add(i)
	b := make([]byte, 0, 64+8*len(next.seen))
	b = l.h.append(next.base.h.append(append(b, tagPassed)))
	b = binary.LittleEndian.AppendUint32(binary.LittleEndian.AppendUint32(b, next.count), next.kinds)
	for _, s := range next.seen {
		b = binary.LittleEndian.AppendUint64(b, s)
	}
	h := hashOf(b)
	w.m.mu.Lock()
	defer w.m.mu.Unlock()
	if old := w.m.frames[h]; old != nil {
		return old
	}
	n := &frame{h: h, waits: next.base.waits, membersRead: &next}
	w.m.frames[h] = n
	w.m.grow(220 + 8*len(next.seen))
	return n
}

// add records that member i was read.
func (p *membersRead) add(i int) {
	l := p.list
	if l.hi != unbounded {
		p.count++
	}
	if !p.has(i) {
		p.seen[i>>6] |= 1 << (i & 63)
		p.kinds = min(p.kinds+1, l.lo)
		if l.marks[i]&ir.Required != 0 {
			p.left--
		}
	}
	if p.kinds < l.lo {
		return
	}
	// A repeatable member makes no difference after it was read, unless it was required.
	for i, mark := range l.marks {
		if mark == ir.Repeats {
			p.seen[i>>6] &^= 1 << (i & 63)
		}
	}
}
