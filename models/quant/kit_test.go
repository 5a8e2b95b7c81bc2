package quant_test

import (
	"bytes"
	"errors"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"tgi/models/gguf"
	"tgi/models/quant"
	"tgi/models/safetensors"
	"tgi/models/tensors"
)

// known are matrices of the types of GGUF, and the values that the Python package gguf makes of them.
type known struct {
	t              *testing.T
	coded, decoded *tensors.Set
}

// openKnown opens them until the test ends.
func openKnown(t *testing.T) known {
	t.Helper()
	f, err := gguf.Open(os.DirFS("../gguf/testdata"), "types.gguf")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	values, err := safetensors.OpenFile(filepath.Join("../gguf/testdata", "types.safetensors"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { values.Close() })
	return known{t, f.Tensors, values}
}

// matrix returns the matrix of a type, which has n rows of k values.
func (x known) matrix(name string) (g *tensors.Tensor, values []float32, n, k int) {
	x.t.Helper()
	g, err := x.coded.Tensor(name)
	if err != nil {
		x.t.Fatal(err)
	}
	w, err := x.decoded.Tensor(name)
	if err != nil {
		x.t.Fatal(err)
	}
	n, k = int(g.Shape[0]), int(g.Shape[1])
	values = make([]float32, n*k)
	if err := w.Floats(values, 0); err != nil {
		x.t.Fatal(err)
	}
	return g, values, n, k
}

// same compares weights to the last bit, but for the sign of a zero.
func same(t *testing.T, what string, got, want []float32, k int) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%s: %d weights, want %d", what, len(got), len(want))
	}
	for i, g := range got {
		if math.Float32bits(g) != math.Float32bits(want[i]) && g != want[i] {
			t.Fatalf("%s: row %d, column %d is %g, want %g", what, i/k, i%k, g, want[i])
		}
	}
}

// packPieces packs rows in pieces of all sizes: take gives rows of them from at on, as quant.Packer's AddFactored wants
// them but for their numbers, which are not narrow yet.
func packPieces(t *testing.T, f quant.Format, n, k int,
	take func(at, rows int) (codes, factors []byte, numbers []float32, loss quant.WeightError)) ([]byte,
	quant.WeightError) {
	t.Helper()
	var out bytes.Buffer
	var loss quant.WeightError
	p, r := f.Packer(&out, k), rand.New(rand.NewPCG(1, uint64(n)))
	for at := 0; at < n; {
		rows := min(1+r.IntN(20), n-at)
		codes, factors, numbers, lost := take(at, rows)
		loss.Merge(lost)
		narrow, err := tensors.F16.AppendFloats(nil, numbers)
		if err := errors.Join(err, p.AddFactored(codes, narrow, factors)); err != nil {
			t.Fatal(err)
		}
		at += rows
	}
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	if int64(out.Len()) != f.PackedBytes(n, k) {
		t.Fatalf("%dx%d: %d bytes, want %d", n, k, out.Len(), f.PackedBytes(n, k))
	}
	return out.Bytes(), loss
}
