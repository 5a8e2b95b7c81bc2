package ort

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"unsafe"
)

// shape is a configuration of the operator.
type shape struct {
	heads, kvHeads, headSize int
	window                   int
	half                     int // rotated pairs; 0 is no rotation
	interleaved              bool
	norm                     bool
	packed                   bool
	form                     CacheForm
	byToken                  bool
	scale                    float32 // 0 is the default
	softcap                  float32 // 0 is none
	sinks, slopes            bool
	mutual                   bool // some tokens see each other, also those behind them
	normAfter                bool
	stretchFrom              int // positions from which queries grow; 0 is none
	stretch                  float32
}

func (s shape) String() string {
	return fmt.Sprintf("h%d_kv%d_d%d_w%d_r%d_i%v_n%v_p%v_c%v_s%v%v%v_a%v_f%d", s.heads, s.kvHeads, s.headSize, s.window,
		s.half, s.interleaved, s.norm, s.packed, s.softcap, s.sinks, s.slopes, s.mutual, s.normAfter, s.stretchFrom)
}

const maxPositions = 4096

// row is one sequence's part of a call.
type row struct {
	past, tokens int
	blocks       []int32
	mute         bool // the tokens' keys and values are not written
}

// call is the operator's data for one run.
type call struct {
	shape
	q, k, v          []float32
	cu, past, table  []int32
	slots, ends      []int32
	maxBlocks        int
	kCache, vCache   []float32
	cos, sin, qn, kn []float32
	sink, slope      []float32
	// kBytes and vBytes, if not nil, are the caches in place of kCache and vCache.
	kBytes, vBytes []byte
	// kAfter and vAfter are the caches of the last run, in C memory.
	kAfter, vAfter []byte
}

func normal(r *rand.Rand, n int) []float32 {
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(r.NormFloat64())
	}
	return x
}

// lay makes a call out of rows, with random data and a cache of random contents.
func lay(r *rand.Rand, s shape, cacheBlocks int, rows []row) *call {
	c := &call{shape: s, cu: []int32{0}}
	for _, w := range rows {
		c.maxBlocks = max(c.maxBlocks, len(w.blocks))
	}
	c.maxBlocks++ // an unused column
	for _, w := range rows {
		c.past = append(c.past, int32(w.past))
		c.cu = append(c.cu, c.cu[len(c.cu)-1]+int32(w.tokens))
		for i := range c.maxBlocks {
			b := int32(-1)
			if i < len(w.blocks) {
				b = w.blocks[i]
			}
			c.table = append(c.table, b)
		}
		for i := range w.tokens {
			p := w.past + i
			slot := w.blocks[p/16]*16 + int32(p%16)
			if w.mute {
				slot = -1
			}
			c.slots = append(c.slots, slot)
		}
		for i := 0; s.mutual && i < w.tokens; { // one token, or some that see each other
			n := 1 + min(r.IntN(2)*r.IntN(40), w.tokens-i-1)
			for range n {
				c.ends = append(c.ends, int32(w.past+i+n))
			}
			i += n
		}
	}
	n := int(c.cu[len(rows)])
	c.q, c.k, c.v = normal(r, n*s.heads*s.headSize), normal(r, n*s.kvHeads*s.headSize),
		normal(r, n*s.kvHeads*s.headSize)
	size := cacheBlocks * s.kvHeads * s.headSize * 16
	c.kCache, c.vCache = normal(r, size), normal(r, size)
	if s.half > 0 {
		for p := range maxPositions {
			for i := range s.half {
				a := float64(p) * math.Pow(10000, -float64(i)/float64(s.half))
				c.cos = append(c.cos, float32(math.Cos(a)))
				c.sin = append(c.sin, float32(math.Sin(a)))
			}
		}
	}
	if s.norm {
		c.qn, c.kn = normal(r, s.headSize), normal(r, s.headSize)
	}
	if s.sinks {
		c.sink = normal(r, s.heads)
	}
	if s.slopes {
		for h := range s.heads {
			c.slope = append(c.slope, float32(math.Exp2(-8*float64(h+1)/float64(s.heads))))
		}
	}
	return c
}

// node is a session that holds one PagedAttention.
type node struct {
	*session
	*bound
	bufs []*buffer
}

// newNode opens the model at path.
func newNode(t testing.TB, path string, o sessionOptions) *node {
	t.Helper()
	s, err := openSession(path, o)
	if err != nil {
		t.Fatal(err)
	}
	n := &node{session: s}
	t.Cleanup(func() {
		if n.bound != nil {
			n.bound.close()
		}
		s.close()
		for _, b := range n.bufs {
			b.free()
		}
	})
	if n.bound, err = s.bindings(); err != nil {
		t.Fatal(err)
	}
	return n
}

func openNode(t testing.TB, s shape, threads int) *node {
	t.Helper()
	start(t)
	g := &graph{}
	ins := []string{"q", "k", "v", "kc", "vc", "cu", "past", "table", "cos", "sin", "slots", "sink", "qn", "kn",
		"slope", "ends", "form"}
	drop := func(names ...int) {
		for _, i := range names {
			ins[i] = ""
		}
	}
	width, kv := s.heads*s.headSize, s.kvHeads*s.headSize
	if s.packed {
		width += 2 * kv
		drop(1, 2)
	}
	if s.half == 0 {
		drop(8, 9)
	}
	if !s.norm {
		drop(12, 13)
	}
	if !s.sinks {
		drop(11)
	}
	if !s.slopes {
		drop(14)
	}
	if !s.mutual {
		drop(15)
	}
	dims := map[string][]any{"q": {"t", width}, "k": {"t", kv}, "v": {"t", kv}, "kc": {"n", "bytes"},
		"vc": {"n", "bytes"}, "form": {1},
		"cu": {"b1"}, "past": {"b"}, "table": {"b", "m"}, "cos": {"p", s.half}, "sin": {"p", s.half}, "slots": {"t"},
		"ends": {"t"}, "qn": {s.headSize}, "kn": {s.headSize},
		"sink": {s.heads}, "slope": {s.heads}}
	for _, name := range ins {
		if name == "" {
			continue
		}
		kind := float32s
		switch name {
		case "cu", "past", "table", "slots", "ends", "form":
			kind = int32s
		case "kc", "vc":
			kind = uint8s
		}
		g.value(false, name, kind, dims[name]...)
	}
	a := attrs{"num_heads": s.heads, "kv_num_heads": s.kvHeads, "head_size": s.headSize, "local_window_size": s.window,
		"qk_norm_epsilon": float32(1e-5), "scale": s.scale,
		"softcap": s.softcap, "query_stretch_from": s.stretchFrom, "query_stretch": s.stretch}
	if s.normAfter {
		a["qk_norm_after_rotary"] = 1
	}
	if s.half > 0 {
		a["do_rotary"] = 1
	}
	if s.byToken {
		a["rotary_by_token"] = 1
	}
	if s.interleaved {
		a["rotary_interleaved"] = 1
	}
	g.node("tgi", "PagedAttention", ins, "out", a)
	g.value(true, "out", float32s, "t", s.heads*s.headSize)
	return newNode(t, g.write(t), sessionOptions{threads: threads})
}

// put copies data into C memory and binds it.
func put[T byte | float32 | int32 | int64](t testing.TB, n *node, output bool, name string, data []T,
	dims ...int64) []T {
	t.Helper()
	b := &buffer{}
	if err := b.reserve(max(8*len(data), 8)); err != nil {
		t.Fatal(err)
	}
	n.bufs = append(n.bufs, b)
	view := unsafe.Slice((*T)(b.at), len(data))
	copy(view, data)
	kind := float32s
	switch any(data).(type) {
	case []int32:
		kind = int32s
	case []int64:
		kind = int64s
	case []byte:
		kind = uint8s
	}
	if err := n.bind(output, name, kind, b.at, dims...); err != nil {
		t.Fatal(err)
	}
	return view
}

// bindCall binds a call; the result and the caches in the call are views of C memory.
func bindCall(t testing.TB, n *node, c *call) (out []float32) {
	t.Helper()
	tokens, rows := int64(len(c.slots)), int64(len(c.past))
	kv := c.kvHeads * c.headSize
	if c.packed {
		var q []float32
		for i := range int(tokens) {
			q = append(q, c.q[i*c.heads*c.headSize:][:c.heads*c.headSize]...)
			q = append(append(q, c.k[i*kv:][:kv]...), c.v[i*kv:][:kv]...)
		}
		put(t, n, false, "q", q, tokens, int64(c.heads*c.headSize+2*kv))
	} else {
		put(t, n, false, "q", c.q, tokens, int64(c.heads*c.headSize))
		put(t, n, false, "k", c.k, tokens, int64(kv))
		put(t, n, false, "v", c.v, tokens, int64(kv))
	}
	c.kAfter = c.bindCache(t, n, "kc", c.kBytes, c.kCache, true)
	c.vAfter = c.bindCache(t, n, "vc", c.vBytes, c.vCache, false)
	put(t, n, false, "form", []int32{int32(cacheForms[c.form])}, 1)
	put(t, n, false, "cu", c.cu, rows+1)
	put(t, n, false, "past", c.past, rows)
	put(t, n, false, "table", c.table, rows, int64(c.maxBlocks))
	put(t, n, false, "slots", c.slots, tokens)
	if c.half > 0 {
		put(t, n, false, "cos", c.cos, maxPositions, int64(c.half))
		put(t, n, false, "sin", c.sin, maxPositions, int64(c.half))
	}
	if c.norm {
		put(t, n, false, "qn", c.qn, int64(c.headSize))
		put(t, n, false, "kn", c.kn, int64(c.headSize))
	}
	if c.sinks {
		put(t, n, false, "sink", c.sink, int64(c.heads))
	}
	if c.mutual {
		put(t, n, false, "ends", c.ends, tokens)
	}
	if c.slopes {
		put(t, n, false, "slope", c.slope, int64(c.heads))
	}
	out = put(t, n, true, "out", make([]float32, int(tokens)*c.heads*c.headSize), tokens, int64(c.heads*c.headSize))
	return out
}

// attend runs a call on a fresh copy of its caches.
func attend(t testing.TB, n *node, c *call) (out, kc, vc []float32) {
	t.Helper()
	out = bindCall(t, n, c)
	if err := n.run(); err != nil {
		t.Fatal(err)
	}
	return out, unpackCache(c.shape, c.kAfter, true), unpackCache(c.shape, c.vAfter, false)
}

// prepared is a head after normalisation and rotation, in float64.
func (c *call) prepared(src, weight []float32, position int) []float64 {
	x := make([]float64, c.headSize)
	for i := range x {
		x[i] = float64(src[i])
	}
	normalise := func() {
		var sum float64
		for _, v := range x {
			sum += v * v
		}
		for i := range x {
			x[i] *= float64(weight[i]) / math.Sqrt(sum/float64(len(x))+1e-5)
		}
	}
	if weight != nil && !c.normAfter {
		normalise()
	}
	for i := range c.half {
		a, b := i, i+c.half
		if c.interleaved {
			a, b = 2*i, 2*i+1
		}
		cs, sn := float64(c.cos[position*c.half+i]), float64(c.sin[position*c.half+i])
		x[a], x[b] = x[a]*cs-x[b]*sn, x[b]*cs+x[a]*sn
	}
	if weight != nil && c.normAfter {
		normalise()
	}
	return x
}

// plain is the operator's definition in float64.
func (c *call) plain() (out []float64, kc, vc []float64) {
	wide := func(x []float32) []float64 {
		y := make([]float64, len(x))
		for i, v := range x {
			y[i] = float64(v)
		}
		return y
	}
	kc, vc = wide(c.kCache), wide(c.vCache)
	hd, kvh := c.headSize, c.kvHeads
	keyAt := func(block int32, h, d, p int) int { return ((int(block)*kvh+h)*hd+d)*16 + p }
	valueAt := func(block int32, h, d, p int) int { return ((int(block)*kvh+h)*16+p)*hd + d }
	for b := range c.past {
		for t := int(c.cu[b]); t < int(c.cu[b+1]); t++ {
			if c.slots[t] < 0 {
				continue
			}
			for h := range kvh {
				k := c.prepared(c.k[(t*kvh+h)*hd:][:hd], c.kn, int(c.past[b])+t-int(c.cu[b]))
				for d := range hd {
					kc[keyAt(c.slots[t]/16, h, d, int(c.slots[t]%16))] = k[d]
					vc[valueAt(c.slots[t]/16, h, d, int(c.slots[t]%16))] = float64(c.v[(t*kvh+h)*hd+d])
				}
			}
		}
	}
	scale := float64(c.scale)
	if scale == 0 {
		scale = 1 / math.Sqrt(float64(hd))
	}
	out = make([]float64, len(c.q))
	for b := range c.past {
		for t := int(c.cu[b]); t < int(c.cu[b+1]); t++ {
			position := int(c.past[b]) + t - int(c.cu[b])
			from, end := 0, position+1
			if c.mutual {
				end = int(c.ends[t])
			}
			if c.window > 0 {
				from = max(0, position+1-c.window)
			}
			table := c.table[b*c.maxBlocks:]
			for head := range c.heads {
				h := head / (c.heads / kvh)
				q, scale := c.prepared(c.q[(t*c.heads+head)*hd:][:hd], c.qn, position), scale
				if c.stretchFrom > 0 {
					scale *= 1 + float64(c.stretch)*math.Log(1+math.Floor(float64(position)/float64(c.stretchFrom)))
				}
				weights, top := make([]float64, end), math.Inf(-1)
				for p := from; p < end; p++ {
					for d := range hd {
						weights[p] += q[d] * kc[keyAt(table[p/16], h, d, p%16)] * scale
					}
					if c.softcap > 0 {
						weights[p] = float64(c.softcap) * math.Tanh(weights[p]/float64(c.softcap))
					}
					if c.slopes {
						weights[p] -= float64(c.slope[head]) * float64(position-p)
					}
					top = max(top, weights[p])
				}
				var sum float64
				if c.sinks {
					top = max(top, float64(c.sink[head]))
					sum = math.Exp(float64(c.sink[head]) - top)
				}
				for p := from; p < end; p++ {
					weights[p] = math.Exp(weights[p] - top)
					sum += weights[p]
				}
				for p := from; p < end; p++ {
					for d := range hd {
						out[(t*c.heads+head)*hd+d] += weights[p] / sum * vc[valueAt(table[p/16], h, d, p%16)]
					}
				}
			}
		}
	}
	return out, kc, vc
}

// apart returns the largest difference relative to the largest value.
func apart(got []float32, want []float64) float64 {
	var diff, size float64
	for i, w := range want {
		d := math.Abs(float64(got[i]) - w)
		if math.IsNaN(d) {
			return d
		}
		diff, size = max(diff, d), max(size, math.Abs(w))
	}
	return diff / max(size, 1e-30)
}

// kernels returns the names of the kernels that this CPU runs, and restores
// the choice at the test's end.
func kernels(t testing.TB) []string {
	start(t)
	before := Attention()
	t.Cleanup(func() {
		if err := chooseAttention(before); err != nil {
			t.Error(err)
		}
	})
	var names []string
	for _, name := range []string{"portable", "avx2", "avx512", "avx512vnni", "neon"} {
		if chooseAttention(name) == nil {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		t.Fatal("no attention kernel")
	}
	return names
}

// deal cuts rows with the given pasts and tokens out of a shuffled cache.
func deal(r *rand.Rand, lengths [][2]int) (blocks int, rows []row) {
	for _, l := range lengths {
		rows = append(rows, row{past: l[0], tokens: l[1], blocks: make([]int32, (l[0]+l[1]+15)/16)})
		blocks += len(rows[len(rows)-1].blocks)
	}
	blocks += 3
	perm := r.Perm(blocks)
	for i := range rows {
		for j := range rows[i].blocks {
			rows[i].blocks[j] = int32(perm[0])
			perm = perm[1:]
		}
	}
	return blocks, rows
}

func TestAttentionMatchesDefinition(t *testing.T) {
	shapes := []shape{
		{heads: 4, kvHeads: 4, headSize: 64, half: 32, packed: true},
		{heads: 9, kvHeads: 3, headSize: 64, half: 32, packed: true},
		{heads: 14, kvHeads: 2, headSize: 64, half: 32},
		{heads: 8, kvHeads: 2, headSize: 64, half: 32, norm: true},
		{heads: 8, kvHeads: 1, headSize: 32, half: 8, packed: true},
		{heads: 5, kvHeads: 1, headSize: 80, half: 10, interleaved: true},
		{heads: 6, kvHeads: 1, headSize: 96, window: 40, half: 48, packed: true},
		{heads: 4, kvHeads: 2, headSize: 128, half: 64, norm: true, packed: true},
		{heads: 2, kvHeads: 1, headSize: 256, window: 300},
		{heads: 12, kvHeads: 1, headSize: 8, norm: true, scale: 0.7},
		{heads: 2, kvHeads: 2, headSize: 24, half: 4, window: 1, packed: true},
		{heads: 16, kvHeads: 1, headSize: 40, half: 20, interleaved: true, packed: true, window: 17},
		{heads: 8, kvHeads: 2, headSize: 64, half: 32, packed: true, softcap: 2.5, scale: 0.3},
		{heads: 6, kvHeads: 2, headSize: 32, half: 16, sinks: true, window: 20},
		{heads: 4, kvHeads: 4, headSize: 64, slopes: true, packed: true},
		{heads: 6, kvHeads: 3, headSize: 16, slopes: true, sinks: true, softcap: 5, window: 70, norm: true},
		{heads: 4, kvHeads: 2, headSize: 32, half: 8, norm: true, normAfter: true, packed: true},
		{heads: 4, kvHeads: 2, headSize: 32, half: 16, stretchFrom: 30, stretch: 0.4},
		{heads: 4, kvHeads: 1, headSize: 32, half: 16, mutual: true, packed: true},
		{heads: 8, kvHeads: 4, headSize: 256, half: 128, mutual: true, window: 13, norm: true},
		{heads: 2, kvHeads: 2, headSize: 24, mutual: true, window: 1, softcap: 4},
	}
	batches := map[string][][2]int{
		"first token": {{0, 1}},
		"decode":      {{37, 1}, {0, 1}, {255, 1}, {256, 1}, {15, 1}, {16, 1}},
		"long decode": {{1100, 1}},
		"prompt":      {{0, 70}},
		"chunk":       {{250, 61}},
		"mixed":       {{37, 1}, {20, 5}, {100, 1}, {0, 17}, {500, 3}, {16, 16}},
		"verify":      {{90, 5}, {31, 5}, {600, 4}},
	}
	names := kernels(t)
	for _, s := range shapes {
		n := openNode(t, s, 2)
		for name, lengths := range batches {
			r := rand.New(rand.NewPCG(1, 2))
			blocks, rows := deal(r, lengths)
			c := lay(r, s, blocks, rows)
			want, wantK, wantV := c.plain()
			for _, kernel := range names {
				if err := chooseAttention(kernel); err != nil {
					t.Fatal(err)
				}
				out, kc, vc := attend(t, n, c)
				for _, p := range []struct {
					what string
					got  []float32
					want []float64
				}{{"output", out, want}, {"keys", kc, wantK}, {"values", vc, wantV}} {
					if d := apart(p.got, p.want); !(d < 1e-5) {
						t.Errorf("%s %v %s: %s differ by %.3g", kernel, s, name, p.what, d)
					}
				}
			}
		}
	}
}

// TestRotaryByToken: with the rows of the tables that tokens have by their positions, a node that takes a row for each
// token gives what one gives that takes the tables, bit by bit; with other rows it gives something else, and a wrong
// number of them is refused.
func TestRotaryByToken(t *testing.T) {
	for _, s := range []shape{{heads: 4, kvHeads: 2, headSize: 16, half: 8, packed: true},
		{heads: 6, kvHeads: 2, headSize: 32, half: 16, window: 20, norm: true}} {
		rows := []row{{past: 20, tokens: 2, blocks: []int32{1, 2}}, {past: 0, tokens: 40, blocks: []int32{4, 5, 6}}}
		c := lay(rand.New(rand.NewPCG(2, 2)), s, 8, rows)
		out, kc, _ := attend(t, openNode(t, s, 1), c)
		var own call
		for _, w := range rows {
			own.cos = append(own.cos, c.cos[w.past*s.half:(w.past+w.tokens)*s.half]...)
			own.sin = append(own.sin, c.sin[w.past*s.half:(w.past+w.tokens)*s.half]...)
		}
		s.byToken = true
		n := openNode(t, s, 2)
		bind := func(cos, sin []float32) {
			tokens := int64(len(cos) / s.half)
			put(t, n, false, "cos", cos, tokens, int64(s.half))
			put(t, n, false, "sin", sin, tokens, int64(s.half))
		}
		got := bindCall(t, n, c)
		bind(own.cos, own.sin)
		if err := n.run(); err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(got, out) || !slices.Equal(unpackCache(s, c.kAfter, true), kc) {
			t.Errorf("%s: the result differs", s)
		}
		got = bindCall(t, n, c)
		bind(c.cos[:len(own.cos)], c.sin[:len(own.sin)])
		if err := n.run(); err != nil || slices.Equal(got, out) {
			t.Errorf("%s: other rows change nothing, %v", s, err)
		}
		bind(own.cos[s.half:], own.sin[s.half:])
		if err := n.run(); err == nil || !strings.Contains(err.Error(), "cos_cache does not have a row for each token") {
			t.Errorf("%s: %v", s, err)
		}
	}
}
