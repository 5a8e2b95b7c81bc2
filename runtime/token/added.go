package token

import (
	"fmt"
	"unicode"
	"unicode/utf8"
)

// addedToken is an entry of the file's added_tokens.
type addedToken struct {
	id         uint32
	content    string
	singleWord bool
	lstrip     bool
	rstrip     bool
	normalized bool
	special    bool
	withheld   bool // from data, see EncodeSpans
	// lead is how many bytes of the pattern the normalizer put before the content: a
	// white-space marker, which may come from data.
	lead int
}

// finder finds added tokens in a text, the longest at each position, by a byte trie.
type finder struct {
	first [256]bool
	nodes []trieNode
	// tokens holds what the trie's leaves point at.
	tokens []*addedToken
	// longest is the bytes of the longest pattern.
	longest int
}

// trieNode is a node of a byte trie, its children being a list by sibling.
type trieNode struct {
	b              byte
	child, sibling int32 // 0 is none: node 0 is the root
	token          int32 // index into finder.tokens, -1 for none
}

// add adds t under a pattern. It fails if the pattern is empty or belongs to another token.
func (f *finder) add(pattern string, t *addedToken) error {
	if pattern == "" {
		return fmt.Errorf("content %q is empty once normalized", t.content)
	}
	if len(f.nodes) == 0 {
		f.nodes = append(f.nodes, trieNode{token: -1})
	}
	f.first[pattern[0]] = true
	f.longest = max(f.longest, len(pattern))
	at := int32(0)
	for i := range len(pattern) {
		next := f.step(at, pattern[i])
		if next == 0 {
			next = int32(len(f.nodes))
			f.nodes = append(f.nodes, trieNode{b: pattern[i], sibling: f.nodes[at].child, token: -1})
			f.nodes[at].child = next
		}
		at = next
	}
	if n := f.nodes[at].token; n >= 0 {
		return fmt.Errorf("content %q is the same as that of %q once normalized", t.content, f.tokens[n].content)
	}
	f.nodes[at].token = int32(len(f.tokens))
	f.tokens = append(f.tokens, t)
	return nil
}

func (f *finder) step(at int32, b byte) int32 {
	for n := f.nodes[at].child; n != 0; n = f.nodes[n].sibling {
		if f.nodes[n].b == b {
			return n
		}
	}
	return 0
}

// next returns the first token at or after byte i of x, the longest if several start there,
// and its range; nil if there is none. Withheld tokens that overlap data are not found.
func (f *finder) next(x text, data dataSpans, i int) (*addedToken, int, int) {
	if len(f.nodes) == 0 {
		return nil, 0, 0
	}
	s := x.s
	for ; i < len(s); i++ {
		if !f.first[s[i]] {
			continue
		}
		best, end := int32(-1), 0
		at := int32(0)
		for k := i; k < len(s); k++ {
			if at = f.step(at, s[k]); at == 0 {
				break
			}
			n := f.nodes[at].token
			if n < 0 || data != nil && f.tokens[n].withheld && data.overlaps(x.origin(i+f.tokens[n].lead, k+1)) {
				continue
			}
			best, end = n, k+1
		}
		if best >= 0 {
			return f.tokens[best], i, end
		}
	}
	return nil, 0, 0
}

// split calls emit for the parts of x in order: segments without a token (nil) and tokens,
// including the white space that a token strips. As in the reference, a token inside the
// white space that its predecessor stripped is emitted too, so parts may overlap. It stops
// and returns false if emit does.
func (f *finder) split(x text, data dataSpans, emit func(t *addedToken, start, end int) bool) bool {
	s, done := x.s, 0
	for i := 0; ; {
		t, start, end := f.next(x, data, i)
		if t == nil {
			break
		}
		i = end
		if t.singleWord && !isSingleWord(s, start, end) {
			continue
		}
		if t.lstrip {
			start = max(trimRight(s, start), done)
		}
		if t.rstrip {
			end = trimLeft(s, end)
		}
		if done < start && !emit(nil, done, start) {
			return false
		}
		if !emit(t, min(start, end), end) {
			return false
		}
		done = end
	}
	return done >= len(s) || emit(nil, done, len(s))
}

// isSingleWord reports whether no word character is adjacent to s[start:end].
func isSingleWord(s string, start, end int) bool {
	if start > 0 {
		r, _ := utf8.DecodeLastRuneInString(s[:start])
		if classes.of(r)&word != 0 {
			return false
		}
	}
	if end < len(s) {
		r, _ := runeAt(s, end)
		if classes.of(r)&word != 0 {
			return false
		}
	}
	return true
}

// trimRight returns where the white space that ends s[:i] starts.
func trimRight(s string, i int) int {
	for i > 0 {
		r, n := utf8.DecodeLastRuneInString(s[:i])
		if !unicode.IsSpace(r) {
			break
		}
		i -= n
	}
	return i
}

// trimLeft returns where the white space that starts s[i:] ends.
func trimLeft(s string, i int) int {
	for i < len(s) {
		r, n := runeAt(s, i)
		if !unicode.IsSpace(r) {
			break
		}
		i += n
	}
	return i
}
