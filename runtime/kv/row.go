package kv

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math"

	"tgi/runtime/llm"
)

// Key identifies the contents of one full block: its tokens, the embeddings in their place, all that is before it,
// and the row's salt. It is a SHA-256 sum, so that no client can craft a prompt whose
// key collides with another client's and read that client's text.
type Key [sha256.Size]byte

// Row is the cache of one sequence. Its zero value is not ready, see NewRow.
type Row struct {
	base   Key // the salt that NewRow made
	salt   Key
	blocks []int32
	n      int
	// cut says that the last block is partly filled and findable: its other tokens were truncated, and nothing was
	// written there since.
	cut bool
	// keys[i] is the key of block i. They survive preemption and are computed once, unless tokens are truncated or the
	// salt changes.
	keys []Key
	// embeddings of the sequence.
	embeddings []llm.Embedding
	// open is how many of the row's first tokens may be in blocks that can be found.
	open int
}

// NewRow returns an empty row. Rows share blocks only with rows of equal salt (the engine's Request.Salt), and with
// equal embeddings at the places of equal tokens.
func NewRow(salt string, embeddings ...llm.Embedding) *Row {
	base := Key(sha256.Sum256([]byte(salt)))
	return &Row{base: base, salt: base, embeddings: embeddings, open: math.MaxInt}
}

// Withhold has a row without blocks keep all but its first n tokens from others, until Show: none of the blocks beyond
// can be found, not even by the row itself.
func (r *Row) Withhold(n int) {
	if len(r.blocks) > 0 {
		panic(fmt.Sprintf("BUG: kv: Withhold of a row that holds %d blocks", len(r.blocks)))
	}
	r.open = n
}

// Resalt adds to the salt that NewRow gave a row without blocks, as its tokens are to be computed otherwise than they
// were; "" adds nothing.
func (r *Row) Resalt(more string) {
	if len(r.blocks) > 0 {
		panic(fmt.Sprintf("BUG: kv: Resalt of a row that holds %d blocks", len(r.blocks)))
	}
	if r.salt = r.base; more != "" {
		r.salt = sha256.Sum256(append(r.base[:], more...))
	}
	r.keys = r.keys[:0]
}

// Len returns the number of tokens whose keys and values have been computed.
func (r *Row) Len() int { return r.n }

// Blocks returns the row's blocks in order of position: a view that is valid until the
// row changes.
func (r *Row) Blocks() []int32 { return r.blocks }

// key returns the key of block i of tokens, which must be full, and caches it.
func (p *Pool) key(r *Row, tokens []llm.Token, i int) Key {
	for j := len(r.keys); j <= i; j++ {
		p.scratch = r.appendSource(p.scratch[:0], r.parent(r.keys, j), tokens, j, p.size)
		r.keys = append(r.keys, sha256.Sum256(p.scratch))
	}
	return r.keys[i]
}

// parent returns what the key of block j depends on beside the block itself, given the keys before it.
func (r *Row) parent(keys []Key, j int) *Key {
	if j == 0 {
		return &r.salt
	}
	return &keys[j-1]
}

// appendSource appends what the key of block j, of size tokens, is the sum of.
func (r *Row) appendSource(buf []byte, parent *Key, tokens []llm.Token, j, size int) []byte {
	buf = append(buf, parent[:]...)
	for _, t := range tokens[j*size : (j+1)*size] {
		buf = binary.LittleEndian.AppendUint32(buf, t)
	}
	for _, e := range r.embeddings {
		if part := e.Cut(j*size, (j+1)*size); part.N > 0 {
			for _, n := range []int{part.At - j*size, part.At - e.At, part.N, e.Columns} {
				buf = binary.LittleEndian.AppendUint32(buf, uint32(n))
			}
			buf = append(buf, e.Sum[:]...)
		}
	}
	return buf
}
