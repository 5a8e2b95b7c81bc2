package ort

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// openSwiGLU returns a session that holds one SwiGLU.
func openSwiGLU(t *testing.T, width int) *node {
	t.Helper()
	start(t)
	g := &graph{}
	g.value(false, "x", float32s, "t", width)
	g.node("tgi", "SwiGLU", []string{"x"}, "out", nil)
	g.value(true, "out", float32s, "t", width/2)
	return newNode(t, g.write(t), sessionOptions{threads: 2})
}

// gated runs rows of x, each of 2*width floats.
func gated(t *testing.T, n *node, x []float32, width int) []float32 {
	t.Helper()
	rows := int64(len(x) / (2 * width))
	put(t, n, false, "x", x, rows, int64(2*width))
	out := put(t, n, true, "out", make([]float32, int(rows)*width), rows, int64(width))
	if err := n.run(); err != nil {
		t.Fatal(err)
	}
	return out
}

func TestSwiGLUMatchesDefinition(t *testing.T) {
	for _, kernel := range kernels(t) {
		if err := chooseAttention(kernel); err != nil {
			t.Fatal(err)
		}
		for _, c := range []struct{ rows, width int }{{1, 1}, {1, 17}, {3, 64}, {40, 1536}, {70, 1000}} {
			r := rand.New(rand.NewPCG(uint64(c.rows), uint64(c.width)))
			x := normal(r, c.rows*2*c.width)
			for i := range x {
				x[i] *= 8
			}
			for i, extreme := range []float32{0, 100, -100, 1e30, -1e30, -87.5} {
				if i < c.width {
					x[i] = extreme
				}
			}
			n := openSwiGLU(t, 2*c.width)
			out := gated(t, n, x, c.width)
			for i, got := range out {
				gate, up := float64(x[i/c.width*2*c.width+i%c.width]), float64(x[i/c.width*2*c.width+c.width+i%c.width])
				want := gate / (1 + math.Exp(-gate)) * up
				if d := math.Abs(float64(got) - want); !(d <= 1e-6+2e-6*math.Abs(want)) {
					t.Fatalf("%s %dx%d: silu(%g)*%g = %g, want %g", kernel, c.rows, c.width, gate, up, got, want)
				}
			}
			alone := gated(t, n, x[:2*c.width], c.width)
			if !slices.Equal(alone, out[:c.width]) {
				t.Errorf("%s %dx%d: a row's result depends on the others", kernel, c.rows, c.width)
			}
		}
	}
}

func TestSwiGLURefusesOddWidth(t *testing.T) {
	n := openSwiGLU(t, 3)
	put(t, n, false, "x", make([]float32, 3), 1, 3)
	put(t, n, true, "out", make([]float32, 1), 1, 1)
	if err := n.run(); err == nil {
		t.Error("a matrix of width 3 was accepted")
	}
}
