package ort

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// openGLU returns a session that holds one GLU.
func openGLU(t *testing.T, width, activation int) *node {
	t.Helper()
	start(t)
	g := &graph{}
	g.value(false, "x", float32s, "t", width)
	g.node("tgi", "GLU", []string{"x"}, "out", attrs{"activation": activation})
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

func TestGLUMatchesDefinition(t *testing.T) {
	definitions := []struct {
		name string
		of   func(x float64) float64
	}{
		{"silu", func(x float64) float64 { return x / (1 + math.Exp(-x)) }},
		{"gelu_tanh", func(x float64) float64 {
			return x / 2 * (1 + math.Tanh(math.Sqrt(2/math.Pi)*(x+0.044715*x*x*x)))
		}},
		{"gelu", func(x float64) float64 { return x / 2 * math.Erfc(-x/math.Sqrt2) }},
		{"relu", func(x float64) float64 { return max(x, 0) }},
	}
	for _, kernel := range kernels(t) {
		if err := chooseAttention(kernel); err != nil {
			t.Fatal(err)
		}
		for activation, definition := range definitions {
			for _, c := range []struct{ rows, width int }{{1, 1}, {1, 17}, {3, 64}, {40, 1536}, {70, 1000}} {
				r := rand.New(rand.NewPCG(uint64(c.rows), uint64(c.width)))
				x := normal(r, c.rows*2*c.width)
				for i := range x {
					x[i] *= 8
				}
				for i, extreme := range []float32{0, 100, -100, 1e30, -1e30, -87.5, 1e-30, -1e-4} {
					if i < c.width {
						x[i] = extreme
					}
				}
				n := openGLU(t, 2*c.width, activation)
				out := gated(t, n, x, c.width)
				for i, got := range out {
					at := i/c.width*2*c.width + i%c.width
					gate, up := float64(x[at]), float64(x[at+c.width])
					want := definition.of(gate) * up
					// The tail of the normal distribution is exact to 1.5e-7.
					if d := math.Abs(float64(got) - want); !(d <= 1e-6+2e-6*math.Abs(want)+2e-7*math.Abs(gate*up)) {
						t.Fatalf("%s %dx%d: %s(%g)*%g = %g, want %g", kernel, c.rows, c.width, definition.name, gate,
							up,
							got, want)
					}
				}
				alone := gated(t, n, x[:2*c.width], c.width)
				if !slices.Equal(alone, out[:c.width]) {
					t.Errorf("%s %s %dx%d: a row's result depends on the others", kernel, definition.name, c.rows, c.width)
				}
			}
		}
	}
}

// TestGLURefusesUnknownActivation: an attribute out of bounds is an error when the model is loaded.
func TestGLURefusesUnknownActivation(t *testing.T) {
	start(t)
	for _, activation := range []int{-1, 4} {
		g := &graph{}
		g.value(false, "x", float32s, "t", 2)
		g.node("tgi", "GLU", []string{"x"}, "out", attrs{"activation": activation})
		g.value(true, "out", float32s, "t", 1)
		if s, err := openSession(g.write(t), sessionOptions{threads: 1}); err == nil {
			s.close()
			t.Errorf("activation %d was accepted", activation)
		}
	}
}

func TestGLURefusesOddWidth(t *testing.T) {
	n := openGLU(t, 3, 0)
	put(t, n, false, "x", make([]float32, 3), 1, 3)
	put(t, n, true, "out", make([]float32, 1), 1, 1)
	if err := n.run(); err == nil {
		t.Error("a matrix of width 3 was accepted")
	}
}

// TestOperatorsBesideVNNI: attention to codes in integers is all that the kernel with VNNI has of its own. The
// operators that choose by the kernel give the bits of AVX-512 beside it.
func TestOperatorsBesideVNNI(t *testing.T) {
	list := slices.DeleteFunc(kernels(t), func(k string) bool { return !strings.HasPrefix(k, "avx512") })
	if len(list) < 2 {
		t.Skip("the processor has no VNNI beside AVX-512: there is nothing to compare")
	}
	var first [][]float32
	for _, kernel := range list {
		if err := chooseAttention(kernel); err != nil {
			t.Fatal(err)
		}
		r := rand.New(rand.NewPCG(1, 2))
		l := openLoRA(t, 577, [2]int{300, 40}, 0)
		a := l.adapter(t, r, [2]int{7, 7}, false, 0)
		added, err := l.add(t, normal(r, 340), normal(r, 577), []int64{a.address()})
		if err != nil {
			t.Fatal(err)
		}
		got := [][]float32{slices.Clone(added)}
		for activation := range 4 {
			got = append(got, slices.Clone(gated(t, openGLU(t, 2000, activation), normal(r, 2000), 1000)))
		}
		if first == nil {
			first = got
		}
		for i := range got {
			if !slices.Equal(got[i], first[i]) {
				t.Errorf("%s: operator %d has other bits", kernel, i)
			}
		}
	}
}
