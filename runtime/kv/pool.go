// Package kv keeps the books of the cache: which fixed-size blocks of keys and
// values belong to which sequence, which are shared, and which hold a prefix
// that a later sequence may find. It holds no tensors; a backend owns those and
// is told block numbers.
//
// A block is in one of three states, and their counts add up to the total:
//
//	used    at least one row holds it
//	cached  nobody holds it, but its contents can still be found
//	free    nobody holds it and nothing can be found in it
//
// Nothing here is safe for concurrent use: the scheduler's goroutine owns it all.
//
// The reasons behind it: docs/rationale/runtime.md.
package kv

import (
	"crypto/sha256"
	"fmt"
	"slices"

	"tgi/runtime/llm"
)

// Config is the size and the manner of a Pool.
type Config struct {
	// Blocks is how many blocks the backend has; >= 1.
	Blocks int
	// BlockSize is how many tokens a block holds; >= 1.
	BlockSize int
	// Share lets rows find and share blocks of equal prefixes.
	Share bool
}

// Pool is the set of all blocks of one model's cache.
type Pool struct {
	size  int
	share bool

	refs  []int32 // holders of each block
	keys  []Key   // what each findable block holds
	found []bool  // whether the block is in table under keys[b]
	table map[Key]int32
	free  []int32 // stack of blocks that hold nothing
	lru   lruList // cached blocks, the longest unused first
	used  int

	scratch []byte // input of the hash
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
		size:    c.BlockSize,
		share:   c.Share,
		refs:    make([]int32, c.Blocks),
		keys:    make([]Key, c.Blocks),
		found:   make([]bool, c.Blocks),
		table:   make(map[Key]int32),
		free:    make([]int32, c.Blocks),
		lru:     newLRU(c.Blocks),
		scratch: make([]byte, sha256.Size+4*c.BlockSize),
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

// Cached returns the number of blocks that nobody holds but that can be found.
func (p *Pool) Cached() int { return p.lru.len }

// Available returns the number of blocks that Take can still hand out: the free
// ones and, by forgetting what they hold, the cached ones.
func (p *Pool) Available() int { return len(p.free) + p.lru.len }

// BlocksFor returns how many blocks n tokens occupy.
func (p *Pool) BlocksFor(n int) int { return (n + p.size - 1) / p.size }

// Needs returns how many blocks Take would have to take for r to hold n tokens.
func (p *Pool) Needs(r *Row, n int) int {
	need := max(p.BlocksFor(n)-len(r.blocks), 0)
	if n > r.n && p.mustCopy(r) {
		need++
	}
	return need
}

// CanTake reports whether Take would succeed.
func (p *Pool) CanTake(r *Row, n int) bool { return p.Needs(r, n) <= p.Available() }

// Take makes room in r for its first n tokens, all of them writable from
// position r.Len on. Where the last, partly filled block is shared with another
// row, r gets a block of its own and the copy that the backend must make is
// appended to copies; copies must be made in their order and before any write of
// the step. Take reports false and changes nothing when there are too few blocks.
func (p *Pool) Take(r *Row, n int, copies []llm.BlockCopy) ([]llm.BlockCopy, bool) {
	if !p.CanTake(r, n) {
		return copies, false
	}
	if n > r.n && p.mustCopy(r) {
		last := &r.blocks[r.n/p.size]
		own := p.grab()
		copies = append(copies, llm.BlockCopy{Dst: own, Src: *last})
		p.drop(*last)
		*last = own
	}
	for want := p.BlocksFor(n); len(r.blocks) < want; {
		r.blocks = append(r.blocks, p.grab())
	}
	return copies, true
}

// mustCopy reports whether the block that r writes next is shared.
func (p *Pool) mustCopy(r *Row) bool {
	return r.n%p.size != 0 && p.refs[r.blocks[r.n/p.size]] > 1
}

// Commit records that the keys and values of tokens, the whole sequence up to
// its newest computed token, are in r's blocks. Blocks that thereby became full
// can be found from now on.
func (p *Pool) Commit(r *Row, tokens []llm.Token) {
	if p.share {
		for i := r.n / p.size; i < len(tokens)/p.size; i++ {
			p.publish(r.blocks[i], p.key(r, tokens, i))
		}
	}
	r.n = len(tokens)
}

// publish makes block b findable unless an equal one already is.
func (p *Pool) publish(b int32, k Key) {
	if _, dup := p.table[k]; dup {
		return
	}
	p.table[k], p.keys[b], p.found[b] = b, k, true
}

// Find moves r forward over the blocks that follow its computed tokens and that
// the pool already holds for the same prefix. It returns the number of tokens
// that need not be computed. At least one token of tokens is left over, because
// a sequence without a token to compute would have no logits.
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
		p.hold(b)
		if i < len(r.blocks) { // taken ahead for this very place
			p.drop(r.blocks[i])
			r.blocks[i] = b
		} else {
			r.blocks = append(r.blocks, b)
		}
		r.n += p.size
	}
	return r.n - start
}

// Give returns r's blocks. Full computed ones stay findable until their space is
// needed, the end of the sequence being forgotten before its beginning.
func (p *Pool) Give(r *Row) {
	for i := len(r.blocks) - 1; i >= 0; i-- {
		p.drop(r.blocks[i])
	}
	r.blocks, r.n = r.blocks[:0], 0
}

// Fork returns a row that shares all computed tokens of r. It takes no block:
// the first of the two that writes into a shared, partly filled block copies it.
func (p *Pool) Fork(r *Row) *Row {
	named := min(len(r.keys), r.n/p.size) // what follows may differ from here on
	f := &Row{
		salt:   r.salt,
		n:      r.n,
		blocks: slices.Clone(r.blocks[:p.BlocksFor(r.n)]),
		keys:   slices.Clone(r.keys[:named]),
	}
	for _, b := range f.blocks {
		p.hold(b)
	}
	return f
}

// Adopt has r, which must hold no block, share the first n computed tokens of from.
// n is a multiple of BlockSize and not above from.Len, and the tokens of both rows
// are the same up to there.
func (p *Pool) Adopt(r, from *Row, n int) {
	if len(r.blocks) > 0 || n%p.size != 0 || n > from.n {
		panic(fmt.Sprintf("BUG: kv: a row of %d blocks adopts %d of %d tokens in blocks of %d", len(r.blocks), n, from.n, p.size))
	}
	for _, b := range from.blocks[:n/p.size] {
		p.hold(b)
		r.blocks = append(r.blocks, b)
	}
	r.n = n
}

// grab hands out a block for writing: a free one, else the longest unused cached one.
func (p *Pool) grab() int32 {
	var b int32
	if n := len(p.free); n > 0 {
		b = p.free[n-1]
		p.free = p.free[:n-1]
	} else {
		b = p.lru.oldest()
		p.lru.remove(b)
		delete(p.table, p.keys[b])
		p.found[b] = false
	}
	p.refs[b] = 1
	p.used++
	return b
}

// hold adds a holder to a block that is used or cached.
func (p *Pool) hold(b int32) {
	if p.refs[b] == 0 {
		p.lru.remove(b)
		p.used++
	}
	p.refs[b]++
}

// drop takes a holder away.
func (p *Pool) drop(b int32) {
	p.refs[b]--
	if p.refs[b] > 0 {
		return
	}
	p.used--
	if p.found[b] {
		p.lru.push(b)
	} else {
		p.free = append(p.free, b)
	}
}
