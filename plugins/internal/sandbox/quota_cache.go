package sandbox

import (
	"cmp"
	"slices"
)

// Cache is a part of a quota for what is remembered and can be made again. It is safe for concurrent use; Close it.
type Cache struct {
	q      *Quota
	shrink func(bytes int64)
	bytes  int64 // guarded by the quota's lock
}

// NewCache begins to count a cache. shrink is to forget about so many bytes, and to say by Set what is left; it is
// called from any goroutine, with no lock held.
func (q *Quota) NewCache(shrink func(bytes int64)) *Cache {
	c := &Cache{q: q, shrink: shrink}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.caches[c] = struct{}{}
	return c
}

// Set says what the cache takes now. The result is how many bytes of it are to go: those that others need.
func (c *Cache) Set(bytes int64) (excess int64) {
	q := c.q
	q.mu.Lock()
	defer q.mu.Unlock()
	if _, open := q.caches[c]; !open {
		return 0
	}
	delta := bytes - c.bytes
	c.bytes = bytes
	q.use(delta)
	q.cacheBytes += delta
	if delta < 0 {
		q.grantPending()
	}
	if q.c.Bytes == 0 {
		return 0
	}
	return min(bytes, max(0, q.used-(q.c.Bytes-q.c.Bytes/8)))
}

// Close ends the counting. Closing twice is fine.
func (c *Cache) Close() {
	c.Set(0)
	c.q.mu.Lock()
	defer c.q.mu.Unlock()
	delete(c.q.caches, c)
}

// Shrink has caches forget about so many bytes, the largest first.
func (q *Quota) Shrink(bytes int64) { q.shrink(bytes) }

func (q *Quota) shrink(bytes int64) {
	type part struct {
		c     *Cache
		bytes int64
	}
	q.mu.Lock()
	var list []part
	for c := range q.caches {
		if c.bytes > 0 {
			list = append(list, part{c, c.bytes})
		}
	}
	q.mu.Unlock()
	slices.SortFunc(list, func(a, b part) int { return cmp.Compare(b.bytes, a.bytes) })
	for _, p := range list {
		if bytes <= 0 {
			return
		}
		p.c.shrink(min(bytes, p.bytes))
		bytes -= p.bytes
	}
}
