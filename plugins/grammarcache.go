package plugins

import (
	"container/list"
	"context"
	"crypto/sha256"
	"runtime"
	"sync"

	"tgi/plugins/grammar"
)

// What grammars may cost.
const (
	// grammarMemory bounds what one grammar remembers of the states that texts reached, in bytes.
	grammarMemory = 8 << 20
	// nodeBytes is about what a byte of the encoded form becomes.
	nodeBytes = 24
	// grammarsBytes bounds the grammars that are remembered, counted as if each had all its memory.
	grammarsBytes = 512 << 20
	// maskMemoryBytes bounds the masks of a guest that are remembered for one source.
	maskMemoryBytes = 4 << 20
)

// made is a grammar that is ready, shared by the requests that want it.
type made struct {
	native  *grammar.Grammar // nil where a guest computes the masks
	masks   *maskMemory      // of such a guest
	dropped []Dropped
	cost    int64 // bytes
}

// GrammarStats counts what became of grammars so far.
type GrammarStats struct {
	Compiled uint64 // by plugins, failures among them
	Shared   uint64 // requests that waited for another's compilation
	Found    uint64 // requests whose grammar was there
	Kept     int    // now
	Masks    grammar.CacheStats
}

// GrammarStats reads the counters.
func (s *Set) GrammarStats() GrammarStats {
	c := &s.grammars
	c.mu.Lock()
	defer c.mu.Unlock()
	out := c.stats
	out.Kept = c.order.Len()
	if c.vocab != nil {
		out.Masks = c.vocab.CacheStats()
	}
	return out
}

// grammarCache remembers grammars, the latest used, and has those that are wanted at the same time made once. The zero value
// is ready.
type grammarCache struct {
	mu      sync.Mutex
	ready   map[[sha256.Size]byte]*list.Element // of *keptGrammar
	order   list.List                           // the latest used first
	bytes   int64
	flights map[[sha256.Size]byte]*flight
	slots   chan struct{}
	stats   GrammarStats
	vocab   *grammar.Vocab // nil until it is made
}

type keptGrammar struct {
	key [sha256.Size]byte
	*made
}

// flight is a compilation under way.
type flight struct {
	waiters int
	cancel  context.CancelFunc
	done    chan struct{} // closed when the fields below are set
	made    *made
	err     error
}

// get gives the grammar of a key, which build makes unless it is there or on its way. The context that build gets ends when
// nobody waits for it any more.
func (c *grammarCache) get(ctx context.Context, key [sha256.Size]byte, build func(context.Context) (*made, error)) (*made, error) {
	c.mu.Lock()
	if e := c.ready[key]; e != nil {
		c.order.MoveToFront(e)
		c.stats.Found++
		c.mu.Unlock()
		return e.Value.(*keptGrammar).made, nil
	}
	f := c.flights[key]
	if f == nil {
		f = c.begin(key, build)
	} else {
		c.stats.Shared++
	}
	f.waiters++
	c.mu.Unlock()
	select {
	case <-f.done:
		return f.made, f.err
	case <-ctx.Done():
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if f.waiters--; f.waiters == 0 {
		f.cancel()
		if c.flights[key] == f {
			delete(c.flights, key)
		}
	}
	return nil, context.Cause(ctx)
}

// begin starts a compilation. The lock is held.
func (c *grammarCache) begin(key [sha256.Size]byte, build func(context.Context) (*made, error)) *flight {
	if c.slots == nil {
		c.slots, c.flights, c.ready = make(chan struct{}, runtime.GOMAXPROCS(0)), map[[sha256.Size]byte]*flight{}, map[[sha256.Size]byte]*list.Element{}
	}
	ctx, cancel := context.WithCancel(context.Background())
	f := &flight{cancel: cancel, done: make(chan struct{})}
	c.flights[key] = f
	go func() { // ends with the compilation, which is bounded by fuel and limits
		defer cancel()
		m, err := c.compile(ctx, build)
		c.mu.Lock()
		if c.flights[key] == f {
			delete(c.flights, key)
			if err == nil {
				c.keep(key, m)
			}
		}
		c.mu.Unlock()
		f.made, f.err = m, err
		close(f.done)
	}()
	return f
}

// compile waits for its turn.
func (c *grammarCache) compile(ctx context.Context, build func(context.Context) (*made, error)) (*made, error) {
	select {
	case c.slots <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	defer func() { <-c.slots }()
	c.mu.Lock()
	c.stats.Compiled++
	c.mu.Unlock()
	return build(ctx)
}

// keep remembers a grammar and forgets those that were used longest ago. The lock is held.
func (c *grammarCache) keep(key [sha256.Size]byte, m *made) {
	c.ready[key] = c.order.PushFront(&keptGrammar{key, m})
	for c.bytes += m.cost; c.bytes > grammarsBytes && c.order.Len() > 1; {
		last := c.order.Remove(c.order.Back()).(*keptGrammar)
		delete(c.ready, last.key)
		c.bytes -= last.cost
	}
}

// vocabulary gives the tokens prepared for masks. The first call prepares them.
func (s *Set) vocabulary() *grammar.Vocab {
	v := s.vocab()
	s.grammars.mu.Lock()
	defer s.grammars.mu.Unlock()
	s.grammars.vocab = v
	return v
}

// maskMemory remembers the masks of a guest for one source. It implements kind.Masks; the zero value is ready.
type maskMemory struct {
	mu    sync.Mutex
	masks map[uint64][]uint32
	bytes int64
}

// Get implements kind.Masks.
func (m *maskMemory) Get(key uint64) []uint32 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.masks[key]
}

// Put implements kind.Masks. A full memory begins anew.
func (m *maskMemory) Put(key uint64, words []uint32) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if size := int64(4*len(words)) + 64; m.masks == nil || m.bytes+size > maskMemoryBytes {
		m.masks, m.bytes = map[uint64][]uint32{}, size
	} else {
		m.bytes += size
	}
	m.masks[key] = words
}
