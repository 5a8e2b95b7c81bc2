package plugins

import (
	"container/list"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
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
	// grammarsBytes bounds what is remembered of grammars, where the options don't; of it a share of maskShare is for
	// the masks that grammars have in common.
	grammarsBytes = 128 << 20
	maskShare     = 8
	// maskMemoryBytes bounds the masks of a guest that are remembered for one source.
	maskMemoryBytes = 4 << 20
)

// preparedGrammar is a grammar ready for use, shared by the requests that have it.
type preparedGrammar struct {
	native    *grammar.Grammar // nil where a guest computes the masks
	masks     *maskMemory      // of such a guest
	form      uint64           // stands for what the plugin compiled to
	dropped   []Dropped
	baseBytes int64 // bytes, without the states that texts reach
}

// bytes estimates the grammar's current size.
func (m *preparedGrammar) bytes() int64 {
	n := m.baseBytes
	if m.native != nil {
		n += m.native.Bytes()
	}
	if m.masks != nil {
		n += m.masks.size()
	}
	return n
}

// GrammarStats counts compiled grammars, their cache and their masks.
type GrammarStats struct {
	Compiled uint64  // by plugins, failures among them
	Shared   uint64  // requests that waited for another's compilation
	Found    uint64  // requests whose grammar was cached
	Seconds  float64 // that they ran, without waiting for others
	Kept     int     // now
	Bytes    int64   // of those that are kept, about
	Evicted  uint64  // grammars evicted to free memory
	Limit    int64   // of Bytes
	Masks    grammar.CacheStats

	Asked       uint64  // masks that sequences asked for, of grammars that are run natively
	MaskSeconds float64 // that they took
	DeadEnds    uint64  // of them, those where no token goes on or a limit was reached
}

// maskCounts counts the masks of all sequences.
type maskCounts struct{ requests, nanoseconds, deadEnds atomic.Uint64 }

// add counts a mask.
func (c *maskCounts) add(took time.Duration, err error) {
	c.requests.Add(1)
	c.nanoseconds.Add(uint64(took))
	if errors.Is(err, grammar.ErrStuck) || errors.Is(err, grammar.ErrLimit) {
		c.deadEnds.Add(1)
	}
}

// maskTime bounds the time that the masks of a request take, one with the other: a text may have many tokens, and a
// request many texts.
type maskTime struct {
	most  time.Duration // 0: no bound
	spent atomic.Int64
}

// add counts time that was spent.
func (m *maskTime) add(took time.Duration) { m.spent.Add(int64(took)) }

// over returns the error of a request that has spent all its time.
func (m *maskTime) over() error {
	spent := time.Duration(m.spent.Load())
	if m.most == 0 || spent < m.most {
		return nil
	}
	return fmt.Errorf("%w: time of the masks of one request (plugins.grammar_time): at most %v, got %v",
		grammar.ErrLimit, m.most, spent)
}

// abandon counts the time of a try that did not become a mask.
func (c *maskCounts) abandon(took time.Duration) { c.nanoseconds.Add(uint64(took)) }

// GrammarStats reads the counters.
func (s *Set) GrammarStats() GrammarStats {
	c := &s.grammars
	c.mu.Lock()
	defer c.mu.Unlock()
	out := c.stats
	out.Kept, out.Bytes, out.Limit = c.order.Len(), c.size(), c.limit
	out.Asked, out.DeadEnds = c.masks.requests.Load(), c.masks.deadEnds.Load()
	out.MaskSeconds = time.Duration(c.masks.nanoseconds.Load()).Seconds()
	if c.vocab != nil {
		out.Masks = c.vocab.CacheStats()
	}
	return out
}

// grammarCache is an LRU cache of grammars. Requests for the same grammar at the same time share one compilation. open
// is called first.
type grammarCache struct {
	compiling sync.WaitGroup // the flights; Set.Close awaits them
	mu        sync.Mutex
	ready     map[[sha256.Size]byte]*list.Element // of *keptGrammar
	order     list.List                           // the latest used first
	flights   map[[sha256.Size]byte]*flight
	turns     *Turns
	stats     GrammarStats // the counters
	masks     maskCounts
	vocab     *grammar.Vocab // nil until it is made
	limit     int64          // bytes of grammars
	account   *sandbox.Cache // of the memory for plugins
}

// open registers the cache with the plugin memory; the result is how many bytes masks may take.
func (c *grammarCache) open(t *Turns, m *Memory, bytes int64) (masks int64) {
	c.turns = t
	if bytes == 0 {
		bytes = grammarsBytes
	}
	masks = bytes / maskShare
	c.limit = bytes - masks
	c.account = m.NewCache(c.shrink)
	return masks
}

// close cancels the compilations and empties the cache.
func (c *grammarCache) close() {
	c.mu.Lock()
	for _, f := range c.flights {
		f.cancel()
	}
	c.mu.Unlock()
	c.compiling.Wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.evict(c.size(), 0)
	c.account.Close()
}

type cachedGrammar struct {
	key [sha256.Size]byte
	*preparedGrammar
}

// flight is a compilation under way.
type flight struct {
	client  string // whose breaker and instances it needs
	turn    *turn
	waiters int
	cancel  context.CancelFunc
	done    chan struct{} // closed when the fields below are set
	made    *preparedGrammar
	err     error
}

// buildGrammar compiles a grammar.
type buildGrammar func(context.Context, *turn) (*preparedGrammar, error)

// get returns the grammar of a key. Unless it is cached or being compiled, build compiles it for the part's client and
// with a reference to its version. The context of build ends when nobody waits for it any more.
func (c *grammarCache) get(ctx context.Context, p *part, key [sha256.Size]byte, build buildGrammar) (*preparedGrammar,
	error) {
	for {
		m, again, err := c.try(ctx, p, key, build)
		if !again {
			return m, err
		}
	}
}

// try is get, unless it waits for another client's compilation and that client may have none; then it is to be called
// again.
func (c *grammarCache) try(ctx context.Context, p *part, key [sha256.Size]byte, build buildGrammar) (m *preparedGrammar,
	again bool, err error) {
	c.mu.Lock()
	if e := c.ready[key]; e != nil {
		c.order.MoveToFront(e)
		c.stats.Found++
		m := e.Value.(*cachedGrammar).preparedGrammar
		c.trim()
		c.mu.Unlock()
		return m, false, nil
	}
	f := c.flights[key]
	if f == nil {
		f = c.begin(p, key, build)
	} else {
		c.stats.Shared++
		f.turn.join(p.client)
	}
	f.waiters++
	c.mu.Unlock()
	select {
	case <-f.done:
		again = f.client != p.client && (errors.Is(f.err, ErrOff) || errors.Is(f.err, ErrBusy))
		return f.made, again, f.err
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
	return nil, false, context.Cause(ctx)
}

// begin starts a compilation. The lock is held.
func (c *grammarCache) begin(p *part, key [sha256.Size]byte, build buildGrammar) *flight {
	if c.flights == nil {
		c.flights, c.ready = map[[sha256.Size]byte]*flight{}, map[[sha256.Size]byte]*list.Element{}
	}
	ctx, cancel := context.WithCancel(context.Background())
	f := &flight{client: p.client, turn: c.turns.newTurn(), cancel: cancel, done: make(chan struct{})}
	f.turn.join(p.client)
	p.version.ref() // the request may leave before the compilation ends
	c.flights[key] = f
	c.compiling.Go(func() { // bounded by fuel and limits
		defer cancel()
		m, err := c.compile(ctx, f.turn, build)
		p.version.unref()
		c.mu.Lock()
		if c.flights[key] == f {
			delete(c.flights, key)
			if err == nil {
				c.add(key, m)
			}
		}
		c.mu.Unlock()
		f.made, f.err = m, err
		close(f.done)
	})
	return f
}

// compile has build make a grammar.
func (c *grammarCache) compile(ctx context.Context, t *turn, build buildGrammar) (*preparedGrammar, error) {
	if !t.start(ctx) {
		t.end()
		return nil, context.Cause(ctx)
	}
	m, err := build(ctx, t)
	ran := t.end()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stats.Compiled++
	c.stats.Seconds += ran.Seconds()
	return m, err
}

// add caches a grammar. The lock is held.
func (c *grammarCache) add(key [sha256.Size]byte, m *preparedGrammar) {
	c.ready[key] = c.order.PushFront(&cachedGrammar{key, m})
	c.trim()
}

// maxGrammars bounds the number of cached grammars, since each request walks over all of them to sum their sizes.
const maxGrammars = 2000

// settle counts what the grammars take now: they grow while they are used. Each request does so at its end.
func (c *grammarCache) settle() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.trim()
}

// trim evicts the least recently used grammars. Grammars grow while they are used, so each request checks the limit.
// The lock is held.
func (c *grammarCache) trim() {
	c.evict(c.size()-c.limit, 1)
	if excess := c.account.Set(c.size() + c.maskBytes()); excess > 0 {
		c.evictBytes(excess)
	}
}

// shrink evicts about so many bytes, because others need them.
func (c *grammarCache) shrink(bytes int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.evictBytes(bytes)
}

// evictBytes evicts grammars, then masks. The lock is held.
func (c *grammarCache) evictBytes(bytes int64) {
	before := c.size()
	c.evict(bytes, 0)
	if left := bytes - (before - c.size()); left > 0 && c.vocab != nil {
		c.vocab.Shrink(left)
	}
	c.account.Set(c.size() + c.maskBytes())
}

// evict removes grammars, the least recently used first, until so many bytes are freed and at most maxGrammars are
// left. It keeps at least least of them. The lock is held.
func (c *grammarCache) evict(bytes int64, least int) {
	for c.order.Len() > least && (bytes > 0 || c.order.Len() > maxGrammars) {
		last := c.order.Remove(c.order.Back()).(*cachedGrammar)
		delete(c.ready, last.key)
		bytes -= last.bytes()
		c.stats.Evicted++
	}
}

// maskBytes is the size of the masks that grammars share. The lock is held.
func (c *grammarCache) maskBytes() int64 {
	if c.vocab == nil {
		return 0
	}
	return c.vocab.CacheStats().Bytes
}

// size is the size of the cached grammars. The lock is held.
func (c *grammarCache) size() (n int64) {
	for e := c.order.Front(); e != nil; e = e.Next() {
		n += e.Value.(*cachedGrammar).bytes()
	}
	return n
}

// vocabulary returns the tokens prepared for masks. The first call prepares them.
func (s *Set) vocabulary() *grammar.Vocab {
	v := s.vocab()
	s.grammars.mu.Lock()
	defer s.grammars.mu.Unlock()
	s.grammars.vocab = v
	return v
}

// maskMemory caches the masks of a guest for one source. It implements kind.Masks; the zero value is ready.
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
