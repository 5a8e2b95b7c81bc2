package ort

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// pick returns the call that holds only rows' tokens of c: whole rows, or
// parts of one, given as row, first token, tokens.
func (c *call) pick(parts [][3]int) *call {
	p := *c
	p.q, p.k, p.v, p.cu, p.past, p.table, p.slots = nil, nil, nil, []int32{0}, nil, nil, nil
	for _, part := range parts {
		b, from, n := part[0], int(c.cu[part[0]])+part[1], part[2]
		qw, kw := c.heads*c.headSize, c.kvHeads*c.headSize
		p.q = append(p.q, c.q[from*qw:(from+n)*qw]...)
		p.k = append(p.k, c.k[from*kw:(from+n)*kw]...)
		p.v = append(p.v, c.v[from*kw:(from+n)*kw]...)
		p.slots = append(p.slots, c.slots[from:from+n]...)
		p.past = append(p.past, c.past[b]+int32(part[1]))
		p.cu = append(p.cu, p.cu[len(p.cu)-1]+int32(n))
		p.table = append(p.table, c.table[b*c.maxBlocks:(b+1)*c.maxBlocks]...)
	}
	return &p
}

// A token's result is the same to the last bit whatever shares its step,
// however its prompt is cut, and on however many threads it runs.
func TestAttentionIsInvariant(t *testing.T) {
	lengths := [][2]int{{0, 400}, {700, 1}, {130, 9}, {256, 1}, {600, 70}}
	for _, s := range []shape{
		{heads: 9, kvHeads: 3, headSize: 64, half: 32},
		{heads: 7, kvHeads: 1, headSize: 40, norm: true, window: 290},
		{heads: 6, kvHeads: 2, headSize: 64, half: 32, form: CacheInt8},
		{heads: 6, kvHeads: 2, headSize: 40, half: 20, form: CacheBFloat16},
	} {
		n, single := openNode(t, s, 2), openNode(t, s, 1)
		for _, kernel := range kernels(t) {
			if err := chooseAttention(kernel); err != nil {
				t.Fatal(err)
			}
			r := rand.New(rand.NewPCG(8, 9))
			blocks, rows := deal(r, lengths)
			c := lay(r, s, blocks, rows)
			out, _, _ := attend(t, n, c)
			kc, vc := c.kAfter, c.vAfter
			want := slices.Clone(out)
			same := func(what string, got []float32, first int) {
				t.Helper()
				w := want[first*s.heads*s.headSize:][:len(got)]
				for i := range got {
					if math.Float32bits(got[i]) != math.Float32bits(w[i]) {
						t.Errorf("%s %v: %s: value %d is %v, in the whole batch %v", kernel, s, what, i, got[i], w[i])
						return
					}
				}
			}
			got, _, _ := attend(t, single, c)
			same("on one thread", got, 0)
			for b, l := range lengths {
				got, _, _ := attend(t, n, c.pick([][3]int{{b, 0, l[1]}}))
				same("row alone", got, int(c.cu[b]))
			}
			// The rows again in pieces, over the cache that the first run filled.
			for _, size := range []int{1, 16, 37, 64} {
				for b, l := range lengths {
					for from := 0; from < l[1]; from += size + (l[1]-from)/4 {
						piece := c.pick([][3]int{{b, from, min(size, l[1]-from)}})
						piece.kBytes, piece.vBytes = kc, vc
						got, _, _ := attend(t, n, piece)
						same("piece of a row", got, int(c.cu[b])+from)
					}
				}
			}
		}
	}
}

// Two sequences share a prefix that one of them computes in the same step.
func TestAttentionReadsWhatTheStepWrites(t *testing.T) {
	s := shape{heads: 4, kvHeads: 2, headSize: 64, half: 32, packed: true}
	n := openNode(t, s, 2)
	r := rand.New(rand.NewPCG(1, 5))
	for range 20 {
		c := lay(r, s, 40, []row{
			{past: 32, tokens: 3, blocks: []int32{20, 21, 3}}, // reads what the next row writes
			{past: 0, tokens: 60, blocks: []int32{20, 21, 22, 23}},
			{past: 40, tokens: 8, blocks: []int32{20, 21, 22}, mute: true}, // verifies without writing
		})
		out, _, _ := attend(t, n, c)
		want, _, _ := c.plain()
		if d := apart(out, want); !(d < 1e-5) {
			t.Fatalf("differs by %.3g", d)
		}
	}
}

// What another sequence left in a block must not leak into its next owner,
// even when it is not a number.
func TestAttentionIgnoresStaleSlots(t *testing.T) {
	for _, form := range []CacheForm{CacheFloat32, CacheFloat16, CacheBFloat16, CacheInt8} {
		checkStale(t, shape{heads: 6, kvHeads: 2, headSize: 24, window: 50, form: form})
	}
}

func checkStale(t *testing.T, s shape) {
	n := openNode(t, s, 2)
	for _, kernel := range kernels(t) {
		if err := chooseAttention(kernel); err != nil {
			t.Fatal(err)
		}
		r := rand.New(rand.NewPCG(1, 5))
		blocks, rows := deal(r, [][2]int{{300, 1}, {37, 6}, {0, 1}})
		c := lay(r, s, blocks, rows)
		want, _, _ := c.plain()
		clean, _, _ := attend(t, n, c)
		// Poison every slot that no token of a row may see.
		seen := map[int]bool{}
		for b, w := range rows {
			for p := max(0, w.past+1-s.window); p < w.past+w.tokens; p++ {
				seen[int(c.table[b*c.maxBlocks+p/16])*16+p%16] = true
			}
		}
		nan := float32(math.NaN())
		for slot := range blocks * 16 {
			if seen[slot] {
				continue
			}
			for h := range s.kvHeads {
				for d := range s.headSize {
					base := (slot/16*s.kvHeads + h) * s.headSize
					c.kCache[(base+d)*16+slot%16] = nan
					c.vCache[base*16+slot%16*s.headSize+d] = nan
				}
			}
		}
		out, _, _ := attend(t, n, c)
		if !sameBits(out, clean) {
			t.Errorf("%s %s: what nobody sees changes the result", kernel, s.form)
		}
		if d := apart(out, want); s.form == CacheFloat32 && !(d < 1e-5) {
			t.Errorf("%s: differs by %.3g", kernel, d)
		}
	}
}

// The operator itself refuses what would leave its tensors.
func TestAttentionRefusesBadInputs(t *testing.T) {
	s := shape{heads: 4, kvHeads: 2, headSize: 16, half: 8}
	n := openNode(t, s, 1)
	good := func() *call {
		r := rand.New(rand.NewPCG(2, 2))
		return lay(r, s, 8, []row{{past: 20, tokens: 2, blocks: []int32{1, 2}},
			{past: 0, tokens: 3, blocks: []int32{4}}})
	}
	attend(t, n, good())
	for want, spoil := range map[string]func(c *call){
		"cu_seqlens does not span":           func(c *call) { c.cu[2] = 6 },
		"cu_seqlens is not ascending":        func(c *call) { c.cu[1] = 7 },
		"cu_seqlens and past_lens disagree":  func(c *call) { c.cu = append(c.cu, 5) },
		"past_lens is negative":              func(c *call) { c.past[1] = -3 },
		"a row is longer than its blocks":    func(c *call) { c.past[0] = 47 },
		"longer than its blocks":             func(c *call) { c.past[0] = math.MaxInt32 },
		"slot_mapping is out of bounds":      func(c *call) { c.slots[4] = 128 },
		"block_table is out of bounds":       func(c *call) { c.table[1] = 8 },
		"tgi.PagedAttention: block_table is": func(c *call) { c.table[0] = -1 },
		"slot_mapping has the wrong length":  func(c *call) { c.slots = c.slots[:4] },
	} {
		c := good()
		spoil(c)
		// Shapes come from the lengths, so tensors that disagree can be bound.
		bindCall(t, n, good())
		put(t, n, false, "cu", c.cu, int64(len(c.cu)))
		put(t, n, false, "past", c.past, int64(len(c.past)))
		put(t, n, false, "table", c.table, int64(len(c.past)), int64(c.maxBlocks))
		put(t, n, false, "slots", c.slots, int64(len(c.slots)))
		if err := n.run(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
	long := lay(rand.New(rand.NewPCG(2, 2)), s, 400,
		[]row{{past: maxPositions, tokens: 1, blocks: make([]int32, maxPositions/16+1)}})
	bindCall(t, n, long)
	if err := n.run(); err == nil || !strings.Contains(err.Error(), "longer than cos_cache") {
		t.Errorf("got %v", err)
	}
	attend(t, n, good())
}

// Attributes and shapes that the operator cannot run fail when the model is
// opened, or in its first step.
func TestAttentionRefusesBadNodes(t *testing.T) {
	start(t)
	for want, a := range map[string]attrs{
		"num_heads":                 {"kv_num_heads": 1, "head_size": 64},
		"kv_num_heads":              {"num_heads": 4, "kv_num_heads": 3, "head_size": 64},
		"head_size":                 {"num_heads": 4, "kv_num_heads": 1, "head_size": 584},
		"head_size is not":          {"num_heads": 4, "kv_num_heads": 1, "head_size": 60},
		"local_window_size":         {"num_heads": 4, "kv_num_heads": 1, "head_size": 64, "local_window_size": -2},
		"do_rotary":                 {"num_heads": 4, "kv_num_heads": 1, "head_size": 64, "do_rotary": 2},
		"tgi.PagedAttention: attri": {"num_heads": 1 << 20, "kv_num_heads": 1, "head_size": 64},
	} {
		g := &graph{}
		ins := []string{"q", "", "", "kc", "vc", "cu", "past", "table", "", "", "slots", "", "", "", "", "", "form"}
		for _, name := range []string{"q", "kc", "vc", "cu", "past", "table", "slots", "form"} {
			kind := int32s
			switch name {
			case "q":
				kind = float32s
			case "kc", "vc":
				kind = uint8s
			}
			g.value(false, name, kind, name)
		}
		g.node("tgi", "PagedAttention", ins, "out", a)
		g.value(true, "out", float32s, "x", "y")
		se, err := openSession(g.write(t), sessionOptions{threads: 1})
		if err == nil {
			se.close()
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}
