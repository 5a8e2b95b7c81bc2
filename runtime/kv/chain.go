package kv

import (
	"crypto/sha256"

	"tgi/runtime/llm"
)

// Block names the contents of a full block.
type Block struct {
	// Key is the block's.
	Key Key
	// Source is what the key is the sum of: the key before it, the tokens, and where embeddings are in their place. Who
	// keeps blocks elsewhere compares it, so that nothing rests on the sum alone.
	Source []byte
	// Depth is how many blocks are before it.
	Depth int
	// Plain says that nothing but tokens decides what is in it.
	Plain bool
}

// Chain names the full blocks of tokens that Find can find for a row like r, in blocks of size tokens. It changes
// nothing.
func (r *Row) Chain(tokens []llm.Token, size int) []Block {
	n := max(len(tokens)-1, 0) / size
	blocks, keys := make([]Block, n), make([]Key, n)
	for j := range blocks {
		source := r.appendSource(make([]byte, 0, sha256.Size+4*size), r.parent(keys, j), tokens, j, size)
		keys[j] = sha256.Sum256(source)
		blocks[j] = Block{Key: keys[j], Source: source, Depth: j, Plain: r.plain((j + 1) * size)}
	}
	return blocks
}

// Lookup returns the block that can be found by a key.
func (p *Pool) Lookup(k Key) (block int32, ok bool) {
	block, ok = p.table[k]
	return block, ok
}

// Refresh makes the blocks of a chain that no row holds the most recently used, its beginning more so than its end:
// without its beginning the rest of a chain is of no use.
func (p *Pool) Refresh(chain []Block) {
	for i := len(chain) - 1; i >= 0; i-- {
		if b, ok := p.table[chain[i].Key]; ok && p.refs[b] == 0 {
			p.lru.remove(b)
			p.lru.push(b)
		}
	}
}

// Import makes a block findable by its key, if none is: write fills it, and nobody sees it if that fails. It evicts the
// least recently used block where none is free, and reports whether there was one. The block is evicted before those in
// front of it in its chain.
func (p *Pool) Import(block Block, write func(block int32) error) (done bool, err error) {
	if _, dup := p.table[block.Key]; dup || !p.share {
		return true, nil
	}
	if p.Available() == 0 {
		return false, nil
	}
	b := p.alloc()
	if err := write(b); err != nil {
		p.release(b)
		return false, err
	}
	p.publish(b, block.Key)
	p.tellImported(b, block)
	p.release(b)
	if parent, ok := p.table[Key(block.Source[:len(Key{})])]; ok && p.refs[parent] == 0 {
		p.lru.remove(b)
		p.lru.insert(b, parent)
	}
	return true, nil
}
