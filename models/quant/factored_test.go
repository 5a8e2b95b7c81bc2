package quant_test

import (
	"bytes"
	"encoding/binary"
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

// readFactored reads a packed matrix by the description in runtime/ort/product.h: the weights of [n][k].
func readFactored(f quant.Format, packed []byte, n, k int) []float32 {
	var out []float32
	block := 32 + 64*f.Bits // 16 factors twice, and the codes of 16 rows
	half := func(of []byte) float32 { return tensors.HalfToFloat(binary.LittleEndian.Uint16(of)) }
	for row := range n {
		lane := row % 16
		for col := range k {
			of := packed[(row/16*(k/256)+col/256)*(64+8*block):]
			own := of[64+col%256/32*block:]
			scale, offset := half(of[2*lane:])*float32(own[lane]), half(of[32+2*lane:])*float32(own[16+lane])
			codes, at := own[32:], col%32
			var code int
			if f.Bits == 8 {
				code = int(int8(codes[at/4*64+4*lane+at%4]))
			} else {
				code = int(codes[at/8*64+4*lane+at%4] >> (at % 8 / 4 * 4) & 15)
			}
			out = append(out, float32(scale*float32(code))+offset)
		}
	}
	return out
}

// TestFactoredAreWhatPythonReads: packed blocks that have factors are the weights, to the last bit, that the Python
// package gguf makes of the same bytes with numpy; with 4 bits also as codes of 8.
func TestFactoredAreWhatPythonReads(t *testing.T) {
	f, err := gguf.Open(os.DirFS("../gguf/testdata"), "types.gguf")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	values, err := safetensors.OpenFile(filepath.Join("../gguf/testdata", "types.safetensors"))
	if err != nil {
		t.Fatal(err)
	}
	defer values.Close()
	for name, widths := range map[string][]int{"Q4_K": {4, 8}, "Q5_K": {8}, "IQ4_XS": {8}} {
		g, err := f.Tensors.Tensor(name)
		if err != nil {
			t.Fatal(err)
		}
		w, err := values.Tensor(name)
		if err != nil {
			t.Fatal(err)
		}
		n, k := int(g.Shape[0]), int(g.Shape[1])
		want := make([]float32, n*k)
		if err := w.Floats(want, 0); err != nil {
			t.Fatal(err)
		}
		for _, bits := range widths {
			format := quant.Format{Form: tensors.Form{Bits: bits, Offsets: true, Factors: true}, Block: 32}
			packed, loss := packFactored(t, format, g, n, k)
			if loss.Relative() != 0 || loss.Count() != int64(n*k) {
				t.Errorf("%s: %d weights err by %g", name, loss.Count(), loss.Relative())
			}
			for i, got := range readFactored(format, packed, n, k) {
				if math.Float32bits(got) != math.Float32bits(want[i]) && got != want[i] {
					t.Fatalf("%s, %d bits: row %d, column %d is %g, want %g", name, bits, i/k, i%k, got, want[i])
				}
			}
		}
	}
}

// packFactored packs rows of a tensor in pieces of all sizes.
func packFactored(t *testing.T, f quant.Format, g *tensors.Tensor, n, k int) ([]byte, quant.WeightError) {
	t.Helper()
	var out bytes.Buffer
	var loss quant.WeightError
	p, r := f.Packer(&out, k), rand.New(rand.NewPCG(1, uint64(n)))
	for at := 0; at < n; {
		rows := min(1+r.IntN(20), n-at)
		codes, factors := make([]byte, rows*f.RowBytes(k)), make([]byte, 2*rows*k/32)
		numbers := make([]float32, 2*rows*k/256)
		loss.Merge(f.TakeFactored(codes, factors, numbers, rows, k,
			func(c []int8, s, o []byte, row, b int) (scale, offset float32) { return g.Factored(c, s, o, at+row, b) }))
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
