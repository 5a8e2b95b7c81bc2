package ort

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

// openGatedProduct returns a session with one MatMulQ that applies an activation.
func openGatedProduct(t testing.TB, q *quantised, bias []float32, activation, threads int) *node {
	t.Helper()
	start(t)
	g := &graph{}
	packed := q.packed()
	g.constant("w", uint8s, packed, []int{len(packed)})
	g.value(false, "x", float32s, "t", q.k)
	in := []string{"x", "w"}
	if bias != nil {
		g.floats("bias", bias, len(bias))
		in = append(in, "bias")
	}
	a := q.attrs()
	a["activation"] = activation
	g.node("tgi", "MatMulQ", in, "out", a)
	g.value(true, "out", float32s, "t", q.n/2)
	return newNode(t, g.write(t), sessionOptions{threads: threads})
}

// TestGatedProduct checks that a product with an activation has the bits of the product and tgi.GLU behind it, for
// every kernel and number of rows.
func TestGatedProduct(t *testing.T) {
	names := products(t)
	forms(func(f form) {
		for _, n := range []int{32, 320, 672} {
			r := rand.New(rand.NewPCG(uint64(f.bits), uint64(n)))
			q := newQuantised(r, n, 300, f)
			x, bias := normal(r, 300*q.k), normal(r, n)
			unusual(x, q.k)
			for activation := range 4 {
				for _, own := range [][]float32{nil, bias} {
					if (activation > 0) == (own == nil) {
						continue // of the eight pairs one of each row and column
					}
					product, glu := openProduct(t, q, own, 2), openGLU(t, n, activation)
					together := openGatedProduct(t, q, own, activation, 2)
					for _, name := range names {
						if err := chooseProduct(name); err != nil {
							t.Fatal(err)
						}
						for _, rows := range []int{1, 3, 15, 16, 17, 140, 300} {
							part := x[:rows*q.k]
							want := gated(t, glu, multiplied(t, product, q, part), n/2)
							put(t, together, false, "x", part, int64(rows), int64(q.k))
							got := put(t, together, true, "out", make([]float32, rows*n/2), int64(rows), int64(n/2))
							if err := together.run(); err != nil {
								t.Fatal(err)
							}
							if !sameBits(got, want) {
								t.Fatalf("%s, %+v, %d columns, activation %d, %d rows: other bits", name, f, n,
									activation, rows)
							}
						}
					}
				}
			}
		}
	})
}

func TestGatedProductRefuses(t *testing.T) {
	start(t)
	for _, c := range []struct{ n, activation int }{{32, 4}, {32, -1}, {48, 0}, {16, 0}} {
		g := &graph{}
		g.constant("w", uint8s, make([]byte, c.n*18), []int{c.n * 18})
		g.value(false, "x", float32s, "t", 32)
		g.node("tgi", "MatMulQ", []string{"x", "w"}, "out",
			attrs{"N": c.n, "K": 32, "bits": 4, "block_size": 32, "activation": c.activation})
		g.value(true, "out", float32s, "t", c.n/2)
		s, err := openSession(g.write(t), sessionOptions{threads: 1})
		if err == nil {
			s.close()
		}
		if err == nil || !strings.Contains(err.Error(), "activation is out of bounds") {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

// BenchmarkGated multiplies by both halves of a gated unit and applies its activation, in one node and in two.
func BenchmarkGated(b *testing.B) {
	for _, shape := range [][2]int{{3072, 576}, {9728, 896}} {
		q := newQuantised(rand.New(rand.NewPCG(1, 1)), shape[0], shape[1], form{bits: 4, block: 32})
		for _, rows := range []int{1, 16, 512} {
			x := normal(rand.New(rand.NewPCG(1, 1)), rows*q.k)
			b.Run(fmt.Sprintf("%dx%d/%d rows/one", q.n, q.k, rows), func(b *testing.B) {
				n := openGatedProduct(b, q, nil, 0, 2)
				put(b, n, false, "x", x, int64(rows), int64(q.k))
				put(b, n, true, "out", make([]float32, rows*q.n/2), int64(rows), int64(q.n/2))
				for b.Loop() {
					if err := n.run(); err != nil {
						b.Fatal(err)
					}
				}
			})
			b.Run(fmt.Sprintf("%dx%d/%d rows/two", q.n, q.k, rows), func(b *testing.B) {
				start(b)
				g := &graph{}
				packed := q.packed()
				g.constant("w", uint8s, packed, []int{len(packed)})
				g.value(false, "x", float32s, "t", q.k)
				g.node("tgi", "MatMulQ", []string{"x", "w"}, "product", q.attrs())
				g.node("tgi", "GLU", []string{"product"}, "out", attrs{"activation": 0})
				g.value(true, "out", float32s, "t", q.n/2)
				n := newNode(b, g.write(b), sessionOptions{threads: 2})
				put(b, n, false, "x", x, int64(rows), int64(q.k))
				put(b, n, true, "out", make([]float32, rows*q.n/2), int64(rows), int64(q.n/2))
				for b.Loop() {
					if err := n.run(); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
