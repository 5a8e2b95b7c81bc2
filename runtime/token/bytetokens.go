package token

import (
	"fmt"
	"slices"
)

// byteTokens are the tokens <0x00> to <0xFF> of a model with byte_fallback, -1 for those that its vocabulary lacks; nil
// without byte_fallback.
type byteTokens []int64

// newByteTokens asks find for each token.
func newByteTokens(find func(token string) (uint32, bool)) byteTokens {
	t := make(byteTokens, 256)
	for b := range t {
		t[b] = -1
		if id, ok := find(fmt.Sprintf("<0x%02X>", b)); ok {
			t[b] = int64(id)
		}
	}
	return t
}

// covers reports whether every byte of s has a token.
func (t byteTokens) covers(s string) bool {
	if t == nil {
		return false
	}
	for i := range len(s) {
		if t[s[i]] < 0 {
			return false
		}
	}
	return true
}

// complete reports whether every byte has a token.
func (t byteTokens) complete() bool { return t != nil && !slices.Contains(t, -1) }
