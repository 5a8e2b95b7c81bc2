package grammar

import (
	"encoding/binary"
	"slices"
)

// eop is the kind of an expression.
type eop uint8

const (
	eEmpty  eop = iota // the empty text
	eTerm              // a text of t that is not empty
	eToken             // one token of tok
	eRule              // a text of the rule that is not empty
	eCat               // kids[0], then kids[1]
	eChoice            // any of kids
	eTimes             // kids[0], which never is the empty text, lo to hi times
	eAny               // members of list in any order, at least one
	eNext              // one more member of list, and those after it; see unordered
	eSeen              // matches nothing: member number rule of list was read
)

// expr is a context-free expression, and the rest of a rule's body. Compile normalises grammars so that only eEmpty,
// and eTimes from 0, match the empty text. So the closure never completes a rule where it began.
type expr struct {
	h       hash
	op      eop
	rule    int32
	lo, hi  uint32
	grammar hash // the grammar of the rule
	t       *term
	tok     *tokens
	list    *unordered
	kids    []*expr
}

var emptyExpr = finishExpr(&expr{op: eEmpty})

func finishExpr(e *expr) *expr {
	var room [256]byte
	b := append(room[:0], tagExpr, byte(e.op))
	b = binary.LittleEndian.AppendUint32(b, e.lo)
	b = binary.LittleEndian.AppendUint32(b, e.hi)
	if e.op == eRule {
		b = binary.LittleEndian.AppendUint32(b, uint32(e.rule))
		b = e.grammar.append(b)
	}
	if e.t != nil {
		b = e.t.h.append(b)
	}
	if e.tok != nil {
		b = e.tok.h.append(b)
	}
	if e.list != nil {
		b = e.list.h.append(b)
		b = binary.LittleEndian.AppendUint32(b, uint32(e.rule))
	}
	for _, k := range e.kids {
		b = k.h.append(b)
	}
	e.h = hashOf(b)
	return e
}

// internExpr returns the canonical expression equal to e.
func (w *work) internExpr(e expr) *expr {
	n := finishExpr(&e)
	w.m.mu.Lock()
	defer w.m.mu.Unlock()
	if old := w.m.exprs[n.h]; old != nil {
		return old
	}
	w.m.exprs[n.h] = n
	w.m.grow(160 + 8*len(n.kids))
	return n
}

func (w *work) catExpr(a, b *expr) *expr {
	switch {
	case a.op == eEmpty:
		return b
	case b.op == eEmpty:
		return a
	}
	return w.internExpr(expr{op: eCat, kids: []*expr{a, b}})
}

// timesExpr is x, which never matches the empty text, lo to hi times.
func (w *work) timesExpr(x *expr, lo, hi uint32) *expr {
	switch {
	case hi == 0:
		return emptyExpr
	case lo == 1 && hi == 1:
		return x
	case x.op == eTimes:
		if low, high, ok := nestedCounts(x.lo, x.hi, lo, hi); ok {
			return w.timesExpr(x.kids[0], low, high)
		}
	}
	return w.internExpr(expr{op: eTimes, kids: []*expr{x}, lo: lo, hi: hi})
}

// restAfterOne is what remains of x lo to hi times after the first x.
func (w *work) restAfterOne(e *expr) *expr {
	hi := e.hi
	if hi != unbounded {
		hi--
	}
	return w.timesExpr(e.kids[0], max(e.lo, 1)-1, hi)
}

// choiceExpr is any of ks. It merges terminals into one: fewer threads, one walk.
func (w *work) choiceExpr(ks []*expr) *expr {
	var terms []*term
	var out []*expr
	for _, k := range ks {
		members := []*expr{k}
		if k.op == eChoice {
			members = k.kids
		}
		for _, m := range members {
			if m.op == eTerm {
				terms = append(terms, m.t)
			} else {
				out = append(out, m)
			}
		}
	}
	if len(terms) > 0 {
		out = append(out, w.internExpr(expr{op: eTerm, t: w.union(terms)}))
	}
	slices.SortFunc(out, func(x, y *expr) int { return x.h.compare(y.h) })
	out = slices.CompactFunc(out, func(x, y *expr) bool { return x.h == y.h })
	if len(out) == 1 {
		return out[0]
	}
	return w.internExpr(expr{op: eChoice, kids: out})
}
