package grammar

import "slices"

// trie holds the spellings of tokens, flat and in depth-first order: the descendants of node i are i+1 to end-1. A walk
// that cannot pass node i continues at its end.
type trie struct {
	nodes []node
	rank  []uint32   // tokens in the nodes before i
	order []uint32   // the tokens in the order of their nodes
	adds  []extent   // by node; nil: covers are not worth their cost
	below []asciiSet // by node: the bytes below it; nil: not computed
	heads [256]int32 // the node of depth 1 with this byte, -1: none
	deep  int        // the largest depth
	full  []uint32   // of a trie of some tokens: its nodes in the trie of all
}

type node struct {
	end   uint32
	token uint32 // noToken: only a prefix of tokens
	depth uint16 // from 1
	b     byte
}

const noToken = ^uint32(0)

// tokenText is an ordinary token and its bytes, of which there is at least one.
type tokenText struct {
	text string
	id   uint32
}

// newTrie builds a trie of tokens sorted by text, without duplicates.
func newTrie(sorted []tokenText) *trie {
	t := &trie{}
	for i := range t.heads {
		t.heads[i] = -1
	}
	var path []uint32 // nodes of the previous text
	last := ""
	for _, s := range sorted {
		n := 0
		for n < len(last) && n < len(s.text) && last[n] == s.text[n] {
			n++
		}
		t.close(path[n:])
		path = path[:n]
		for i := n; i < len(s.text); i++ {
			at := uint32(len(t.nodes))
			t.nodes = append(t.nodes, node{token: noToken, depth: uint16(i + 1), b: s.text[i]})
			path = append(path, at)
			if i == 0 {
				t.heads[s.text[0]] = int32(at)
			}
		}
		t.nodes[path[len(path)-1]].token = s.id
		t.deep = max(t.deep, len(s.text))
		last = s.text
	}
	t.close(path)
	t.nodes = slices.Clip(t.nodes)
	t.rank = make([]uint32, len(t.nodes)+1)
	for i, n := range t.nodes {
		t.rank[i+1] = t.rank[i]
		if n.token != noToken {
			t.rank[i+1]++
			t.order = append(t.order, n.token)
		}
	}
	return t
}

func (t *trie) close(path []uint32) {
	for _, i := range path {
		t.nodes[i].end = uint32(len(t.nodes))
	}
}

// within computes full: t's nodes are a subset of those of all, in the same order.
func (t *trie) within(all *trie) {
	t.full = make([]uint32, len(t.nodes))
	var at uint32 // the candidate
	for i, n := range t.nodes {
		if n.depth == 1 {
			at = uint32(all.heads[n.b])
		} else {
			for all.nodes[at].depth != n.depth || all.nodes[at].b != n.b {
				if all.nodes[at].depth < n.depth {
					at++
				} else {
					at = all.nodes[at].end
				}
			}
		}
		t.full[i] = at
	}
}

// find returns the node of a text, -1 if no token begins with it.
func (t *trie) find(text []byte) int {
	if len(text) == 0 {
		return -1
	}
	at := int(t.heads[text[0]])
	for _, b := range text[1:] {
		if at < 0 {
			return -1
		}
		end, next := t.nodes[at].end, -1
		for c := uint32(at + 1); c < end; c = t.nodes[c].end {
			if t.nodes[c].b == b {
				next = int(c)
				break
			}
		}
		at = next
	}
	return at
}

// bytes is the size of the trie.
func (t *trie) bytes() int64 {
	return int64(len(t.nodes))*(12+4+4) + int64(len(t.full)+len(t.order))*4 + int64(len(t.below))*16 + 1024
}
