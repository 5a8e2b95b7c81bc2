package grammar

import "sync"

// cache is an LRU cache of masks, by the hash of their term or set. All grammars of a vocabulary share it.
type cache struct {
	mu      sync.Mutex
	limit   int64
	bytes   int64
	hits    int64
	misses  int64
	evicted int64
	at      map[cacheKey]*cached
	ring    cached // next is the most recently used, prev the least
}

type cacheKey struct {
	h    hash
	term bool
}

type cached struct {
	key        cacheKey
	mask       *mask
	prev, next *cached
}

func newCache(limit int64) *cache {
	c := &cache{limit: limit, at: map[cacheKey]*cached{}}
	c.ring.prev, c.ring.next = &c.ring, &c.ring
	return c
}

func (c *cache) get(k cacheKey) *mask {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.at[k]
	if e == nil {
		c.misses++
		return nil
	}
	c.hits++
	e.unlink()
	c.front(e)
	return e.mask
}

func (c *cache) put(k cacheKey, m *mask) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.at[k] != nil {
		return // another goroutine stored it first
	}
	e := &cached{key: k, mask: m}
	c.at[k] = e
	c.front(e)
	c.bytes += m.bytes()
	c.trim(c.limit)
}

// trim evicts masks until at most so many bytes remain. The caller holds the lock.
func (c *cache) trim(bytes int64) {
	for c.bytes > bytes && c.ring.prev != &c.ring {
		old := c.ring.prev
		old.unlink()
		delete(c.at, old.key)
		c.bytes -= old.mask.bytes()
		c.evicted++
	}
}

func (c *cache) front(e *cached) {
	e.prev, e.next = &c.ring, c.ring.next
	e.prev.next, e.next.prev = e, e
}

func (e *cached) unlink() { e.prev.next, e.next.prev = e.next, e.prev }

// CacheStats has the counters of a vocabulary's mask cache.
type CacheStats struct {
	Hits, Misses, Evicted int64
	Entries, Bytes, Limit int64
}

// CacheStats returns the counters.
func (p *Vocab) CacheStats() CacheStats {
	c := p.cache
	c.mu.Lock()
	defer c.mu.Unlock()
	return CacheStats{Hits: c.hits, Misses: c.misses, Evicted: c.evicted, Entries: int64(len(c.at)), Bytes: c.bytes,
		Limit: c.limit}
}

// Shrink evicts masks of so many bytes in total, least recently used first.
func (p *Vocab) Shrink(bytes int64) {
	c := p.cache
	c.mu.Lock()
	defer c.mu.Unlock()
	c.trim(c.bytes - bytes)
}
