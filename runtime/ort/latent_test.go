package ort

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// latentNode is PagedAttention whose values are the last size numbers of the keys.
func latentNode(t *testing.T, s shape, size, threads int) *node {
	t.Helper()
	start(t)
	g := &graph{}
	g.value(false, "q", float32s, "t", s.heads*s.headSize)
	g.value(false, "k", float32s, "t", s.headSize)
	g.value(false, "kc", uint8s, "n", "bytes")
	g.value(false, "form", int32s, 1)
	for _, name := range []string{"cu", "past", "slots"} {
		g.value(false, name, int32s, name)
	}
	g.value(false, "table", int32s, "b", "m")
	g.value(false, "cos", float32s, "p", s.half)
	g.value(false, "sin", float32s, "p", s.half)
	in := []string{"q", "k", "", "kc", "", "cu", "past", "table", "cos", "sin", "slots", "", "", "", "", "", "form"}
	g.node("tgi", "PagedAttention", in, "out",
		attrs{"num_heads": s.heads, "kv_num_heads": 1, "head_size": s.headSize, "latent_size": size, "do_rotary": 1,
			"scale": s.scale, "rotary_interleaved": map[bool]int{true: 1}[s.interleaved]})
	g.value(true, "out", float32s, "t", s.heads*size)
	return newNode(t, g.write(t), sessionOptions{threads: threads})
}

// runLatent runs a call and returns the results.
func runLatent(t *testing.T, n *node, c *call, size int) []float32 {
	t.Helper()
	tokens, rows, width := int64(len(c.slots)), int64(len(c.past)), int64(c.headSize)
	put(t, n, false, "q", c.q, tokens, int64(c.heads)*width)
	put(t, n, false, "k", c.k, tokens, width)
	c.bindCache(t, n, "kc", nil, c.kCache, true)
	put(t, n, false, "form", []int32{int32(cacheForms[c.form])}, 1)
	put(t, n, false, "cu", c.cu, rows+1)
	put(t, n, false, "past", c.past, rows)
	put(t, n, false, "slots", c.slots, tokens)
	put(t, n, false, "table", c.table, rows, int64(c.maxBlocks))
	put(t, n, false, "cos", c.cos, maxPositions, int64(c.half))
	put(t, n, false, "sin", c.sin, maxPositions, int64(c.half))
	out := put(t, n, true, "out", make([]float32, int(tokens)*c.heads*size), tokens, int64(c.heads*size))
	if err := n.run(); err != nil {
		t.Fatal(err)
	}
	return slices.Clone(out)
}

// valuesOf gives a call the values that its keys hold, in a cache of their own.
func (c *call) valuesOf() {
	c.v = slices.Clone(c.k)
	for block := range len(c.kCache) / c.headSize / 16 {
		for d := range c.headSize {
			for p := range 16 {
				c.vCache[(block*16+p)*c.headSize+d] = c.kCache[(block*c.headSize+d)*16+p]
			}
		}
	}
}

// TestLatentAttention compares values that are a part of the keys with the definition of attention with values of their
// own, and holds that a row's results are the same, bit by bit, beside others and alone, whatever lies in slots that
// nobody sees.
func TestLatentAttention(t *testing.T) {
	lengths := [][2]int{{0, 70}, {300, 1}, {130, 9}, {255, 2}, {600, 1}}
	limits := map[CacheForm]float64{"": 1e-4, CacheFloat16: 5e-3, CacheBFloat16: 4e-2, CacheInt8: 8e-2}
	for _, c := range []struct {
		shape
		size int
	}{
		{shape{heads: 5, kvHeads: 1, headSize: 32, half: 4, interleaved: true, scale: 0.3}, 24},
		{shape{heads: 16, kvHeads: 1, headSize: 576, half: 32, scale: 0.07}, 512},
		{shape{heads: 5, kvHeads: 1, headSize: 32, half: 4, scale: 0.3, form: CacheFloat16}, 24},
		{shape{heads: 5, kvHeads: 1, headSize: 72, half: 4, scale: 0.2, form: CacheInt8}, 48},
		{shape{heads: 3, kvHeads: 1, headSize: 32, half: 4, scale: 0.2, form: CacheBFloat16}, 24},
	} {
		s, size := c.shape, c.size
		n, single := latentNode(t, s, size, 2), latentNode(t, s, size, 1)
		for _, kernel := range kernels(t) {
			if err := chooseAttention(kernel); err != nil {
				t.Fatal(err)
			}
			r := rand.New(rand.NewPCG(5, 9))
			blocks, rows := deal(r, lengths)
			c := lay(r, s, blocks, rows)
			c.valuesOf()
			full, _, _ := c.plain()
			seen := map[int]bool{}
			for b, w := range rows {
				for p := range w.past + w.tokens {
					seen[int(c.table[b*c.maxBlocks+p/16])*16+p%16] = true
				}
			}
			for slot := range blocks * 16 {
				for d := range s.headSize {
					if !seen[slot] {
						c.kCache[(slot/16*s.headSize+d)*16+slot%16] = float32(math.NaN())
					}
				}
			}
			got, limit := runLatent(t, n, c, size), limits[s.form]
			for i := range got {
				want := full[i/size*s.headSize+s.headSize-size+i%size]
				if d := math.Abs(float64(got[i]) - float64(want)); !(d < limit) {
					t.Fatalf("%s %v: value %d is %g, want %g", kernel, s, i, got[i], want)
				}
			}
			for b, l := range lengths {
				own := runLatent(t, single, c.pick([][3]int{{b, 0, l[1]}}), size)
				at := int(c.cu[b]) * s.heads * size
				if !slices.Equal(own, got[at:][:len(own)]) {
					t.Errorf("%s %v: row %d has other bits alone", kernel, s, b)
				}
			}
		}
	}
}

// TestLatentAttentionRefuses: what does not fit is refused when the node is made.
func TestLatentAttentionRefuses(t *testing.T) {
	start(t)
	for _, a := range []attrs{{"latent_size": 40}, {"latent_size": 16, "local_window_size": 9}} {
		g := &graph{}
		g.value(false, "q", float32s, "t", 32)
		g.value(false, "k", float32s, "t", 32)
		g.value(false, "kc", uint8s, "n", "bytes")
		g.value(false, "form", int32s, 1)
		for _, name := range []string{"cu", "past", "slots"} {
			g.value(false, name, int32s, name)
		}
		g.value(false, "table", int32s, "b", "m")
		a["num_heads"], a["kv_num_heads"], a["head_size"] = 1, 1, 32
		in := []string{"q", "k", "", "kc", "", "cu", "past", "table", "", "", "slots", "", "", "", "", "", "form"}
		g.node("tgi", "PagedAttention", in, "out", a)
		g.value(true, "out", float32s, "t", "w")
		s, err := openSession(g.write(t), sessionOptions{threads: 1})
		if err == nil {
			s.close()
		}
		if err == nil || !strings.Contains(err.Error(), "latent_size is larger than head_size, or beside a window") {
			t.Errorf("%v: %v", a, err)
		}
	}
}

// TestHeadMatMul compares the products of heads with their definition; a row's bits do not depend on the others.
func TestHeadMatMul(t *testing.T) {
	start(t)
	for _, c := range []struct{ heads, n, k, tail, bits, block int }{
		{3, 20, 12, 4, 0, 0}, {1, 70, 33, 0, 0, 0}, {3, 20, 12, 4, 8, 32}, {2, 130, 96, 8, 4, 32},
		{4, 16, 64, 0, 4, 64},
	} {
		t.Run(fmt.Sprint(c), func(t *testing.T) {
			r := rand.New(rand.NewPCG(uint64(c.n), 7))
			const rows = 35
			g := &graph{}
			g.value(false, "x", float32s, "t", "w")
			var floats []float32
			var matrices []*quantised
			if c.bits == 0 {
				floats = normal(r, c.heads*c.n*c.k)
				g.floats("w", floats, len(floats))
			} else {
				var packed []byte
				for range c.heads {
					matrices = append(matrices, newQuantised(r, c.n, c.k, form{bits: c.bits, block: c.block}))
					packed = append(packed, matrices[len(matrices)-1].packed()...)
				}
				g.constant("w", uint8s, packed, []int{len(packed)})
			}
			g.node("tgi", "HeadMatMul", []string{"x", "w"}, "out", attrs{"heads": c.heads, "N": c.n, "K": c.k,
				"tail": c.tail, "bits": c.bits, "block_size": c.block})
			width := c.heads * (c.tail + c.n)
			g.value(true, "out", float32s, "t", width)
			path := g.write(t)
			n := newNode(t, path, sessionOptions{threads: 2})
			x := normal(r, rows*c.heads*(c.k+c.tail))
			run := func(x []float32) []float32 {
				count := int64(len(x) / (c.heads * (c.k + c.tail)))
				put(t, n, false, "x", x, count, int64(c.heads*(c.k+c.tail)))
				out := put(t, n, true, "out", make([]float32, int(count)*width), count, int64(width))
				if err := n.run(); err != nil {
					t.Fatal(err)
				}
				return slices.Clone(out)
			}
			got := run(x)
			for row := range rows {
				own := x[row*c.heads*(c.k+c.tail):][:c.heads*(c.k+c.tail)]
				for h := range c.heads {
					head, out := own[h*(c.k+c.tail):][:c.k+c.tail], got[row*width+h*(c.tail+c.n):][:c.tail+c.n]
					if !slices.Equal(out[:c.tail], head[c.k:]) {
						t.Fatalf("row %d, head %d: the tail is another one", row, h)
					}
					want := make([]float64, c.n)
					if c.bits > 0 {
						want, _ = matrices[h].product(head[:c.k])
					} else {
						for i := range want {
							for j := range c.k {
								want[i] += float64(head[j]) * float64(floats[(h*c.n+i)*c.k+j])
							}
						}
					}
					if d := apart(out[c.tail:], want); !(d < 1e-4) {
						t.Fatalf("row %d, head %d differs by %g", row, h, d)
					}
				}
				if alone := run(own); !slices.Equal(alone, got[row*width:][:width]) {
					t.Fatalf("row %d has other bits alone", row)
				}
			}
			put(t, n, false, "x", x[:2*(c.heads*(c.k+c.tail)-1)], 2, int64(c.heads*(c.k+c.tail)-1))
			if err := n.run(); err == nil || !strings.Contains(err.Error(), "the rows have another width") {
				t.Errorf("rows of another width: %v", err)
			}
		})
	}
}
