package plugins

import (
	"container/list"
	"context"
	"crypto/sha256"
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"tgi/plugins/grammar"
)

// What grammars may cost.
const (
	// grammarMemory bounds what one grammar remembers of the states that texts reached, in bytes.
	grammarMemory = 8 << 20
	// nodeBytes is about what a byte of the encoded form becomes.
	nodeBytes = 24
	// grammarsBytes bounds the grammars that are remembered, with what texts found of them so far.
	grammarsBytes = 512 << 20
	// maskMemoryBytes bounds the masks of a guest that are remembered for one source.
	maskMemoryBytes = 4 << 20
)

// made is a grammar that is ready, shared by the requests that want it.
type made struct {
	native  *grammar.Grammar // nil where a guest computes the masks
	masks   *maskMemory      // of such a guest
	dropped []Dropped
	cost    int64 // bytes, without what texts find
}

// bytes is about what the grammar takes now.
func (m *made) bytes() int64 {
	n := m.cost
	if m.native != nil {
		n += m.native.Bytes()
	}
	if m.masks != nil {
		n += m.masks.size()
	}
	return n
}

// GrammarStats counts what became of grammars so far.
type GrammarStats struct {
	Compiled uint64 // by plugins, failures among them
	Shared   uint64 // requests that waited for another's compilation
	Found    uint64 // requests whose grammar was there
	Seconds  float64
	Kept     int   // now
	Bytes    int64 // of those that are kept, about
	Masks    grammar.CacheStats

	Asked       uint64  // masks that sequences asked for, of grammars that are run natively
	MaskSeconds float64 // that they took
	DeadEnds    uint64  // of them, those where no token goes on or a limit was reached
}

// maskCounts counts the masks of all sequences.
type maskCounts struct{ asked, nanoseconds, deadEnds atomic.Uint64 }

// mask is a state's mask, counted.
func (c *maskCounts) mask(s *grammar.State, bits []uint32) error {
	start := time.Now()
	err := s.Mask(bits)
	c.asked.Add(1)
	c.nanoseconds.Add(uint64(time.Since(start)))
	if errors.Is(err, grammar.ErrStuck) || errors.Is(err, grammar.ErrLimit) {
		c.deadEnds.Add(1)
	}
	return err
}

// GrammarStats reads the counters.
func (s *Set) GrammarStats() GrammarStats {
	c := &s.grammars
	c.mu.Lock()
	defer c.mu.Unlock()
	out := c.stats
	out.Kept, out.Bytes = c.order.Len(), c.size()
	out.Asked, out.DeadEnds = c.masks.asked.Load(), c.masks.deadEnds.Load()
	out.MaskSeconds = time.Duration(c.masks.nanoseconds.Load()).Seconds()
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
	flights map[[sha256.Size]byte]*flight
	slots   chan struct{}
	stats   GrammarStats // the counters
	masks   maskCounts
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
		m := e.Value.(*keptGrammar).made
		c.trim()
		c.mu.Unlock()
		return m, nil
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
	start := time.Now()
	m, err := build(ctx)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stats.Compiled++
	c.stats.Seconds += time.Since(start).Seconds()
	return m, err
}

// keep remembers a grammar. The lock is held.
func (c *grammarCache) keep(key [sha256.Size]byte, m *made) {
	c.ready[key] = c.order.PushFront(&keptGrammar{key, m})
	c.trim()
}

// grammarsKept is how many grammars are remembered at most: all are looked at for each request.
const grammarsKept = 2000

// trim forgets the grammars that were used longest ago. They grow while they are used, so the limit is looked at with each
// request. The lock is held.
func (c *grammarCache) trim() {
	for size := c.size(); (size > grammarsBytes || c.order.Len() > grammarsKept) && c.order.Len() > 1; {
		last := c.order.Remove(c.order.Back()).(*keptGrammar)
		delete(c.ready, last.key)
		size -= last.bytes()
	}
}

// size is that of the grammars that are kept. The lock is held.
func (c *grammarCache) size() (n int64) {
	for e := c.order.Front(); e != nil; e = e.Next() {
		n += e.Value.(*keptGrammar).bytes()
	}
	return n
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

// size is the bytes of the masks.
func (m *maskMemory) size() int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.bytes
}
