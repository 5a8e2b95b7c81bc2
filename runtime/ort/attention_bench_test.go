package ort

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"
	"unsafe"
)

// The benchmarks run 24 layers' worth of attention in one session, each node
// with caches of its own, at the shape of a 0.5B model (14 query and 2 key
// heads of 64), beside ONNX Runtime's GroupQueryAttention for the same work.
const benchLayers = 24

var benchShape = shape{heads: 14, kvHeads: 2, headSize: 64}

// benchNodes opens a session of benchLayers nodes that share inputs except for
// the caches.
func benchNodes(b *testing.B, add func(g *graph, layer int)) *node {
	b.Helper()
	start(b)
	g := &graph{}
	for l := range benchLayers {
		add(g, l)
	}
	return newNode(b, g.write(b), sessionOptions{threads: Threads()})
}

func benchPaged(b *testing.B, form CacheForm, lengths [][2]int) *node {
	s := benchShape
	s.form = form
	r := rand.New(rand.NewPCG(1, 1))
	kv := s.kvHeads * s.headSize
	blocks, rows := deal(r, lengths)
	c := lay(r, s, blocks, rows)
	layer := [2][]byte{packCache(s, c.kCache, true), packCache(s, c.vCache, false)}
	cache, err := mapPages(2 * benchLayers * len(layer[0]))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(cache.unmap)
	cache.enlarge(cache.bytes) // as that of a server, which is larger
	n := benchNodes(b, func(g *graph, l int) {
		if l == 0 {
			g.value(false, "q", float32s, "t", s.heads*s.headSize)
			g.value(false, "k", float32s, "t", kv)
			g.value(false, "v", float32s, "t", kv)
			g.value(false, "cu", int32s, "b1")
			g.value(false, "past", int32s, "b")
			g.value(false, "table", int32s, "b", "m")
			g.value(false, "slots", int32s, "t")
			g.value(false, "form", int32s, 1)
		}
		k, v, o := fmt.Sprint("kc", l), fmt.Sprint("vc", l), fmt.Sprint("out", l)
		g.value(false, k, uint8s, "n", "bytes")
		g.value(false, v, uint8s, "n", "bytes")
		g.value(true, o, float32s, "t", s.heads*s.headSize)
		g.node("tgi", "PagedAttention", []string{"q", "k", "v", k, v, "cu", "past", "table", "", "", "slots", "",
			"", "", "", "", "form"}, o,
			attrs{"num_heads": s.heads, "kv_num_heads": s.kvHeads, "head_size": s.headSize})
	})
	tokens := int64(len(c.slots))
	put(b, n, false, "q", c.q, tokens, int64(s.heads*s.headSize))
	put(b, n, false, "k", c.k, tokens, int64(kv))
	put(b, n, false, "v", c.v, tokens, int64(kv))
	put(b, n, false, "cu", c.cu, int64(len(rows)+1))
	put(b, n, false, "past", c.past, int64(len(rows)))
	put(b, n, false, "table", c.table, int64(len(rows)), int64(c.maxBlocks))
	put(b, n, false, "slots", c.slots, tokens)
	put(b, n, false, "form", []int32{int32(cacheForms[form])}, 1)
	for l := range benchLayers {
		for i, name := range []string{"kc", "vc"} {
			at := unsafe.Add(cache.at, (2*l+i)*len(layer[i]))
			copy(unsafe.Slice((*byte)(at), len(layer[i])), layer[i])
			err := n.bind(false, fmt.Sprint(name, l), uint8s, at, int64(blocks), int64(len(layer[i])/blocks))
			if err != nil {
				b.Fatal(err)
			}
		}
		put(b, n, true, fmt.Sprint("out", l), make([]float32, len(c.q)), tokens, int64(s.heads*s.headSize))
	}
	return n
}

// benchGroup is the same work for ONNX Runtime's own operator, whose rows must
// all have the same length here.
func benchGroup(b *testing.B, rows, past, tokens int) *node {
	s := benchShape
	r := rand.New(rand.NewPCG(1, 1))
	kv, room := s.kvHeads*s.headSize, 1024
	n := benchNodes(b, func(g *graph, l int) {
		if l == 0 {
			g.value(false, "q", float32s, "b", "s", s.heads*s.headSize)
			g.value(false, "k", float32s, "b", "s", kv)
			g.value(false, "v", float32s, "b", "s", kv)
			g.value(false, "lens", int32s, "b")
			g.value(false, "total", int32s, 1)
		}
		k, v, o := fmt.Sprint("kc", l), fmt.Sprint("vc", l), fmt.Sprint("out", l)
		g.value(false, k, float32s, "b", s.kvHeads, "m", s.headSize)
		g.value(false, v, float32s, "b", s.kvHeads, "m", s.headSize)
		g.value(true, o, float32s, "b", "s", s.heads*s.headSize)
		g.value(true, "p"+k, float32s, "b", s.kvHeads, "m", s.headSize)
		g.value(true, "p"+v, float32s, "b", s.kvHeads, "m", s.headSize)
		g.nodes("com.microsoft", "GroupQueryAttention", []string{"q", "k", "v", k, v, "lens", "total"},
			[]string{o, "p" + k, "p" + v},
			attrs{"num_heads": s.heads, "kv_num_heads": s.kvHeads})
	})
	lens := make([]int32, rows)
	for i := range lens {
		lens[i] = int32(past + tokens - 1)
	}
	t := int64(tokens)
	put(b, n, false, "q", normal(r, rows*tokens*s.heads*s.headSize), int64(rows), t, int64(s.heads*s.headSize))
	put(b, n, false, "k", normal(r, rows*tokens*kv), int64(rows), t, int64(kv))
	put(b, n, false, "v", normal(r, rows*tokens*kv), int64(rows), t, int64(kv))
	put(b, n, false, "lens", lens, int64(rows))
	put(b, n, false, "total", []int32{int32(past + tokens)}, 1)
	for l := range benchLayers {
		for _, name := range []string{fmt.Sprint("kc", l), fmt.Sprint("vc", l)} {
			put(b, n, false, name, normal(r, rows*kv*room), int64(rows), int64(s.kvHeads), int64(room),
				int64(s.headSize))
			at := n.bufs[len(n.bufs)-1].at
			if err := n.bind(true, "p"+name, float32s, at, int64(rows), int64(s.kvHeads), int64(room),
				int64(s.headSize)); err != nil {
				b.Fatal(err)
			}
		}
		put(b, n, true, fmt.Sprint("out", l), make([]float32, rows*tokens*s.heads*s.headSize), int64(rows), t,
			int64(s.heads*s.headSize))
	}
	return n
}

// times runs the session and reports the microseconds per layer of the best
// run, which says more than the mean where other programs run too.
func times(b *testing.B, n *node) {
	best := time.Hour
	for b.Loop() {
		from := time.Now()
		if err := n.run(); err != nil {
			b.Fatal(err)
		}
		best = min(best, time.Since(from))
	}
	b.ReportMetric(float64(best.Nanoseconds())/1e3/benchLayers, "best-µs/layer")
}

func BenchmarkAttention(b *testing.B) {
	for _, c := range []struct {
		name               string
		rows, past, tokens int
	}{
		{"decode 1 row at 100", 1, 99, 1},
		{"decode 1 row at 900", 1, 899, 1},
		{"decode 8 rows at 900", 8, 899, 1},
		{"chunk of 64 at 900", 1, 836, 64},
		{"chunk of 256 at 900", 1, 644, 256},
	} {
		lengths := make([][2]int, c.rows)
		for i := range lengths {
			lengths[i] = [2]int{c.past, c.tokens}
		}
		for _, kernel := range kernels(b) {
			b.Run(c.name+"/"+kernel, func(b *testing.B) {
				if err := chooseAttention(kernel); err != nil {
					b.Fatal(err)
				}
				times(b, benchPaged(b, CacheFloat32, lengths))
			})
		}
		b.Run(c.name+"/GroupQueryAttention", func(b *testing.B) {
			times(b, benchGroup(b, c.rows, c.past, c.tokens))
		})
	}
	lengths := [][2]int{{836, 64}}
	for range 7 {
		lengths = append(lengths, [2]int{899, 1})
	}
	b.Run("7 decode rows and a chunk of 64/best", func(b *testing.B) { times(b, benchPaged(b, CacheFloat32, lengths)) })
}

// BenchmarkLongContext is one decoded token far behind its prompt, with each form of the cache, in turns. It reports
// the bytes of keys and values that it reads each second.
func BenchmarkLongContext(b *testing.B) {
	for _, past := range []int{8191, 32767} {
		for _, form := range []CacheForm{CacheFloat32, CacheFloat16, CacheBFloat16, CacheInt8} {
			b.Run(fmt.Sprint(past+1, " tokens/", form), func(b *testing.B) {
				n := benchPaged(b, form, [][2]int{{past, 1}})
				times(b, n)
				o := Options{Layers: benchLayers, KVHeads: benchShape.kvHeads, HeadDim: benchShape.headSize,
					Cache: form}
				bytes := float64(past+1) / blockSize * float64(o.BlockBytes())
				b.ReportMetric(bytes*float64(b.N)/b.Elapsed().Seconds()/1e9, "GB/s")
			})
		}
	}
}
