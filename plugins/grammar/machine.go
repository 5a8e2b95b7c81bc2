package grammar

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// machine is the lazily built automaton of one grammar: its terms, frames and sets by hash, and their transitions. All
// of it is a cache: at its limit it is emptied as a whole. Objects that states still hold keep working, and rebuilt
// ones have the same hashes.
type machine struct {
	limits  Limits
	rules   []*expr // bodies without the empty text; set by compile, then immutable
	lists   []*unordered
	tokens  bool   // the grammar names tokens
	longest uint32 // the length in bytes of the longest token

	mu       sync.Mutex
	bytes    int64
	resets   int
	terms    map[hash]*term
	exprs    map[hash]*expr
	frames   map[hash]*frame
	kernels  map[hash]*set
	sets     map[hash]*set
	tabTerms []*term // those whose tables are not empty
	tabSets  []*set
}

func newMachine(l Limits, longest int) *machine {
	m := &machine{limits: l, longest: uint32(longest)}
	m.clear()
	return m
}

func (m *machine) clear() {
	m.terms, m.exprs, m.frames = map[hash]*term{}, map[hash]*expr{}, map[hash]*frame{}
	m.kernels, m.sets = map[hash]*set{}, map[hash]*set{}
	m.tabTerms, m.tabSets, m.bytes = nil, nil, 0
}

// grow charges n more bytes and empties the machine at the limit. Tables are cleared first: through them everything is
// reachable from everything.
func (m *machine) grow(n int) {
	m.bytes += int64(n)
	if m.bytes < m.limits.Memory {
		return
	}
	for _, t := range m.tabTerms {
		t.tab.Store(nil)
	}
	for _, s := range m.tabSets {
		s.tab.Store(nil)
	}
	m.clear()
	m.resets++
}

func (m *machine) linkTerm(from *term, on byteSet, to *term) {
	m.mu.Lock()
	defer m.mu.Unlock()
	old := from.tab.Load()
	if old == nil {
		m.tabTerms = append(m.tabTerms, from)
	}
	tab, n := old.with(on, to)
	from.tab.Store(tab)
	m.grow(n)
}

func (m *machine) linkSet(from *set, on byteSet, to *set) {
	m.mu.Lock()
	defer m.mu.Unlock()
	old := from.tab.Load()
	if old == nil {
		m.tabSets = append(m.tabSets, from)
	}
	tab, n := old.with(on, to)
	from.tab.Store(tab)
	m.grow(n)
}

// work is the context of one call: its remaining budget and its first error, after which results are meaningless and
// nothing is cached.
type work struct {
	// ctx is the context of the call, which work does not outlive; nil: the call cannot be cancelled. It is a field
	// because the recursive functions that do the work have only work as their state, and check ctx there.
	ctx context.Context

	m       *machine
	v       *Vocab
	most    int64
	left    int64
	check   int64         // left at the last check of ctx
	time    time.Duration // see Effort.Time; 0: no limit
	until   time.Time     // the deadline
	looked  int64         // left at the last check of the clock
	yield   func()        // see Limits.Yield; nil without
	steps   int           // bounded by maxCoverSteps
	depth   int           // of terms in each other, see derive
	derived map[derivation]*term
	sides   map[derivation]byteSet
	joined  int            // see maxJoined
	fitting map[*term]bool // terms that fits is examining
	slack   uint32         // see recordLength
	err     error
}

// work begins a call with a budget of so many units.
func (m *machine) work(v *Vocab, units int64) *work {
	return &work{m: m, v: v, most: units, left: units, check: units, looked: units}
}

// Prices in units of about a nanosecond. The most expensive known masks, of format idn-email over 100,000 tokens, take
// at most 3 million units, about a twentieth of a step's limit.
const (
	priceNode  = 4   // a node of the trie
	priceBuild = 200 // a term, an item or a set
	priceAsk   = 200 // a question about a term that is answered once
	priceKid   = 4   // an operand that such a question examines
	priceLook  = 20  // a way to read the text that may be known already
)

// yieldUnits is after how many units a call yields and checks its context.
const yieldUnits = 100_000

// clockUnits is after how many units a call with a time limit checks the clock.
const clockUnits = 2_000

// spend charges n units and reports whether the call may go on.
func (w *work) spend(n int64) bool {
	if w.left -= n; w.left < 0 && w.err == nil {
		w.err = fmt.Errorf("%w: work of one call: at most %d units, of about 1 ns each", ErrLimit, w.most)
	}
	if w.time > 0 && w.looked-w.left > clockUnits {
		if w.looked = w.left; w.err == nil && time.Now().After(w.until) {
			w.err = fmt.Errorf("%w: time of one call: at most %v", ErrLimit, w.time)
		}
	}
	if w.ctx != nil && w.check-w.left > yieldUnits {
		if w.check = w.left; w.err == nil && w.yield != nil {
			w.yield()
		}
		if w.err == nil {
			w.err = w.ctx.Err()
		}
	}
	return w.err == nil
}

func (w *work) limit(what string, bound, value int) {
	if w.err == nil {
		w.err = fmt.Errorf("%w: %s: at most %d, got %d", ErrLimit, what, bound, value)
	}
}
