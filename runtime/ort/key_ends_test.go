package ort

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// TestKeyEnds: ends behind the own keys change nothing, bit by bit, and the result does not depend on what was computed
// before; ends that would read other keys than the row's are refused.
func TestKeyEnds(t *testing.T) {
	s := shape{heads: 4, kvHeads: 2, headSize: 32, half: 16, window: 30}
	rows := []row{{past: 20, tokens: 30, blocks: []int32{1, 2, 3, 7}}, {past: 0, tokens: 2, blocks: []int32{4}}}
	c := lay(rand.New(rand.NewPCG(2, 2)), s, 8, rows)
	want, _, _ := attend(t, openNode(t, s, 1), c)
	c.mutual = true
	n := openNode(t, c.shape, 2)
	for i := range c.slots {
		c.ends = append(c.ends, int32(21+i))
	}
	c.ends[30], c.ends[31] = 1, 2
	if out, _, _ := attend(t, n, c); !slices.Equal(out, want) {
		t.Error("the usual ends change the result")
	}
	// Tokens 10 to 19 see each other; the same in two steps, of which the first ends before them.
	for i := 10; i < 20; i++ {
		c.ends[i] = 40
	}
	whole, keys, values := attend(t, n, c)
	if slices.Equal(whole, want) {
		t.Error("other ends change nothing")
	}
	second := *c
	first := 10
	head, kv := s.heads*s.headSize, s.kvHeads*s.headSize
	second.kCache, second.vCache = slices.Clone(keys), slices.Clone(values)
	second.q, second.k, second.v = c.q[first*head:], c.k[first*kv:], c.v[first*kv:]
	second.slots, second.ends = c.slots[first:], c.ends[first:]
	second.cu, second.past = []int32{0, 20, 22}, []int32{30, 0}
	if out, _, _ := attend(t, n, &second); !slices.Equal(out, whole[first*head:]) {
		t.Error("in pieces the result differs")
	}
	for want, change := range map[string]func(c *call){
		"key_ends is out of bounds":     func(c *call) { c.ends[29] = 51 },
		"key_ends is out of bounds ":    func(c *call) { c.ends[0] = 20 },
		"key_ends is out of bounds  ":   func(c *call) { c.ends[31] = 3 },
		"key_ends is not ascending":     func(c *call) { c.ends[3] = 45 },
		"key_ends has the wrong length": func(c *call) { c.ends = c.ends[1:] },
	} {
		bad := *c
		bad.ends = slices.Clone(c.ends)
		change(&bad)
		bindCall(t, n, c)
		put(t, n, false, "ends", bad.ends, int64(len(bad.ends)))
		if err := n.run(); err == nil || !strings.Contains(err.Error(), strings.TrimSpace(want)) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}
