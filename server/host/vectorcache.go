package host

import (
	"container/list"
	"crypto/sha256"
	"sync"

	"tgi/server"
)

// vectorCache keeps the vectors of pictures, by the pictures' sums, up to a number of bytes: the longest unused go
// first. It is safe for concurrent use.
type vectorCache struct {
	most int64 // bytes

	mu    sync.Mutex // protects what follows
	bytes int64
	used  *list.List // of *cachedVectors, the last used first
	bySum map[[sha256.Size]byte]*list.Element

	evicted uint64
}

// cachedVectors are those of one picture.
type cachedVectors struct {
	sum     [sha256.Size]byte
	vectors []float32
}

func (c *cachedVectors) bytes() int64 { return int64(len(c.vectors)) * 4 }

func newVectorCache(most int64) *vectorCache {
	return &vectorCache{most: most, used: list.New(), bySum: map[[sha256.Size]byte]*list.Element{}}
}

// get returns the vectors of a picture, which must not change; nil if they are not there.
func (c *vectorCache) get(sum [sha256.Size]byte) []float32 {
	c.mu.Lock()
	defer c.mu.Unlock()
	at, ok := c.bySum[sum]
	if !ok {
		return nil
	}
	c.used.MoveToFront(at)
	return at.Value.(*cachedVectors).vectors
}

// put keeps the vectors of a picture, unless they are larger than the cache.
func (c *vectorCache) put(sum [sha256.Size]byte, vectors []float32) {
	one := &cachedVectors{sum, vectors}
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, ok := c.bySum[sum]; ok || one.bytes() > c.most {
		return
	}
	c.bySum[sum] = c.used.PushFront(one)
	for c.bytes += one.bytes(); c.bytes > c.most; {
		last := c.used.Remove(c.used.Back()).(*cachedVectors)
		c.bytes -= last.bytes()
		delete(c.bySum, last.sum)
		c.evicted++
	}
}

// metrics are what the metrics show of the cache of a model.
func (c *vectorCache) metrics(model string) server.CacheMetrics {
	c.mu.Lock()
	defer c.mu.Unlock()
	return server.CacheMetrics{Name: "images", Model: model, Bytes: c.bytes, Limit: c.most,
		Entries: int64(c.used.Len()), Evictions: c.evicted}
}
