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
	eTimes             // kids[0], which never is the empty text, as often as one of spans says
	eAny               // members of list in any order, at least one
	eNext              // one more member of list, and those after it; see unordered
	eSeen              // matches nothing: member number rule of list was read
)

// expr is a context-free expression, and the rest of a rule's body. Compile normalises grammars so that only eEmpty,
// and eTimes from 0, match the empty text. So the closure never completes a rule where it began. What follows a thread
// or a rule may also be a choice of one of these, see joinExprs.
type expr struct {
	h       hash
	op      eop
	rule    int32
	spans   []span
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
	b = appendSpans(b, e.spans)
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
	w.m.grow(176 + 8*(len(n.kids)+len(n.spans)))
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
func (w *work) timesExpr(x *expr, lo, hi uint32) *expr { return w.spansExpr(x, []span{{lo, hi}}) }

// spansExpr is x, which never matches the empty text, as often as one of s says, which it takes over.
func (w *work) spansExpr(x *expr, s []span) *expr {
	if s = joinSpans(s); len(s) == 1 {
		lo, hi := s[0].lo, s[0].hi
		switch {
		case hi == 0:
			return emptyExpr
		case lo == 1 && hi == 1:
			return x
		case x.op == eTimes && len(x.spans) == 1:
			if low, high, ok := nestedCounts(x.spans[0].lo, x.spans[0].hi, lo, hi); ok {
				return w.timesExpr(x.kids[0], low, high)
			}
		}
	}
	w.spend(priceNode * int64(len(s)))
	return w.internExpr(expr{op: eTimes, kids: []*expr{x}, spans: s})
}

// restAfterOne is what remains of a repeat after the first repetition.
func (w *work) restAfterOne(e *expr) *expr { return w.spansExpr(e.kids[0], afterOne(e.spans)) }

// headedExpr is an expression split into its head and its rest, as headed is for terms.
type headedExpr struct{ head, rest *expr }

func (w *work) cutExpr(e *expr) headedExpr {
	rest := emptyExpr
	for e.op == eCat {
		e, rest = e.kids[0], w.catExpr(e.kids[1], rest)
	}
	return headedExpr{e, rest}
}

// joinExprs is any of es, which all follow the same. It merges those that differ in one place alone, as join does for
// terms: otherwise each number of repetitions that are left would be a parse of its own. depth is how many heads were
// joined before, see maxJoined.
func (w *work) joinExprs(es []*expr, depth int) *expr {
	if len(es) == 1 {
		return es[0]
	}
	var hs []headedExpr
	out := []*expr{}
	for len(es) > 0 && w.spend(priceBuild) {
		e := es[len(es)-1]
		if es = es[:len(es)-1]; e.op == eChoice {
			es = append(es, e.kids...)
			continue
		}
		hs = append(hs, w.cutExpr(e))
	}
	hs = w.joinCounts(hs)
	slices.SortFunc(hs, func(x, y headedExpr) int { return x.head.h.compare(y.head.h) })
	for i := 0; i < len(hs); {
		head := hs[i].head
		var rests []*expr
		for ; i < len(hs) && hs[i].head.h == head.h; i++ {
			// A rule with nothing behind it shares the frame of its caller, see closer.
			if hs[i].rest.op == eEmpty || depth >= maxJoined {
				out = append(out, w.catExpr(head, hs[i].rest))
			} else {
				rests = append(rests, hs[i].rest)
			}
		}
		if len(rests) > 0 {
			out = append(out, w.catExpr(head, w.joinExprs(rests, depth+1)))
		}
	}
	slices.SortFunc(out, func(x, y *expr) int { return x.h.compare(y.h) })
	out = slices.CompactFunc(out, func(x, y *expr) bool { return x.h == y.h })
	if len(out) == 1 {
		return out[0]
	}
	return w.internExpr(expr{op: eChoice, kids: out})
}

// joinCounts merges repeats of the same before the same rest.
func (w *work) joinCounts(hs []headedExpr) (out []headedExpr) {
	var repeats []headedExpr
	for _, h := range hs {
		if h.head.op == eTimes {
			repeats = append(repeats, h)
		} else {
			out = append(out, h)
		}
	}
	slices.SortFunc(repeats, func(x, y headedExpr) int {
		if d := x.rest.h.compare(y.rest.h); d != 0 {
			return d
		}
		return x.head.kids[0].h.compare(y.head.kids[0].h)
	})
	for i := 0; i < len(repeats); {
		r := repeats[i]
		var all []span
		for ; i < len(repeats) && repeats[i].rest.h == r.rest.h &&
			repeats[i].head.kids[0].h == r.head.kids[0].h; i++ {
			all = append(all, repeats[i].head.spans...)
		}
		out = append(out, headedExpr{w.spansExpr(r.head.kids[0], all), r.rest})
	}
	return out
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
