package grammar_test

import (
	"math/bits"
	"slices"

	"tgi/plugins/grammar/ir"
)

// naive is a reference implementation that shares nothing with the package but the IR: regular expressions become
// complete automata by Thompson's construction, subsets and products; rules become relations over positions of the
// text, found by iteration.
type naive struct {
	g    *ir.Grammar
	dfas []*dfa // by regex
	live []bool // by expression: it matches some text
	toks []func(id int) bool
}

// symbols stand for all bytes: those that the tests use, and one for the others.
var symbols = []byte("abc\xc3\xa9z")

func symbol(b byte) int {
	if i := slices.Index(symbols, b); i >= 0 {
		return i
	}
	return len(symbols) - 1
}

// dfa is complete; state 0 is its start.
type dfa struct {
	next   [][]int
	accept []bool
	live   []bool // an accepting state can be reached
}

func (d *dfa) finish() *dfa {
	d.live = slices.Clone(d.accept)
	for changed := true; changed; {
		changed = false
		for s := range d.next {
			for _, t := range d.next[s] {
				if d.live[t] && !d.live[s] {
					d.live[s], changed = true, true
				}
			}
		}
	}
	return d
}

// nfa holds several automata, with moves that take no symbol.
type nfa struct {
	next []map[int][]int // by symbol; -1: none
}

func (n *nfa) state() int {
	n.next = append(n.next, map[int][]int{})
	return len(n.next) - 1
}

func (n *nfa) edge(from, sym, to int) { n.next[from][sym] = append(n.next[from][sym], to) }

// embed copies d in, from state from to state to.
func (n *nfa) embed(d *dfa, from, to int) {
	base := len(n.next)
	for range d.next {
		n.state()
	}
	n.edge(from, -1, base)
	for s, row := range d.next {
		for sym, t := range row {
			n.edge(base+s, sym, base+t)
		}
		if d.accept[s] {
			n.edge(base+s, -1, to)
		}
	}
}

func (n *nfa) determinise(start, accept int) *dfa {
	close := func(set []int) []int {
		seen := map[int]bool{}
		for len(set) > 0 {
			s := set[len(set)-1]
			set = set[:len(set)-1]
			if !seen[s] {
				seen[s] = true
				set = append(set, n.next[s][-1]...)
			}
		}
		var out []int
		for s := range seen {
			out = append(out, s)
		}
		slices.Sort(out)
		return out
	}
	d := &dfa{}
	var sets [][]int
	index := func(set []int) int {
		if i := slices.IndexFunc(sets, func(s []int) bool { return slices.Equal(s, set) }); i >= 0 {
			return i
		}
		sets = append(sets, set)
		return len(sets) - 1
	}
	index(close([]int{start}))
	for i := 0; i < len(sets); i++ {
		if len(sets) > 200 {
			panic(tooBig{})
		}
		row := make([]int, len(symbols))
		for sym := range row {
			var to []int
			for _, s := range sets[i] {
				to = append(to, n.next[s][sym]...)
			}
			row[sym] = index(close(to))
		}
		d.next = append(d.next, row)
		d.accept = append(d.accept, slices.Contains(sets[i], accept))
	}
	return d.minimise().finish()
}

// minimise merges equivalent states (Moore).
func (d *dfa) minimise() *dfa {
	class := make([]int, len(d.next))
	for s, a := range d.accept {
		if a {
			class[s] = 1
		}
	}
	for n := 0; ; {
		names := map[string]int{}
		next := make([]int, len(class))
		for s := range d.next {
			key := []byte{byte(class[s]), byte(class[s] >> 8)}
			for _, t := range d.next[s] {
				key = append(key, byte(class[t]), byte(class[t]>>8))
			}
			if _, ok := names[string(key)]; !ok {
				names[string(key)] = len(names)
			}
			next[s] = names[string(key)]
		}
		class = next
		if len(names) == n {
			break
		}
		n = len(names)
	}
	out := &dfa{next: make([][]int, slices.Max(class)+1), accept: make([]bool, slices.Max(class)+1)}
	for s := range d.next { // state 0 has class 0: it comes first
		row := make([]int, len(symbols))
		for sym, t := range d.next[s] {
			row[sym] = class[t]
		}
		out.next[class[s]], out.accept[class[s]] = row, d.accept[s]
	}
	return out
}

func product(x, y *dfa) *dfa {
	d := &dfa{}
	for s := range x.next {
		for t := range y.next {
			row := make([]int, len(symbols))
			for sym := range row {
				row[sym] = x.next[s][sym]*len(y.next) + y.next[t][sym]
			}
			d.next = append(d.next, row)
			d.accept = append(d.accept, x.accept[s] && y.accept[t])
		}
	}
	return d.minimise().finish()
}

func word(text []byte) *dfa {
	n := &nfa{}
	at := n.state()
	for _, b := range text {
		to := n.state()
		n.edge(at, symbol(b), to)
		at = to
	}
	return n.determinise(0, at)
}

func union(ds []*dfa) *dfa {
	n := &nfa{}
	from, to := n.state(), n.state()
	for _, d := range ds {
		n.embed(d, from, to)
	}
	return n.determinise(from, to)
}

func chain(ds []*dfa, loop *dfa) *dfa {
	n := &nfa{}
	at := n.state()
	for _, d := range ds {
		to := n.state()
		n.embed(d, at, to)
		at = to
	}
	if loop != nil {
		to := n.state()
		n.edge(at, -1, to)
		n.embed(loop, to, to)
		at = to
	}
	return n.determinise(0, at)
}

func (v *naive) regex(x ir.Regex) *dfa {
	var args []*dfa
	for _, a := range x.Args {
		args = append(args, v.dfas[a])
	}
	switch x.Op {
	case ir.Bytes:
		n := &nfa{}
		from, to := n.state(), n.state()
		for _, r := range x.Ranges {
			for b := r.Lo; b <= r.Hi; b++ {
				if i := slices.Index(symbols, byte(b)); i >= 0 {
					n.edge(from, i, to)
				}
			}
		}
		return n.determinise(from, to)
	case ir.Chars:
		var ds []*dfa
		for _, r := range x.Ranges {
			for c := r.Lo; c <= r.Hi; c++ {
				ds = append(ds, word([]byte(string(rune(c)))))
			}
		}
		return union(ds)
	case ir.Literal:
		return word(x.Text)
	case ir.Literals:
		var ds []*dfa
		for _, t := range x.Texts {
			ds = append(ds, word(t))
		}
		return union(ds)
	case ir.Concat:
		return chain(args, nil)
	case ir.Union:
		return union(args)
	case ir.Repeat:
		must := slices.Repeat(args, int(x.Min))
		if x.Max == ir.Unbounded {
			return chain(must, args[0])
		}
		may := union([]*dfa{args[0], word(nil)})
		return chain(append(must, slices.Repeat([]*dfa{may}, int(x.Max-x.Min))...), nil)
	case ir.And:
		d := args[0]
		for _, e := range args[1:] {
			d = product(d, e)
		}
		return d
	}
	d := &dfa{next: args[0].next}
	for _, a := range args[0].accept {
		d.accept = append(d.accept, !a)
	}
	return d.finish()
}

// tooBig aborts the construction of an automaton that would take long.
type tooBig struct{}

// newNaive returns nil if the grammar's automata are too big.
func newNaive(g *ir.Grammar, toks func(x ir.Expr) func(id int) bool) (v *naive) {
	defer func() {
		if r := recover(); r == (tooBig{}) {
			v = nil
		} else if r != nil {
			panic(r)
		}
	}()
	v = &naive{g: g}
	for _, x := range g.Regexes {
		v.dfas = append(v.dfas, v.regex(x))
	}
	v.live = make([]bool, len(g.Exprs))
	v.toks = make([]func(int) bool, len(g.Exprs))
	for i, x := range g.Exprs {
		if x.Kind == ir.Token || x.Kind == ir.TokenText {
			v.toks[i] = toks(x)
		}
	}
	for changed := true; changed; {
		changed = false
		for i, x := range g.Exprs {
			if !v.live[i] && v.has(i, x) {
				v.live[i], changed = true, true
			}
		}
	}
	return v
}

func (v *naive) has(i int, x ir.Expr) bool {
	dead := func(a uint32) bool { return !v.live[a] }
	switch x.Kind {
	case ir.Terminal:
		return v.dfas[x.Ref].live[0]
	case ir.Rule:
		return v.live[v.g.Rules[x.Ref].Body]
	case ir.Seq:
		return !slices.ContainsFunc(x.Args, dead)
	case ir.Choice:
		return slices.ContainsFunc(x.Args, func(a uint32) bool { return v.live[a] })
	case ir.Times:
		return x.Min == 0 || v.live[x.Args[0]]
	case ir.Unordered:
		for k, m := range x.Marks {
			if m&ir.Required != 0 && dead(x.Args[k+1]) {
				return false
			}
		}
		return v.live[x.Args[0]] && (x.Min == 0 || slices.ContainsFunc(x.Args[1:], func(a uint32) bool {
			return v.live[a]
		}))
	}
	for id := range 100 {
		if v.toks[i](id) {
			return true
		}
	}
	return false
}

// atom is a byte, or a token that is not made of bytes (-1).
type atom int

// text is what was accepted: atoms, and the tokens at their positions.
type text struct {
	atoms []atom
	spans []span
}

type span struct{ from, to, id int }

func (t text) plus(bytes string, special bool, id int) text {
	n := text{slices.Clone(t.atoms), slices.Clone(t.spans)}
	if special {
		n.atoms = append(n.atoms, -1)
	} else {
		for _, b := range []byte(bytes) {
			n.atoms = append(n.atoms, atom(b))
		}
	}
	n.spans = append(n.spans, span{len(t.atoms), len(n.atoms), id})
	return n
}

// judge reports whether the text is a prefix of a sentence, and whether it is one.
func (v *naive) judge(t text) (prefix, whole bool) {
	n := len(t.atoms)
	full := make([][]uint64, len(v.g.Exprs)) // full[e][i] bit j: e matches i..j
	pre := make([][]bool, len(v.g.Exprs))    // pre[e][i]: i..n begins a text of e
	for e := range full {
		full[e], pre[e] = make([]uint64, n+1), make([]bool, n+1)
	}
	for changed := true; changed; {
		changed = false
		for e, x := range v.g.Exprs {
			for i := range n + 1 {
				f, p := v.relate(t, e, x, i, full, pre)
				if f != full[e][i] || p != pre[e][i] {
					full[e][i], pre[e][i], changed = f, p, true
				}
			}
		}
	}
	body := v.g.Rules[v.g.Start].Body
	return pre[body][0], full[body][0]>>n&1 != 0
}

func (v *naive) relate(t text, e int, x ir.Expr, i int, full [][]uint64, pre [][]bool) (f uint64, p bool) {
	n := len(t.atoms)
	switch x.Kind {
	case ir.Terminal:
		d, s := v.dfas[x.Ref], 0
		for j := i; ; j++ {
			if d.accept[s] {
				f |= 1 << j
			}
			if j == n {
				return f, d.live[s]
			}
			if t.atoms[j] < 0 {
				return f, false
			}
			s = d.next[s][symbol(byte(t.atoms[j]))]
		}
	case ir.Rule:
		b := v.g.Rules[x.Ref].Body
		return full[b][i], pre[b][i]
	case ir.Choice:
		for _, a := range x.Args {
			f, p = f|full[a][i], p || pre[a][i]
		}
		return f, p
	case ir.Seq:
		return v.sequence(x.Args, i, n, full, pre)
	case ir.Unordered:
		if !v.live[e] {
			return 0, false // the required part matches no text
		}
		return v.unordered(x, i, n, full, pre)
	case ir.Times:
		// The positions after each round; more rounds than positions add nothing new.
		at := uint64(1) << i
		for k := uint32(0); ; k++ {
			if k >= x.Min {
				f |= at
			}
			if at>>n&1 != 0 && (k >= x.Min || v.live[x.Args[0]]) {
				p = true
			}
			if k == x.Max || k > x.Min+uint32(n)+1 {
				return f, p
			}
			next := uint64(0)
			for j := range n + 1 {
				if at>>j&1 != 0 {
					next |= full[x.Args[0]][j]
					p = p || pre[x.Args[0]][j]
				}
			}
			at = next
		}
	}
	if i == n {
		return 0, v.live[e]
	}
	for _, s := range t.spans {
		if s.from == i && v.toks[e](s.id) {
			f |= 1 << s.to
		}
	}
	return f, f>>n&1 != 0
}

// unordered tracks the members read so far, as a set and their number.
func (v *naive) unordered(x ir.Expr, i, n int, full [][]uint64, pre [][]bool) (f uint64, p bool) {
	type place struct{ at, seen, count int }
	var required int
	for k, m := range x.Marks {
		if m&ir.Required != 0 {
			required |= 1 << k
		}
	}
	hi := int64(x.Max)
	if x.Max == ir.Unbounded {
		hi = 1 << 40
	}
	// Whether this many members, including these, may have been read.
	room := func(p place) bool {
		left := max(bits.OnesCount(uint(required&^p.seen)), int(x.Min)-bits.OnesCount(uint(p.seen)))
		return int64(p.count+left) <= hi
	}
	done := map[place]bool{}
	var from func(at place)
	// from adds what follows after at.count members.
	from = func(at place) {
		if done[at] {
			return
		}
		done[at] = true
		if required&^at.seen == 0 && bits.OnesCount(uint(at.seen)) >= int(x.Min) {
			f |= 1 << at.at
		}
		begin := uint64(1) << at.at
		if at.count > 0 {
			begin = full[x.Args[0]][at.at]
		}
		for k, m := range x.Marks {
			next := place{0, at.seen | 1<<k, at.count + 1}
			if at.seen>>k&1 != 0 && m&ir.Repeats == 0 || !v.live[x.Args[k+1]] || !room(next) {
				continue
			}
			p = p || at.count > 0 && pre[x.Args[0]][at.at]
			for s := range n + 1 {
				if begin>>s&1 == 0 {
					continue
				}
				p = p || pre[x.Args[k+1]][s]
				for e := s + 1; e <= n; e++ {
					if full[x.Args[k+1]][s]>>e&1 != 0 {
						next.at = e
						p = p || e == n
						from(next)
					}
				}
			}
		}
	}
	from(place{at: i})
	return f, p || f>>n&1 != 0
}

func (v *naive) sequence(args []uint32, i, n int, full [][]uint64, pre [][]bool) (f uint64, p bool) {
	at := uint64(1) << i
	for k, a := range args {
		rest := true
		for _, r := range args[k+1:] {
			rest = rest && v.live[r]
		}
		next := uint64(0)
		for j := range n + 1 {
			if at>>j&1 != 0 {
				next |= full[a][j]
				p = p || rest && pre[a][j]
			}
		}
		at = next
	}
	return at, p || at>>n&1 != 0
}
