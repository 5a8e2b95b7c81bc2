package token

import (
	"slices"
	"strings"
)

// bpe is the byte-pair encoding model (Sennrich et al. 2016). Apart from its cache it is
// immutable.
type bpe struct {
	barredSet
	vocab  map[string]uint32
	merges pairTable
	// results[rank] is the token that the merge of that rank produces.
	results []uint32
	// raw says that words are raw bytes: the keys of vocab are byte strings, and bytes[b] is
	// the token of byte b.
	raw   bool
	bytes [256]uint32

	ignoreMerges bool
	unk          uint32
	hasUnk       bool
	fuseUnk      bool
	fallback     byteTokens
	// splitsAtMark says that no merge produces a token with a ▁ after anything but
	// another ▁, so that a text can be encoded word by word.
	splitsAtMark bool
	cache        wordCache
	// prefix is put before each character but the first of a word, suffix behind the last, to find their tokens.
	prefix, suffix string
}

// mark stands for a space in SentencePiece vocabularies.
const mark = "▁"

// segmentEnd returns the end of the first segment of s that no merge crosses. A model without
// a pre-tokenizer takes the whole text as one word; cutting it where nothing can be merged
// gives the same tokens and makes the cache useful.
func (m *bpe) segmentEnd(s string) int {
	if !m.splitsAtMark {
		return len(s)
	}
	i := 0
	for strings.HasPrefix(s[i:], mark) {
		i += len(mark)
	}
	if n := strings.Index(s[i:], mark); n >= 0 {
		return i + n
	}
	return len(s)
}

// detectMark sets splitsAtMark, given the results of all merges. It requires that no character
// is dropped, which would shift the offsets of the rest of a word.
func (m *bpe) detectMark(merged []string) {
	_, known := m.vocab[mark]
	whole := m.hasUnk || m.fallback.complete()
	m.splitsAtMark = known && whole && m.prefix+m.suffix == "" && !m.raw && !m.ignoreMerges &&
		!slices.ContainsFunc(merged, func(s string) bool {
			return strings.Contains(strings.TrimLeft(s, mark), mark)
		})
}

// encode implements model.
func (m *bpe) encode(word string, out []symbol) []symbol {
	if m.ignoreMerges {
		if id, ok := m.vocab[word]; ok {
			return append(out, symbol{id: id, size: int32(len(word))})
		}
	}
	if len(word) > maxCachedWord {
		return m.merge(m.symbols(word), out, nil)
	}
	h := m.cache.hash(word)
	if e := m.cache.find(h, word); e != nil {
		return append(out, e.symbols...)
	}
	n := len(out)
	out = m.merge(m.symbols(word), out, nil)
	m.cache.put(h, word, out[n:])
	return out
}

// node is a symbol during merging, in a doubly linked list by index, -1 for none. A node with
// size 0 was merged into its predecessor.
type node struct {
	symbol
	prev, next int32
}

// symbols returns the word's characters (or bytes) as nodes. Characters that are not in the
// vocabulary become byte tokens or the unknown token, or are dropped if there is neither, as
// in the reference.
func (m *bpe) symbols(word string) []node {
	nodes := make([]node, 0, len(word))
	if m.raw {
		for i := range len(word) {
			nodes = appendNode(nodes, m.bytes[word[i]], 1)
		}
		return nodes
	}
	unkSize := int32(0) // size of a pending unknown token
	for i := 0; i < len(word); {
		_, n := runeAt(word, i)
		c, key := word[i:i+n], word[i:i+n]
		if i > 0 {
			key = m.prefix + key
		}
		i += n
		if i == len(word) {
			key += m.suffix
		}
		if id, ok := m.vocab[key]; ok {
			if unkSize > 0 {
				nodes = appendNode(nodes, m.unk, unkSize)
				unkSize = 0
			}
			nodes = appendNode(nodes, id, int32(n))
			continue
		}
		if m.fallback.covers(c) {
			for k := range n {
				nodes = appendNode(nodes, uint32(m.fallback[c[k]]), 1)
			}
			continue
		}
		if !m.hasUnk {
			continue
		}
		if unkSize > 0 && !m.fuseUnk {
			nodes = appendNode(nodes, m.unk, unkSize)
			unkSize = 0
		}
		unkSize += int32(n)
	}
	if unkSize > 0 {
		nodes = appendNode(nodes, m.unk, unkSize)
	}
	return nodes
}

func appendNode(nodes []node, id uint32, size int32) []node {
	n := int32(len(nodes))
	if n > 0 {
		nodes[n-1].next = n
	}
	return append(nodes, node{symbol{id: id, size: size}, n - 1, -1})
}

// merge merges pairs in the order of their rank, leftmost first among equals, and appends the
// result to out. It skips merges that would produce a barred token. With the queue it takes
// O(n log n) in the word's length.
func (m *bpe) merge(nodes []node, out []symbol, barred barredSet) []symbol {
	var room [64]uint64
	queue := rankHeap(room[:0])
	offer := func(at int32) {
		left := &nodes[at]
		if left.next < 0 {
			return
		}
		if rank, ok := m.merges.find(left.id, nodes[left.next].id); ok && (barred == nil || !barred[m.results[rank]]) {
			queue.push(uint64(rank)<<32 | uint64(at))
		}
	}
	for i := range nodes {
		offer(int32(i))
	}
	for len(queue) > 0 {
		top := queue.pop()
		made, at := m.results[top>>32], int32(top&0xffffffff)
		left := &nodes[at]
		if left.size == 0 || left.next < 0 {
			continue
		}
		right := &nodes[left.next]
		// The pair may have changed since it was queued.
		if rank, ok := m.merges.find(left.id, right.id); !ok || m.results[rank] != made {
			continue
		}
		left.id, left.size, left.next = made, left.size+right.size, right.next
		right.size = 0
		if left.next >= 0 {
			nodes[left.next].prev = at
		}
		if left.prev >= 0 {
			offer(left.prev)
		}
		offer(at)
	}
	for i := range nodes {
		if nodes[i].size > 0 {
			out = append(out, nodes[i].symbol)
		}
	}
	return out
}

// rankHeap is a binary min-heap of rank<<32 | position.
type rankHeap []uint64

func (h *rankHeap) push(v uint64) {
	q := append(*h, v)
	i := len(q) - 1
	for i > 0 {
		up := (i - 1) / 2
		if q[up] <= v {
			break
		}
		q[i] = q[up]
		i = up
	}
	q[i] = v
	*h = q
}

func (h *rankHeap) pop() uint64 {
	q := *h
	top, v := q[0], q[len(q)-1]
	q = q[:len(q)-1]
	i := 0
	for {
		down := 2*i + 1
		if down >= len(q) {
			break
		}
		if down+1 < len(q) && q[down+1] < q[down] {
			down++
		}
		if q[down] >= v {
			break
		}
		q[i] = q[down]
		i = down
	}
	if len(q) > 0 {
		q[i] = v
	}
	*h = q
	return top
}

// pairTable maps a pair of tokens to the rank of their merge: a hash table
// with open addressing, at most half full.
type pairTable struct {
	keys  []uint64 // left<<32 | right, plus one; 0 is empty
	ranks []uint32
	shift uint
}

func newPairTable(n int) pairTable {
	bits := uint(3)
	for 1<<bits < 2*n {
		bits++
	}
	return pairTable{make([]uint64, 1<<bits), make([]uint32, 1<<bits), 64 - bits}
}

// slot returns the index at which the key is, or would be inserted.
func (t *pairTable) slot(key uint64) uint64 {
	mask := uint64(len(t.keys) - 1)
	i := key * 0x9e3779b97f4a7c15 >> t.shift
	for t.keys[i] != 0 && t.keys[i] != key {
		i = (i + 1) & mask
	}
	return i
}

// put sets the rank of a pair; the last one wins.
func (t *pairTable) put(left, right, rank uint32) {
	key := uint64(left)<<32 | uint64(right) + 1
	i := t.slot(key)
	t.keys[i], t.ranks[i] = key, rank
}

func (t *pairTable) find(left, right uint32) (uint32, bool) {
	i := t.slot(uint64(left)<<32 | uint64(right) + 1)
	return t.ranks[i], t.keys[i] != 0
}
