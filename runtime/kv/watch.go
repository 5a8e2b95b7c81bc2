package kv

import (
	"crypto/sha256"
	"encoding/binary"

	"tgi/runtime/llm"
)

// Watcher is told which blocks can be found, by the goroutine that owns the pool: it must not wait for anything. It is
// told of blocks that depend on their tokens and those before them alone. Those of rows with a salt, such as an
// adapter's, and those with or after embeddings, such as an image's, are not for it.
type Watcher interface {
	// Stored says that a block can be found by its key. Parent is the key of the block before it, unless it is the
	// first. Tokens are valid until the return.
	Stored(key, parent Key, first bool, tokens []llm.Token)
	// Removed says that a block that was stored cannot be found any more.
	Removed(key Key)
}

// Watch tells w of all blocks from now on. No block may be findable yet.
func (p *Pool) Watch(w Watcher) {
	p.watcher, p.told = w, make([]bool, len(p.refs))
}

var plainSalt = Key(sha256.Sum256(nil))

// plain reports whether nothing but tokens decides what is in the blocks of the first n.
func (r *Row) plain(n int) bool {
	return r.salt == plainSalt && (len(r.embeddings) == 0 || r.embeddings[0].At >= n)
}

func (p *Pool) tell(b int32, k, parent Key, first bool, tokens []llm.Token) {
	p.told[b] = true
	p.watcher.Stored(k, parent, first, tokens)
}

// untell tells that block b cannot be found, if it was told of it.
func (p *Pool) untell(b int32) {
	if p.watcher != nil && p.told[b] {
		p.told[b] = false
		p.watcher.Removed(p.keys[b])
	}
}

// tellImported tells of a block that was not computed here.
func (p *Pool) tellImported(at int32, b Block) {
	if p.watcher == nil || !b.Plain {
		return
	}
	tokens := make([]llm.Token, p.size)
	for i := range tokens {
		tokens[i] = binary.LittleEndian.Uint32(b.Source[sha256.Size+4*i:])
	}
	p.tell(at, b.Key, Key(b.Source[:sha256.Size]), b.Depth == 0, tokens)
}
