package grammar

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// machine is what is built lazily of one grammar: its terms, frames and sets by
// hash, and their transitions. All of it is a cache: when it has grown to its limit
// it is forgotten as a whole, and what states still hold goes on working and is
// found under the same hashes again.
type machine struct {
	limits  Limits
	rules   []*expr // bodies without the empty text; set by compile, then constant
	lists   []*unordered
	tokens  bool   // the grammar names tokens
	longest uint32 // the most bytes of a token of the vocabulary

	mu       sync.Mutex
	bytes    int64
	resets   int
	terms    map[hash]*term
	exprs    map[hash]*expr
	frames   map[hash]*frame
	kernels  map[hash]*set
	sets     map[hash]*set
	tabTerms []*term // those whose tables hold something
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

// grow books n more bytes and forgets everything at the limit. Tables go first of
// all: they are what keeps everything reachable from everything.
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

// work is one call's way through the machine: what it may still spend, and its
// first error, after which results are meaningless and nothing is remembered.
type work struct {
	m       *machine
	v       *Vocab
	most    int64
	left    int64
	check   int64           // left at the last look at ctx
	ctx     context.Context // of the call, as a work is; nil: not to be cancelled
	time    time.Duration   // see Effort.Time; 0: any
	until   time.Time       // when it is over
	looked  int64           // left at the last look at the clock
	yield   func()          // see Limits.Yield; nil without
	steps   int             // bounded by maxCoverSteps
	depth   int             // of terms in each other, see derive
	derived map[derivation]*term
	sides   map[derivation]byteSet
	fitting map[*term]bool // what fits is looking at
	slack   uint32         // see note
	err     error
}

// work begins a call that may take so many units.
func (m *machine) work(v *Vocab, units int64) *work {
	return &work{m: m, v: v, most: units, left: units, check: units, looked: units}
}

// Prices in units of about a nanosecond. Masks of format idn-email over 100,000 tokens, which ask most, take 3 million
// units at most, a twentieth of what a step may.
const (
	priceNode  = 4   // a node of the trie
	priceBuild = 200 // a term, an item or a set
	priceAsk   = 200 // a question about a term that is answered once
	priceKid   = 4   // a member of a term that a question looks at
)

// clockUnits is after how many units a call with a limit in time looks at the clock.
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
	if w.ctx != nil && w.check-w.left > 1_000_000 {
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
