package plugins

import (
	"container/list"
	"context"
	"crypto/sha256"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"tgi/plugins/grammar"
	"tgi/plugins/internal/sandbox"
)

// What grammars may cost.
const (
	// grammarMemory bounds what one grammar remembers of the states that texts reached, in bytes.
	grammarMemory = 8 << 20
	// nodeBytes is about what a byte of the encoded form becomes.
	nodeBytes = 24
	// grammarsBytes bounds what is remembered of grammars, where the options don't; of it a share of maskShare is for the masks
	// that grammars have in common.
	grammarsBytes = 128 << 20
	maskShare     = 8
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
	Compiled uint64  // by plugins, failures among them
	Shared   uint64  // requests that waited for another's compilation
	Found    uint64  // requests whose grammar was there
	Seconds  float64 // that they ran, without waiting for others
	Kept     int     // now
	Bytes    int64   // of those that are kept, about
	Evicted  uint64  // grammars that were forgotten for want of room
	Limit    int64   // of Bytes
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
	out.Kept, out.Bytes, out.Limit = c.order.Len(), c.size(), c.limit
	out.Asked, out.DeadEnds = c.masks.asked.Load(), c.masks.deadEnds.Load()
	out.MaskSeconds = time.Duration(c.masks.nanoseconds.Load()).Seconds()
	if c.vocab != nil {
		out.Masks = c.vocab.CacheStats()
	}
	return out
}

// grammarCache remembers grammars, the latest used, and has those that are wanted at the same time made once. open comes
// before all else.
type grammarCache struct {
	compiling sync.WaitGroup // the flights; Set.Close awaits them
	mu        sync.Mutex
	ready     map[[sha256.Size]byte]*list.Element // of *keptGrammar
	order     list.List                           // the latest used first
	flights   map[[sha256.Size]byte]*flight
	turns     *turns
	stats     GrammarStats // the counters
	masks     maskCounts
	vocab     *grammar.Vocab // nil until it is made
	limit     int64          // bytes of grammars
	part      *sandbox.Cache // of the memory for plugins
}

// open begins to count what is remembered; the result is how much of it masks may take.
func (c *grammarCache) open(m *Memory, bytes int64) (masks int64) {
	if bytes == 0 {
		bytes = grammarsBytes
	}
	masks = bytes / maskShare
	c.limit = bytes - masks
	c.part = m.NewCache(c.shrink)
	return masks
}

// close forgets all.
func (c *grammarCache) close() {
	c.mu.Lock()
	for _, f := range c.flights {
		f.cancel()
	}
	c.mu.Unlock()
	c.compiling.Wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.forget(c.size(), 0)
	c.part.Close()
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

// get gives the grammar of a key, which build makes for a client unless it is there or on its way. The context of build's turn
// ends when nobody waits for it any more.
func (c *grammarCache) get(ctx context.Context, client string, key [sha256.Size]byte, build func(*turn) (*made, error)) (*made, error) {
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
		f = c.begin(client, key, build)
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
func (c *grammarCache) begin(client string, key [sha256.Size]byte, build func(*turn) (*made, error)) *flight {
	if c.turns == nil {
		c.turns, c.flights, c.ready = newTurns(turnSlice), map[[sha256.Size]byte]*flight{}, map[[sha256.Size]byte]*list.Element{}
	}
	ctx, cancel := context.WithCancel(context.Background())
	f := &flight{cancel: cancel, done: make(chan struct{})}
	c.flights[key] = f
	c.compiling.Go(func() { // which fuel and limits bound
		defer cancel()
		m, err := c.compile(ctx, client, build)
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
	})
	return f
}

// compile has build make a grammar.
func (c *grammarCache) compile(ctx context.Context, client string, build func(*turn) (*made, error)) (*made, error) {
	t, err := c.turns.begin(ctx, client)
	if err != nil {
		return nil, err
	}
	m, err := build(t)
	ran := t.end()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stats.Compiled++
	c.stats.Seconds += ran.Seconds()
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
	c.forget(c.size()-c.limit, 1)
	if excess := c.part.Set(c.size() + c.maskBytes()); excess > 0 {
		c.give(excess)
	}
}

// shrink forgets about so many bytes, because others need them.
func (c *grammarCache) shrink(bytes int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.give(bytes)
}

// give is shrink. The lock is held.
func (c *grammarCache) give(bytes int64) {
	before := c.size()
	c.forget(bytes, 0)
	if left := bytes - (before - c.size()); left > 0 && c.vocab != nil {
		c.vocab.Shrink(left)
	}
	c.part.Set(c.size() + c.maskBytes())
}

// forget lets go of so many bytes of grammars, and of those beyond the number that are kept, the longest unused first and never
// the last least of them. The lock is held.
func (c *grammarCache) forget(bytes int64, least int) {
	for c.order.Len() > least && (bytes > 0 || c.order.Len() > grammarsKept) {
		last := c.order.Remove(c.order.Back()).(*keptGrammar)
		delete(c.ready, last.key)
		bytes -= last.bytes()
		c.stats.Evicted++
	}
}

// maskBytes is what the masks take that grammars have in common. The lock is held.
func (c *grammarCache) maskBytes() int64 {
	if c.vocab == nil {
		return 0
	}
	return c.vocab.CacheStats().Bytes
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
