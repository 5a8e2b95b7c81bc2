package grammar

import "slices"

// origin is what continues after a rule: a frame of an earlier set, or the continuations that this closure collects for
// a rule that begins here.
type origin struct {
	f    *frame
	here int32 // 1 + the rule; 0 if f is used
}

// lead is a thread whose frame may not have been built yet.
type lead struct {
	leaf *expr
	rest *expr
	o    origin
}

type goal struct {
	e *expr
	o origin
}

// closer finds all leaves with which a text may continue from a kernel. It is Earley's predictor and completer. A rule
// in tail position reuses the frame of its enclosing rule, so right recursion does not accumulate frames.
type closer struct {
	w       *work
	todo    []goal
	seen    map[seenKey]struct{}
	leads   []lead
	waiting map[int32][]goal // by rule that begins here: what follows it
	rules   []int32          // those rules, in the order of their discovery
	done    map[int32]*frame
	accept  bool
	kept    int
}

type seenKey struct {
	e hash
	f hash // of a frame
	r int32
}

func (w *work) closure(kernel []thread) *set {
	c := &closer{w: w, seen: map[seenKey]struct{}{}}
	var threads []thread
	for _, k := range kernel {
		if k.t != nil {
			threads = append(threads, k)
			c.keep()
		} else {
			c.add(k.rest, origin{f: k.f})
		}
	}
	c.run()
	c.frames()
	if w.err != nil {
		return nil
	}
	for _, l := range c.leads {
		threads = append(threads, thread{t: l.leaf.t, tok: l.leaf.tok, rest: l.rest, f: c.frame(l.o)})
	}
	threads = w.joinThreads(threads)
	if w.err != nil {
		return nil
	}
	s := &set{accept: c.accept, threads: threads}
	for i := range s.threads {
		if t := s.threads[i].t; t != nil {
			s.first, s.impure = s.first.or(t.first), s.impure || !t.pure
		} else {
			s.tokens = true
		}
	}
	return s
}

// goalsPerThread is the limit on goals, as a multiple of the limit on threads.
const goalsPerThread = 4

// keep charges what a set retains: its threads and the continuations in its frames.
func (c *closer) keep() {
	if c.kept++; c.kept > c.w.m.limits.Threads {
		c.w.limit("ways to read the text so far", c.w.m.limits.Threads, c.kept)
	}
}

func (c *closer) add(e *expr, o origin) {
	k := seenKey{e: e.h, r: o.here}
	if o.f != nil {
		k.f = o.f.h
	}
	// There are many more of these than goals: as many as continuations in the frames of an ambiguous text.
	if _, ok := c.seen[k]; !c.w.spend(priceLook) || ok {
		return
	}
	c.seen[k] = struct{}{}
	if most := goalsPerThread * c.w.m.limits.Threads; len(c.seen) > most {
		c.w.limit("steps to find the ways to read the text so far", most, len(c.seen))
		return
	}
	c.todo = append(c.todo, goal{e, o})
}

func (c *closer) run() {
	for len(c.todo) > 0 && c.w.spend(priceBuild) {
		g := c.todo[len(c.todo)-1]
		c.todo = c.todo[:len(c.todo)-1]
		if g.e.op != eEmpty {
			c.visit(g)
			continue
		}
		if g.o.f == root {
			c.accept = true
			continue
		}
		if g.o.f == nil {
			panic("BUG: a rule ended where it began")
		}
		for _, wt := range g.o.f.waits {
			c.add(wt.rest, origin{f: wt.f})
		}
	}
}

// visit expands the head of an expression.
func (c *closer) visit(g goal) {
	head, rest := g.e, emptyExpr
	for head.op == eCat {
		head, rest = head.kids[0], c.w.catExpr(head.kids[1], rest)
	}
	switch head.op {
	case eTerm, eToken:
		c.leads = append(c.leads, lead{head, rest, g.o})
		c.keep()
	case eRule:
		c.call(head.rule, rest, g.o)
	case eAny:
		c.begin(head.list.rule, head.list.next, rest, g.o)
	case eNext:
		c.members(head.list, g.o)
	case eSeen:
		c.memberRead(head.list, int(head.rule), g.o)
	case eChoice:
		for _, k := range head.kids {
			c.add(c.w.catExpr(k, rest), g.o)
		}
	case eTimes:
		if head.spans[0].lo == 0 {
			c.add(rest, g.o)
		}
		c.add(c.w.catExpr(head.kids[0], c.w.catExpr(c.w.restAfterOne(head), rest)), g.o)
	}
}

func (c *closer) call(rule int32, rest *expr, o origin) {
	body := c.w.m.rules[rule]
	if rest.op == eEmpty || body.op == eTerm || body.op == eToken {
		c.add(c.w.catExpr(body, rest), o)
		return
	}
	c.begin(rule, body, rest, o)
}

// begin expands a body that has its own frame; rest continues after it.
func (c *closer) begin(rule int32, body, rest *expr, o origin) {
	if c.waiting == nil {
		c.waiting = map[int32][]goal{}
	}
	if c.waiting[rule] == nil {
		c.rules = append(c.rules, rule)
		c.add(body, origin{here: rule + 1})
	}
	c.waiting[rule] = append(c.waiting[rule], goal{rest, o})
	c.keep()
}

func (c *closer) frame(o origin) *frame {
	if o.f != nil {
		return o.f
	}
	return c.done[o.here-1]
}

// frames builds frames from the collected continuations. A frame is hashed by its content; rules that wait for each
// other, as in left recursion, are hashed together (strongly connected components, Tarjan 1972).
func (c *closer) frames() {
	if len(c.rules) == 0 {
		return
	}
	c.done = make(map[int32]*frame, len(c.rules))
	t := &tarjan{c: c, index: map[int32]int{}, low: map[int32]int{}}
	slices.Sort(c.rules)
	for _, r := range c.rules {
		if t.index[r] == 0 {
			t.visit(r)
		}
	}
}

type tarjan struct {
	c          *closer
	index, low map[int32]int
	stack      []int32
}

func (t *tarjan) visit(r int32) {
	t.index[r] = len(t.index) + 1
	t.low[r] = t.index[r]
	t.stack = append(t.stack, r)
	at := len(t.stack) - 1
	cyclic := false
	for _, g := range t.c.waiting[r] {
		if g.o.f != nil {
			continue
		}
		q := g.o.here - 1
		cyclic = cyclic || q == r
		if t.index[q] == 0 {
			t.visit(q)
			t.low[r] = min(t.low[r], t.low[q])
		} else if t.c.done[q] == nil {
			t.low[r] = min(t.low[r], t.index[q])
		}
	}
	if t.low[r] == t.index[r] {
		group := slices.Clone(t.stack[at:])
		t.stack = t.stack[:at]
		slices.Sort(group)
		t.c.make(group, cyclic || len(group) > 1)
	}
}

// make hashes and builds the frames of one strongly connected group of rules. Frames outside the group that they refer
// to exist already.
func (c *closer) make(group []int32, cyclic bool) {
	var b []byte
	if cyclic {
		b = append(b, tagGroup)
	} else {
		b = append(b, tagFrame)
	}
	place := map[int32]int{}
	if cyclic {
		for i, r := range group {
			place[r] = i + 1
		}
	}
	for _, r := range group {
		names := make([]hash, len(c.waiting[r]))
		for i, g := range c.waiting[r] {
			var room [64]byte
			n := g.e.h.append(room[:0])
			if p := place[g.o.here-1]; g.o.f == nil && p > 0 {
				n = append(n, byte(p), byte(p>>8), byte(p>>16))
			} else {
				n = c.frame(g.o).h.append(n)
			}
			names[i] = hashOf(n)
		}
		slices.SortFunc(names, hash.compare)
		names = slices.Compact(names)
		b = append(b, byte(len(names)), byte(len(names)>>8), byte(len(names)>>16))
		for _, n := range names {
			b = n.append(b)
		}
	}
	h := hashOf(b)
	if !cyclic {
		c.build(group[:1], []hash{h})
		return
	}
	hs := make([]hash, len(group))
	for i := range group {
		hs[i] = hashOf(append(h.append([]byte{tagFrame}), byte(i), byte(i>>8), byte(i>>16)))
	}
	c.build(group, hs)
}

// build looks up the frames of a group or creates them: either all of a group exist or none.
func (c *closer) build(group []int32, hs []hash) {
	m := c.w.m
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.frames[hs[0]] != nil {
		for i, r := range group {
			c.done[r] = m.frames[hs[i]]
		}
		return
	}
	size := 0
	for i, r := range group {
		c.done[r] = &frame{h: hs[i]}
	}
	for i, r := range group {
		f := c.done[r]
		for _, g := range c.waiting[r] {
			f.waits = append(f.waits, wait{g.e, c.frame(g.o)})
		}
		m.frames[hs[i]] = f
		size += 100 + 16*len(f.waits)
	}
	m.grow(size)
}
