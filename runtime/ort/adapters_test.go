package ort

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// lora is one session that holds one LoRA node of two matrices, and its adapters.
type lora struct {
	*node
	in    int
	outs  [2]int
	width int
}

func openLoRA(t *testing.T, in int, outs [2]int, first int) *lora {
	t.Helper()
	start(t)
	width := outs[0] + outs[1]
	g := &graph{}
	g.value(false, "y", float32s, "t", width)
	g.value(false, "x", float32s, "t", in)
	g.value(false, "ids", int64s, "t")
	// Nodes compute the product and read the sum, as in a model: the operator may then add in place.
	g.node("", "Neg", []string{"y"}, "minus", nil)
	g.node("", "Neg", []string{"minus"}, "product", nil)
	g.node("tgi", "LoRA", []string{"product", "x", "ids"}, "sum", attrs{"first": first, "count": 2})
	g.node("", "Neg", []string{"sum"}, "minus_sum", nil)
	g.node("", "Neg", []string{"minus_sum"}, "out", nil)
	g.value(true, "out", float32s, "t", width)
	return &lora{newNode(t, g.write(t), sessionOptions{threads: 2}), in, outs, width}
}

// run adds the adapters to rows of y; ids holds an address for each row, 0 for none.
func (l *lora) add(t *testing.T, y, x []float32, ids []int64) ([]float32, error) {
	t.Helper()
	rows := int64(len(ids))
	put(t, l.node, false, "y", y, rows, int64(l.width))
	put(t, l.node, false, "x", x, rows, int64(l.in))
	b := &buffer{}
	l.bufs = append(l.bufs, b)
	if err := fill[int64](b, ids); err != nil {
		t.Fatal(err)
	}
	if err := l.bind(false, "ids", int64s, b.at, rows); err != nil {
		t.Fatal(err)
	}
	out := put(t, l.node, true, "out", make([]float32, len(y)), rows, int64(l.width))
	return out, l.run()
}

// numbers returns numbers as an adapter holds them, and as they are then.
func numbers(x []float32, narrow bool) (data []byte, as []float32) {
	as = slices.Clone(x)
	for i, f := range x {
		b := math.Float32bits(f)
		if narrow {
			data = binary.NativeEndian.AppendUint16(data, uint16(b>>16))
			as[i] = math.Float32frombits(b &^ 0xffff)
		} else {
			data = binary.NativeEndian.AppendUint32(data, b)
		}
	}
	return data, as
}

// lowRank is an adapter and its numbers.
type lowRank struct {
	adapter
	sites []LowRank
	a, b  [][]float32
}

func (l *lora) adapter(t *testing.T, r *rand.Rand, ranks [2]int, narrow bool, first int) lowRank {
	t.Helper()
	out := lowRank{sites: make([]LowRank, first), a: make([][]float32, 2), b: make([][]float32, 2)}
	for i, rank := range ranks {
		s := LowRank{In: l.in, Out: l.outs[i], Offset: i * l.outs[0], Rank: rank,
			Scale: 0.25 * float32(i+1), BFloat16: narrow}
		s.A, out.a[i] = numbers(normal(r, rank*l.in), narrow)
		s.B, out.b[i] = numbers(normal(r, rank*l.outs[i]), narrow)
		out.sites = append(out.sites, s)
	}
	var err error
	if out.adapter, err = newAdapter(out.sites); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(out.memory.unmap)
	return out
}

func (a *lowRank) address() int64 { return int64(uintptr(a.memory.at)) }

// add is the definition, in 64 bits.
func (a *lowRank) add(y, x []float32, first int) []float64 {
	out := make([]float64, len(y))
	for i, v := range y {
		out[i] = float64(v)
	}
	for i, s := range a.sites[first:] {
		for r := range s.Rank {
			h := 0.0
			for k := range s.In {
				h += float64(x[k]) * float64(a.a[i][r*s.In+k])
			}
			for j := range s.Out {
				out[s.Offset+j] += float64(s.Scale) * h * float64(a.b[i][r*s.Out+j])
			}
		}
	}
	return out
}

// TestLoRAMatchesDefinition: rows with many adapters and without one are each as the definition says, and as they are
// alone, bit by bit.
func TestLoRAMatchesDefinition(t *testing.T) {
	for _, kernel := range kernels(t) {
		if err := chooseAttention(kernel); err != nil {
			t.Fatal(err)
		}
		for _, c := range []struct{ rows, in, out0, out1 int }{{1, 1, 1, 1}, {5, 64, 64, 32}, {40, 577, 1100, 3},
			{100, 96, 700, 512}} {
			const first = 3
			r := rand.New(rand.NewPCG(uint64(c.rows), uint64(c.in)))
			l := openLoRA(t, c.in, [2]int{c.out0, c.out1}, first)
			all := []lowRank{l.adapter(t, r, [2]int{4, 4}, false, first), l.adapter(t, r, [2]int{0, 64}, true, first),
				l.adapter(t, r, [2]int{1, 7}, false, first), l.adapter(t, r, [2]int{70, 0}, true, first),
				l.adapter(t, r, [2]int{0, 0}, true, first)}
			y, x := normal(r, c.rows*l.width), normal(r, c.rows*c.in)
			ids, of := make([]int64, c.rows), make([]int, c.rows)
			for i := range ids {
				if of[i] = r.IntN(len(all) + 1); of[i] < len(all) {
					ids[i] = all[of[i]].address()
				}
			}
			got, err := l.add(t, y, x, ids)
			if err != nil {
				t.Fatal(err)
			}
			got = slices.Clone(got)
			for i := range c.rows {
				yi, xi, gi := y[i*l.width:][:l.width], x[i*c.in:][:c.in], got[i*l.width:][:l.width]
				if of[i] == len(all) {
					if !slices.Equal(gi, yi) {
						t.Fatalf("%s %+v: row %d without an adapter has changed", kernel, c, i)
					}
					continue
				}
				for j, want := range all[of[i]].add(yi, xi, first) {
					if d := math.Abs(float64(gi[j]) - want); !(d <= 2e-4+1e-5*math.Abs(want)) {
						t.Fatalf("%s %+v: row %d of adapter %d, column %d: %g, want %g", kernel, c, i, of[i], j, gi[j], want)
					}
				}
				alone, err := l.add(t, yi, xi, ids[i:i+1])
				if err != nil || !slices.Equal(alone, gi) {
					t.Fatalf("%s %+v: row %d is another one alone: %v", kernel, c, i, err)
				}
			}
		}
	}
}

// TestLoRARefusesWhatDoesNotFit: an adapter of another model is an error and not a write beside the output.
func TestLoRARefusesWhatDoesNotFit(t *testing.T) {
	l := openLoRA(t, 8, [2]int{4, 4}, 0)
	r := rand.New(rand.NewPCG(1, 1))
	for name, change := range map[string]func(s []LowRank) []LowRank{
		"too few":    func(s []LowRank) []LowRank { return s[:1] },
		"input":      func(s []LowRank) []LowRank { s[0].In, s[0].Rank = 4, 2; return s },
		"too far":    func(s []LowRank) []LowRank { s[1].Offset = 5; return s },
		"too many":   func(s []LowRank) []LowRank { s[1].Out, s[1].B = 8, append(s[1].B, s[1].B...); return s },
		"far beyond": func(s []LowRank) []LowRank { s[1].Offset = math.MaxInt; return s },
	} {
		whole := l.adapter(t, r, [2]int{1, 1}, false, 0)
		sites := change(whole.sites)
		if name == "input" {
			sites[0].A, sites[0].B = append([]byte{}, sites[0].A...), append(sites[0].B, sites[0].B...)
		}
		a, err := newAdapter(sites)
		if err != nil {
			t.Fatal(err)
		}
		_, err = l.add(t, make([]float32, 8), make([]float32, 8), []int64{int64(uintptr(a.memory.at))})
		if err == nil || !strings.Contains(err.Error(), "does not fit") {
			t.Errorf("%s: %v", name, err)
		}
		a.memory.unmap()
	}
	for name, s := range map[string]LowRank{
		"rank":    {In: 1, Out: 1, Rank: 1025, A: make([]byte, 4100), B: make([]byte, 4100)},
		"data":    {In: 2, Out: 2, Rank: 1, A: make([]byte, 8), B: make([]byte, 7)},
		"nothing": {Rank: 1},
	} {
		if a, err := newAdapter([]LowRank{s}); err == nil {
			a.memory.unmap()
			t.Errorf("%s was accepted", name)
		}
	}
}
