package grammar

import (
	"slices"
	"sync/atomic"
)

// set is the state of the parser: all ways to read the text so far, merged. It is
// a set of Earley items whose origins are named by content instead of position:
// an item is a thread, what waits for a rule is a frame, and both are hashed by
// content. So sets that allow the same continuations mostly are one object, the
// parser is an automaton over them that is built as texts reach it, and a state
// is one pointer.
type set struct {
	h       hash
	accept  bool     // the text may end here
	tokens  bool     // some thread takes a token
	impure  bool     // first may hold bytes that lead nowhere
	first   byteSet  // bytes that some thread takes
	threads []thread // by hash
	kernel  []thread // what the set was made from, kept where the grammar names tokens

	tab atomic.Pointer[table[set]]
}

// dead is where no text goes on.
var dead = &set{h: hashOf([]byte{tagSet})}

// thread is one way to go on: a text of t or a token of tok, then rest, then what
// waits in f. Without t and tok, in a kernel, it is rest at once.
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

// frame is what waits for the end of a rule, or of an unordered list, of which some
// members came already.
type frame struct {
	h      hash
	waits  []wait
	passed *passed // nil: none came, or it is not that of a list
}

type wait struct {
	rest *expr
	f    *frame
}

// root waits for the end of the text.
var root = &frame{h: hashOf([]byte{tagFrame})}

// step is the set after one more byte, dead where there is none.
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
		if th.t == nil {
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

// take is the set after one token: by its text, which is "" where texts are not
// made of it, and as the token that the grammar names.
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
