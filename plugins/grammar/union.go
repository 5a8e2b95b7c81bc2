package grammar

import (
	"slices"
	"strings"
)

// alt is any of ks. It merges alternatives as join says: otherwise (a|aa){0,1000} would have a thousand parts.
func (w *work) alt(ks []*term) *term {
	ks = flatten(opAlt, ks)
	if !w.spend(priceNode * int64(len(ks))) {
		return nothing
	}
	nullable := false
	out := ks[:0]
	for _, k := range ks {
		switch {
		case k == anyText:
			return anyText
		case k.op == opEmpty:
			nullable = true
		case k.op != opNothing:
			out = append(out, k)
		}
	}
	if len(out) > 1 {
		out = distinct(w.join(out))
	}
	if len(out) > maxPlain {
		out = w.factor(out)
	}
	if nullable && !slices.ContainsFunc(out, func(k *term) bool { return k.nullable }) {
		out = distinct(append(out, empty))
	}
	switch len(out) {
	case 0:
		return nothing
	case 1:
		return out[0]
	}
	return w.intern(&term{op: opAlt, kids: out})
}

// union is alt for many operands: it builds a tree of the literals among ks first.
func (w *work) union(ks []*term) *term {
	var texts []string
	var out []*term
	for _, k := range ks {
		switch {
		case k.op == opLit:
			texts = append(texts, k.lit)
		case k.op == opClass && k.first.count() == 1:
			texts = append(texts, string([]byte{k.first.lowest()}))
		default:
			out = append(out, k)
		}
	}
	if len(texts) <= maxPlain {
		return w.alt(ks)
	}
	return w.alt(append(out, w.literals(texts)))
}

// maxPlain is how many alternatives are kept in a plain list before they are grouped by first byte.
const maxPlain = 16

// headed is an alternative split into its head and its rest.
type headed struct{ head, rest *term }

func cut(t *term) headed {
	if t.op == opCat {
		return headed{t.kids[0], t.kids[1]}
	}
	return headed{t, empty}
}

// join merges alternatives that differ in one place alone: in the class or the counts of their heads, or in what comes
// after equal heads. So the parses of a text through a counted repeat are a term for each place within the repetition,
// and the counts that are left are a set: counting-set automata (Turoňová et al. 2020).
func (w *work) join(ks []*term) []*term {
	var classes, repeats []headed
	out := make([]headed, 0, len(ks))
	for _, k := range ks {
		switch h := cut(k); {
		case h.head.op == opClass:
			classes = append(classes, h)
		case h.head.isCounted():
			repeats = append(repeats, h)
		default:
			out = append(out, h)
		}
	}
	slices.SortFunc(classes, func(x, y headed) int { return x.rest.h.compare(y.rest.h) })
	for i := 0; i < len(classes); {
		c := classes[i]
		set := c.head.first
		for i++; i < len(classes) && classes[i].rest.h == c.rest.h; i++ {
			set = set.or(classes[i].head.first)
		}
		if set != c.head.first {
			c.head = w.class(set)
		}
		out = append(out, c)
	}
	slices.SortFunc(repeats, func(x, y headed) int {
		if d := x.rest.h.compare(y.rest.h); d != 0 {
			return d
		}
		return x.head.kids[0].h.compare(y.head.kids[0].h)
	})
	for i := 0; i < len(repeats); {
		r := repeats[i]
		var all []span
		from := i
		for ; i < len(repeats); i++ {
			n := repeats[i]
			if n.rest.h != r.rest.h || n.head.kids[0].h != r.head.kids[0].h {
				break
			}
			all = append(all, n.head.counted()...)
		}
		if i > from+1 {
			r.head = w.repeatSpans(r.head.kids[0], all)
		}
		out = append(out, r)
	}
	return w.joinRests(out)
}

// maxJoined is how many heads of alternatives are joined one behind the other. What follows is joined when a text
// reaches it: common beginnings may be long, and are longer each time where a term contains another twice.
const maxJoined = 8

// joinRests joins alternatives with equal heads.
func (w *work) joinRests(hs []headed) []*term {
	w.joined++
	defer func() { w.joined-- }()
	slices.SortFunc(hs, func(x, y headed) int { return x.head.h.compare(y.head.h) })
	out := make([]*term, 0, len(hs))
	for i := 0; i < len(hs); {
		from, head := i, hs[i].head
		for ; i < len(hs) && hs[i].head.h == head.h; i++ {
		}
		rest := hs[from].rest
		if i > from+1 && w.joined > maxJoined {
			for _, h := range hs[from:i] {
				out = append(out, w.cat(h.head, h.rest))
			}
			continue
		}
		if i > from+1 {
			rests := make([]*term, 0, i-from)
			for _, h := range hs[from:i] {
				rests = append(rests, h.rest)
			}
			rest = w.alt(rests)
		}
		out = append(out, w.cat(head, rest))
	}
	return out
}

// factor groups alternatives that begin with the same byte, so that a step into a large enumeration examines at most
// 256 branches.
func (w *work) factor(ks []*term) []*term {
	var by [256][]*term
	var out []*term
	for _, k := range ks {
		if h := cut(k).head; h.op == opLit || h.op == opClass && h.first.count() == 1 {
			b := k.first.lowest()
			by[b] = append(by[b], k)
		} else {
			out = append(out, k)
		}
	}
	for b, group := range by {
		switch len(group) {
		case 0:
		case 1:
			out = append(out, group[0])
		default:
			for i, k := range group {
				group[i] = w.derive(k, byte(b))
			}
			out = append(out, w.cat(w.class(byteSetOf(byte(b))), w.alt(group)))
		}
	}
	return distinct(out)
}

// literals is any of texts, as a prefix tree. It sorts texts.
func (w *work) literals(texts []string) *term {
	slices.Sort(texts)
	return w.tree(slices.Compact(texts))
}

func (w *work) tree(sorted []string) *term {
	if len(sorted) == 0 {
		return nothing
	}
	first, last := sorted[0], sorted[len(sorted)-1]
	n := 0
	for n < len(first) && n < len(last) && first[n] == last[n] {
		n++
	}
	if len(sorted) == 1 {
		return w.literal(first)
	}
	var branches []*term
	rest := make([]string, len(sorted))
	for i, s := range sorted {
		rest[i] = s[n:]
	}
	if rest[0] == "" {
		branches, rest = append(branches, empty), rest[1:]
	}
	for len(rest) > 0 && w.err == nil {
		end, _ := slices.BinarySearchFunc(rest, rest[0][0], func(s string, b byte) int {
			if s[0] <= b {
				return -1
			}
			return 1
		})
		branches = append(branches, w.tree(rest[:end]))
		rest = rest[end:]
	}
	return w.cat(w.literal(strings.Clone(first[:n])), w.alt(branches))
}
