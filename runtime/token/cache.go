package token

import (
	"hash/maphash"
	"slices"
	"strings"
	"sync/atomic"
)

const (
	// maxCachedWord is the longest word, in bytes, that is remembered.
	maxCachedWord = 64
	// cacheSlots bounds the cache to about 5 MB in the worst case; English
	// needs about a tenth of it.
	cacheSlots = 1 << 14
)

// wordCache remembers the tokens of common words. A slot holds the last word
// that fell into it, so the cache never grows; entries are immutable, so
// readers and writers need no lock.
type wordCache struct {
	seed  maphash.Seed
	slots []atomic.Pointer[wordEntry]
}

type wordEntry struct {
	word    string
	symbols []symbol
}

func newWordCache() wordCache {
	return wordCache{maphash.MakeSeed(), make([]atomic.Pointer[wordEntry], cacheSlots)}
}

func (c *wordCache) hash(word string) uint64 {
	return maphash.String(c.seed, word) % cacheSlots
}

func (c *wordCache) find(slot uint64, word string) *wordEntry {
	if e := c.slots[slot].Load(); e != nil && e.word == word {
		return e
	}
	return nil
}

// put remembers the word. It copies: word may be part of a large text, and
// symbols of a scratch buffer.
func (c *wordCache) put(slot uint64, word string, symbols []symbol) {
	c.slots[slot].Store(&wordEntry{strings.Clone(word), slices.Clone(symbols)})
}
