// Package kv does the block accounting of a paged KV cache (as in vLLM's PagedAttention,
// Kwon et al. 2023): which fixed-size blocks of keys and values belong to which
// sequence, which blocks are shared, and which hold a prefix that a later sequence
// can reuse. It holds no tensors: the backend owns those and receives block numbers.
//
// A block is in one of three states, and the counts add up to the total:
//
//	used    at least one row holds a reference to it
//	cached  no row holds it, but it can be found by its key
//	free    no row holds it and it has no key
//
// The only caller is runtime/sched. Nothing here starts goroutines or is safe for
// concurrent use: the goroutine that owns the scheduler owns the pool.
//
// The reasons behind it: docs/rationale/runtime.md.
package kv

import (
	"crypto/sha256"
	"fmt"
	"math"
	"slices"

	"tgi/runtime/llm"
)

// Config sizes a Pool.
type Config struct {
	// Blocks is how many blocks the backend has; >= 1.
	Blocks int
	// BlockSize is how many tokens a block holds; >= 1.
	BlockSize int
	// Share turns on prefix caching: rows with equal prefixes share blocks.
	Share bool
}

// Pool is the set of all blocks of one model's cache.
type Pool struct {
	size  int
	share bool

	refs     []int32 // reference count of each block
	keys     []Key   // the key of each findable block
	findable []bool  // whether the block is in table under keys[b]
	table    map[Key]int32
	free     []int32 // stack of free blocks
	lru      lruList // cached blocks, least recently used first
	used     int

	scratch []byte // input of the hash

	watcher Watcher // nil without
	told    []bool  // which findable blocks it was told of
}

// New returns a pool with all blocks free. It fails when a size is below 1.
func New(c Config) (*Pool, error) {
	if c.Blocks < 1 {
		return nil, fmt.Errorf("kv: blocks must be at least 1, got %d", c.Blocks)
	}
	if c.BlockSize < 1 {
		return nil, fmt.Errorf("kv: block size must be at least 1, got %d", c.BlockSize)
	}
	p := &Pool{
		size:     c.BlockSize,
		share:    c.Share,
		refs:     make([]int32, c.Blocks),
		keys:     make([]Key, c.Blocks),
		findable: make([]bool, c.Blocks),
		table:    make(map[Key]int32),
		free:     make([]int32, c.Blocks),
		lru:      newLRU(c.Blocks),
		scratch:  make([]byte, sha256.Size+4*c.BlockSize),
	}
	for i := range p.free { // block 0 is taken first
		p.free[i] = int32(c.Blocks - 1 - i)
	}
	return p, nil
}

// BlockSize returns the tokens of one block.
func (p *Pool) BlockSize() int { return p.size }

// Total returns the number of blocks.
func (p *Pool) Total() int { return len(p.refs) }

// Used returns the number of blocks that rows hold.
func (p *Pool) Used() int { return p.used }

// Cached returns the number of blocks that no row holds but that can be found.
func (p *Pool) Cached() int { return p.lru.len }

// Available returns the number of blocks that Take can still hand out: the free
// ones and the cached ones, which it evicts.
func (p *Pool) Available() int { return len(p.free) + p.lru.len }

// BlocksFor returns how many blocks n tokens occupy.
func (p *Pool) BlocksFor(n int) int { return (n + p.size - 1) / p.size }

// Needs returns how many blocks Take would allocate for r to hold n tokens.
func (p *Pool) Needs(r *Row, n int) int {
	need := max(p.BlocksFor(n)-len(r.blocks), 0)
	if n > r.n && p.mustCopy(r) {
		need++
	}
	return need
}

// CanTake reports whether Take would succeed.
func (p *Pool) CanTake(r *Row, n int) bool { return p.Needs(r, n) <= p.Available() }

// Take allocates blocks until r has room for its first n tokens, writable from
// position r.Len on. If the last, partly filled block is shared with another row, r
// gets its own block (copy on write), and the copy that the backend must make is
// appended to copies. The backend makes the copies in order, before any write of the
// step. Take returns false and changes nothing when there are too few blocks.
func (p *Pool) Take(r *Row, n int, copies []llm.BlockCopy) ([]llm.BlockCopy, bool) {
	if !p.CanTake(r, n) {
		return copies, false
	}
	if n > r.n && p.mustCopy(r) {
		last := &r.blocks[r.n/p.size]
		own := p.alloc()
		copies = append(copies, llm.BlockCopy{Dst: own, Src: *last})
		p.release(*last)
		*last, r.cut = own, false
	}
	if n > r.n && r.cut { // its last holder writes into it
		p.unpublish(r.blocks[r.n/p.size])
		r.cut = false
	}
	for want := p.BlocksFor(n); len(r.blocks) < want; {
		r.blocks = append(r.blocks, p.alloc())
	}
	return copies, true
}

// mustCopy reports whether the block that r writes next is shared, so that the row
// has to copy it first.
func (p *Pool) mustCopy(r *Row) bool {
	return r.n%p.size != 0 && p.refs[r.blocks[r.n/p.size]] > 1
}

// Commit records that r's blocks hold the keys and values of tokens: the whole
// sequence up to its newest computed token that stays. Blocks that are full now can be found, but for what r withholds.
// What a step computed beyond tokens is as if it never was.
func (p *Pool) Commit(r *Row, tokens []llm.Token) {
	p.uncover(r, tokens, r.n, min(len(tokens), r.open))
	r.n = len(tokens)
}

// Show lets others find the computed ones of the first n tokens of a row that withholds them. tokens are its
// sequence's.
func (p *Pool) Show(r *Row, tokens []llm.Token, n int) {
	if n <= r.open {
		return
	}
	p.uncover(r, tokens, min(r.open, r.n), min(n, r.n))
	r.open = n
}

// uncover makes the blocks of r that end behind the first `from` tokens, and within the first `to`, findable.
func (p *Pool) uncover(r *Row, tokens []llm.Token, from, to int) {
	if !p.share {
		return
	}
	for i := from / p.size; i < to/p.size; i++ {
		k := p.key(r, tokens, i)
		if p.publish(r.blocks[i], k) && p.watcher != nil && r.plain((i+1)*p.size) {
			p.tell(r.blocks[i], k, *r.parent(r.keys, i), i == 0, tokens[i*p.size:(i+1)*p.size])
		}
	}
}

// publish makes block b findable unless an equal one already is, and reports which.
func (p *Pool) publish(b int32, k Key) bool {
	if _, dup := p.table[k]; dup {
		return false
	}
	p.table[k], p.keys[b], p.findable[b] = b, k, true
	return true
}

// unpublish makes a findable block one that cannot be found.
func (p *Pool) unpublish(b int32) {
	delete(p.table, p.keys[b])
	p.findable[b] = false
	p.untell(b)
}

// Trim releases the blocks of r beyond those of its first n tokens, n >= r.Len. Nothing was computed there that stays.
func (p *Pool) Trim(r *Row, n int) {
	want := p.BlocksFor(max(n, r.n))
	for i := len(r.blocks) - 1; i >= want; i-- {
		p.release(r.blocks[i])
	}
	r.blocks = r.blocks[:min(want, len(r.blocks))]
}

// Truncate says that only the first `tokens` of r's sequence are left, and takes back all but the first n computed
// ones, n <= r.Len. It releases the blocks beyond them, and takes none. The block of the last one that is left may be
// findable or shared; the next Take makes it r's own. If n is r.Len, r keeps the blocks of all tokens that are left.
func (p *Pool) Truncate(r *Row, n, tokens int) {
	if n < 0 || n > r.n || n > tokens {
		panic(fmt.Sprintf("BUG: kv: a row of %d tokens is cut to %d of %d", r.n, n, tokens))
	}
	r.keys = r.keys[:min(len(r.keys), tokens/p.size)]
	if r.open != math.MaxInt {
		r.open = min(r.open, tokens)
	}
	if n == r.n {
		p.Trim(r, tokens)
		return
	}
	r.n, r.cut = n, false
	p.Trim(r, n)
	r.cut = n%p.size != 0 && p.findable[r.blocks[n/p.size]]
}

// Find extends r with the blocks that the pool already holds for the tokens after
// r's computed ones. It returns how many tokens need not be computed. It leaves at
// least one token, because a sequence with nothing to compute would have no logits.
func (p *Pool) Find(r *Row, tokens []llm.Token) int {
	if !p.share || r.n%p.size != 0 {
		return 0
	}
	start := r.n
	for i := r.n / p.size; i < (len(tokens)-1)/p.size; i++ {
		b, ok := p.table[p.key(r, tokens, i)]
		if !ok {
			break
		}
		p.addRef(b)
		if i < len(r.blocks) { // allocated earlier for this position
			p.release(r.blocks[i])
			r.blocks[i] = b
		} else {
			r.blocks = append(r.blocks, b)
		}
		r.n += p.size
	}
	return r.n - start
}

// Give releases r's blocks. Full, computed blocks stay findable until they are
// evicted, the end of the sequence before its beginning.
func (p *Pool) Give(r *Row) {
	for i := len(r.blocks) - 1; i >= 0; i-- {
		p.release(r.blocks[i])
	}
	r.blocks, r.n, r.cut = r.blocks[:0], 0, false
}

// Frees returns how many blocks would become available if Give were called for the rows.
func (p *Pool) Frees(rows []*Row) (n int) {
	held := map[int32]int32{}
	for _, r := range rows {
		for _, b := range r.blocks {
			if held[b]++; held[b] == p.refs[b] {
				n++
			}
		}
	}
	return n
}

// Fork returns a row that shares all computed tokens of r. It allocates no block:
// whichever row first writes into a shared, partly filled block copies it.
func (p *Pool) Fork(r *Row) *Row {
	named := min(len(r.keys), r.n/p.size) // the rows may differ after that
	f := &Row{
		base:   r.base,
		salt:   r.salt,
		n:      r.n,
		cut:    r.cut,
		open:   r.open,
		blocks: slices.Clone(r.blocks[:p.BlocksFor(r.n)]),
		keys:   slices.Clone(r.keys[:named]),

		embeddings: r.embeddings,
	}
	for _, b := range f.blocks {
		p.addRef(b)
	}
	return f
}

// Adopt makes r share the first n computed tokens of from. r must hold no block, n
// must be a multiple of BlockSize and at most from.Len, and both rows must have the
// same first n tokens.
func (p *Pool) Adopt(r, from *Row, n int) {
	if len(r.blocks) > 0 || n%p.size != 0 || n > from.n {
		panic(fmt.Sprintf("BUG: kv: a row of %d blocks adopts %d of %d tokens in blocks of %d", len(r.blocks), n,
			from.n, p.size))
	}
	for _, b := range from.blocks[:n/p.size] {
		p.addRef(b)
		r.blocks = append(r.blocks, b)
	}
	r.n = n
}

// alloc returns a block to write to: a free one, or else the least recently used
// cached one, which it evicts.
func (p *Pool) alloc() int32 {
	var b int32
	if n := len(p.free); n > 0 {
		b = p.free[n-1]
		p.free = p.free[:n-1]
	} else {
		b = p.lru.oldest()
		p.lru.remove(b)
		p.unpublish(b)
	}
	p.refs[b] = 1
	p.used++
	return b
}

// addRef adds a reference to a block that is used or cached.
func (p *Pool) addRef(b int32) {
	if p.refs[b] == 0 {
		p.lru.remove(b)
		p.used++
	}
	p.refs[b]++
}

// release drops a reference; without references the block becomes cached or free.
func (p *Pool) release(b int32) {
	p.refs[b]--
	if p.refs[b] > 0 {
		return
	}
	p.used--
	if p.findable[b] {
		p.lru.push(b)
	} else {
		p.free = append(p.free, b)
	}
}
