package token

import "fmt"

// rankBPE is the byte-pair encoding of tiktoken: of all pairs of neighbours the one whose bytes together are the token
// of the lowest rank is merged, the first of several. Words are raw bytes.
type rankBPE struct {
	barredSet
	// vocab maps bytes to ids, which are ranks.
	vocab map[string]uint32
	size  int // of the longest token
	bytes [256]uint32
	cache wordCache
}

// newRankBPE returns the model of a vocabulary in the byte alphabet, which must have all bytes.
func newRankBPE(words []treeWord) (*rankBPE, error) {
	m := &rankBPE{vocab: make(map[string]uint32, len(words)), cache: newWordCache()}
	for _, w := range words {
		b, ok := fromByteAlphabet(w.text)
		if !ok || b == "" {
			return nil, fmt.Errorf("model.vocab: token %d is %.64q, want bytes", w.id, w.text)
		}
		if _, twice := m.vocab[b]; twice {
			return nil, fmt.Errorf("model.vocab: token %d has the bytes of another one", w.id)
		}
		m.vocab[b], m.size = w.id, max(m.size, len(b))
	}
	for b := range m.bytes {
		id, ok := m.vocab[string([]byte{byte(b)})]
		if !ok {
			return nil, fmt.Errorf("model.vocab: byte %#02x has no token", b)
		}
		m.bytes[b] = id
	}
	return m, nil
}

// encode implements model.
func (m *rankBPE) encode(word string, out []symbol) []symbol {
	if len(word) > maxCachedWord {
		return m.merge(word, out, nil)
	}
	h := m.cache.hash(word)
	if e := m.cache.find(h, word); e != nil {
		return append(out, e.symbols...)
	}
	n := len(out)
	out = m.merge(word, out, nil)
	m.cache.put(h, word, out[n:])
	return out
}

// withoutBarred implements model.
func (m *rankBPE) withoutBarred(word string, out []symbol) []symbol {
	return m.merge(word, out, m.barredSet)
}

// rank returns the rank of bytes that are a token, unless it is skipped.
func (m *rankBPE) rank(b string, skip barredSet) (uint32, bool) {
	if len(b) > m.size {
		return 0, false
	}
	id, ok := m.vocab[b]
	return id, ok && !skip[id]
}

// merge appends the tokens of a word, in O(n log n) times the length of the longest token. A word that is a token is
// that one, whether merges lead there or not.
func (m *rankBPE) merge(word string, out []symbol, skip barredSet) []symbol {
	if id, ok := m.rank(word, skip); ok {
		return append(out, symbol{id: id, size: int32(len(word))})
	}
	nodes := make([]node, 0, len(word))
	for i := range len(word) {
		nodes = appendNode(nodes, m.bytes[word[i]], 1)
	}
	var room [64]uint64
	queue := rankHeap(room[:0])
	pair := func(at int32) (uint32, bool) {
		next := nodes[at].next
		if next < 0 {
			return 0, false
		}
		return m.rank(word[at:next+nodes[next].size], skip)
	}
	offer := func(at int32) {
		if id, ok := pair(at); ok {
			queue.push(uint64(id)<<32 | uint64(at))
		}
	}
	for i := range nodes {
		offer(int32(i))
	}
	for len(queue) > 0 {
		top := queue.pop()
		id, at := uint32(top>>32), int32(top&0xffffffff)
		left := &nodes[at]
		if left.size == 0 {
			continue
		}
		if now, ok := pair(at); !ok || now != id { // the pair may have changed since it was queued
			continue
		}
		right := &nodes[left.next]
		left.id, left.size, left.next = id, left.size+right.size, right.next
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

// findBarred implements model: control tokens are not among the words of the model.
func (m *rankBPE) findBarred(withheld map[uint32]string) {
	barred := make(barredSet)
	for b, id := range m.vocab {
		if _, ok := withheld[id]; ok && len(b) > 1 {
			barred[id] = true
		}
	}
	m.barredSet = barred
}

// segmentEnd implements model.
func (m *rankBPE) segmentEnd(s string) int { return len(s) }

// longest implements model.
func (m *rankBPE) longest() int { return m.size }
