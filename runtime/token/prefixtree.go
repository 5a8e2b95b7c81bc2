package token

import (
	"cmp"
	"slices"
)

// prefixTree finds the words of a vocabulary that a text begins with. Its nodes are in the order of their depth, so
// that the children of a node lie together, ascending by their byte.
type prefixTree struct {
	nodes []treeNode
	// roots[b] is the child of the root for byte b, 0 for none: node 0 is the root.
	roots [256]int32
	// deepest is the length of the longest word.
	deepest int
}

type treeNode struct {
	b     byte
	count uint16 // of children
	first int32  // of them
	id    int32  // -1 if no word ends here
}

// treeWord is a word of a vocabulary.
type treeWord struct {
	text string
	id   uint32
}

// newPrefixTree builds the tree of words, which it sorts. Of equal words the last one counts, and empty ones are never
// found. It takes O(n log n) in their bytes.
func newPrefixTree(words []treeWord) *prefixTree {
	slices.SortStableFunc(words, func(a, b treeWord) int { return cmp.Compare(a.text, b.text) })
	t := &prefixTree{nodes: []treeNode{{id: -1}}}
	type part struct {
		node         int32
		lo, hi, from int // words with the same first bytes
	}
	queue := []part{{0, 0, len(words), 0}}
	for len(queue) > 0 {
		p := queue[0]
		queue = queue[1:]
		t.nodes[p.node].first = int32(len(t.nodes))
		for lo := p.lo; lo < p.hi; {
			if len(words[lo].text) == p.from {
				if p.from > 0 {
					t.nodes[p.node].id = int32(words[lo].id)
					t.deepest = max(t.deepest, p.from)
				}
				lo++
				continue
			}
			b, hi := words[lo].text[p.from], lo+1
			for hi < p.hi && words[hi].text[p.from] == b {
				hi++
			}
			n := int32(len(t.nodes))
			t.nodes = append(t.nodes, treeNode{b: b, id: -1})
			t.nodes[p.node].count++
			if p.node == 0 {
				t.roots[b] = n
			}
			queue = append(queue, part{n, lo, hi, p.from + 1})
			lo = hi
		}
	}
	return t
}

// step returns the child of a node for byte b, 0 if there is none.
func (t *prefixTree) step(at int32, b byte) int32 {
	if at == 0 {
		return t.roots[b]
	}
	n := &t.nodes[at]
	lo, hi := n.first, n.first+int32(n.count)
	for lo < hi {
		mid := (lo + hi) / 2
		if t.nodes[mid].b < b {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	if lo < n.first+int32(n.count) && t.nodes[lo].b == b {
		return lo
	}
	return 0
}

// find returns the id of a whole word.
func (t *prefixTree) find(s string) (uint32, bool) {
	at := int32(0)
	for i := range len(s) {
		if at = t.step(at, s[i]); at == 0 {
			return 0, false
		}
	}
	id := t.nodes[at].id
	return uint32(id), id >= 0
}

// longest returns the longest word that s begins with and that skip does not name; its length is 0 if there is none.
func (t *prefixTree) longest(s string, skip barredSet) (id uint32, size int) {
	at := int32(0)
	for i := range len(s) {
		if at = t.step(at, s[i]); at == 0 {
			break
		}
		if n := t.nodes[at].id; n >= 0 && !skip[uint32(n)] {
			id, size = uint32(n), i+1
		}
	}
	return id, size
}
