package grammar

import (
	"slices"
	"sync/atomic"
)

// set is the state of the parser: all parses of the text so far, merged. It is a set of Earley items whose origins are
// identified by content instead of position: an item is a thread, the continuations of a rule are a frame, and both are
// hashed by content. So sets that allow the same continuations are usually one object, the parser is an automaton over
// them that is built as texts reach it, and a state is one pointer.
type set struct {
	h       hash
	accept  bool     // the text may end here
	tokens  bool     // some thread takes a token
	impure  bool     // first may contain bytes that lead nowhere
	first   byteSet  // bytes that some thread accepts
	threads []thread // by hash
	kernel  []thread // what the set was built from, kept if the grammar names tokens

	tab atomic.Pointer[table[set]]
}

// dead is the set from which no text continues.
var dead = &set{h: hashOf([]byte{tagSet})}

// thread is one continuation: a text of t or a token of tok, then rest, then a continuation in f. Without t and tok, in
// a kernel, it begins with rest.
type thread struct {
	h    hash
	t    *term
	tok  *tokens
	rest *expr
	f    *frame
}

func (h *thread) name() {
	var room [80]byte
	b := append(room[:0], tagThread)
	if h.t != nil {
		b = h.t.h.append(b)
	}
	if h.tok != nil {
		b = h.tok.h.append(b)
	}
	h.h = hashOf(h.f.h.append(h.rest.h.append(b)))
}

// frame holds the continuations of a rule, or of an unordered list of which some members were read.
type frame struct {
	h           hash
	waits       []wait
	membersRead *membersRead // nil: none was read, or this is not a list's
}

type wait struct {
	rest *expr
	f    *frame
}

// root is the frame at the end of the text.
var root = &frame{h: hashOf([]byte{tagFrame})}

// step is the set after one more byte; dead if the byte is not allowed.
func (w *work) step(s *set, b byte) *set {
	if !s.first.has(b) {
		return dead
	}
	if tab := s.tab.Load(); tab != nil {
		if n := tab.get(b); n != nil {
			return n
		}
	}
	return w.stepOn(s, b)
}

func (w *work) stepOn(s *set, b byte) *set {
	var kernel []thread
	alike := allBytes
	for i := range s.threads {
		th := &s.threads[i]
		if th.t == nil || !w.spend(priceLook) {
			continue
		}
		alike = alike.and(w.equivalent(th.t, b))
		n := w.next(th.t, b)
		if n.nullable {
			kernel = append(kernel, thread{rest: th.rest, f: th.f})
		}
		if !n.first.empty() {
			kernel = append(kernel, thread{t: n, rest: th.rest, f: th.f})
		}
	}
	to := dead
	if len(kernel) > 0 {
		to = w.set(kernel)
	}
	if w.err != nil {
		return dead
	}
	w.m.linkSet(s, alike, to)
	return to
}

// take is the set after one token: by its text, which is "" if the token is not matched by its bytes, and as a token
// that the grammar names.
func (w *work) take(s *set, id uint32, text string) *set {
	to := dead
	if text != "" {
		to = s
		for i := 0; i < len(text) && to != dead; i++ {
			to = w.step(to, text[i])
		}
	}
	if !s.tokens || w.err != nil {
		return to
	}
	var kernel []thread
	for _, th := range s.threads {
		if th.tok != nil && th.tok.has(id) {
			kernel = append(kernel, thread{rest: th.rest, f: th.f})
		}
	}
	if len(kernel) == 0 {
		return to
	}
	return w.set(append(kernel, to.kernel...))
}

// set is the closure of a kernel, which it sorts.
func (w *work) set(kernel []thread) *set {
	for i := range kernel {
		kernel[i].name()
	}
	kernel = sortThreads(kernel)
	key := hashThreads(tagKernel, kernel, false)
	w.m.mu.Lock()
	s := w.m.kernels[key]
	w.m.mu.Unlock()
	if s != nil {
		return s
	}
	n := w.closure(kernel)
	if w.err != nil {
		return dead
	}
	n.h = hashThreads(tagSet, n.threads, n.accept)
	if w.m.tokens {
		n.kernel = kernel
	}
	const threadBytes = 56
	w.m.mu.Lock()
	defer w.m.mu.Unlock()
	if s := w.m.sets[n.h]; s != nil {
		n = s
	} else {
		w.m.sets[n.h] = n
		w.m.grow(250 + threadBytes*(len(n.threads)+len(n.kernel)))
	}
	w.m.kernels[key] = n
	w.m.grow(80)
	return n
}

func sortThreads(ts []thread) []thread {
	slices.SortFunc(ts, func(x, y thread) int { return x.h.compare(y.h) })
	return slices.CompactFunc(ts, func(x, y thread) bool { return x.h == y.h })
}

// joinThreads returns the threads in order, with one for all that differ in what comes next alone. It takes ts over.
func (w *work) joinThreads(ts []thread) []thread {
	for i := range ts {
		ts[i].name()
	}
	ts = sortThreads(ts)
	if len(ts) < 2 {
		return ts
	}
	slices.SortStableFunc(ts, compareLeaves)
	out := ts[:0]
	for i := 0; i < len(ts); {
		th := ts[i]
		var rests []*expr
		for ; i < len(ts) && compareLeaves(th, ts[i]) == 0; i++ {
			rests = append(rests, ts[i].rest)
		}
		if len(rests) > 1 {
			th.rest = w.joinExprs(rests, 0)
			th.name()
		}
		out = append(out, th)
	}
	return sortThreads(out)
}

// compareLeaves orders threads by all but their rests.
func compareLeaves(x, y thread) int {
	if d := hash.compare(x.sortKey(), y.sortKey()); d != 0 {
		return d
	}
	if d := hash.compare(x.f.h, y.f.h); d != 0 || x.tok == nil {
		return d
	}
	return hash.compare(x.tok.h, y.tok.h)
}

func hashThreads(tag byte, ts []thread, accept bool) hash {
	var room [512]byte
	b := append(room[:0], tag, 0)
	if accept {
		b[1] = 1
	}
	for i := range ts {
		b = ts[i].h.append(b)
	}
	return hashOf(b)
}
