package token

import (
	"hash/maphash"
	"slices"
	"strings"
	"sync/atomic"
)

const (
	// maxCachedWord is the longest cached word, in bytes.
	maxCachedWord = 64
	// cacheSlots limits the cache to about 5 MB at worst; English needs about a tenth of it.
	cacheSlots = 1 << 14
)

// wordCache is a direct-mapped cache of the tokens of words. A slot holds the last word that
// hashed to it, so the cache never grows. Entries are immutable, so it needs no lock.
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

// put caches copies of word and symbols: the word may be part of a large text, the symbols of
// a scratch buffer.
func (c *wordCache) put(slot uint64, word string, symbols []symbol) {
	c.slots[slot].Store(&wordEntry{strings.Clone(word), slices.Clone(symbols)})
}
