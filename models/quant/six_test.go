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
	"testing/fstest"

	"tgi/models/gguf"
	"tgi/models/gguf/gguftest"
	"tgi/models/quant"
	"tgi/models/safetensors"
	"tgi/models/tensors"
)

// sixes is the format of codes of 6 bits.
var sixes = quant.Format{Form: tensors.Form{Bits: tensors.SixBits}, Block: 32}

// readSixes reads a packed matrix by the description in runtime/ort/product.h: the weights of [n][k].
func readSixes(packed []byte, n, k int) []float32 {
	var out []float32
	for row := range n {
		for col := range k {
			of := packed[(row/16*(k/256)+col/256)*3360:]
			scale := tensors.HalfToFloat(binary.LittleEndian.Uint16(of[row%16*2:]))
			block := of[32+col%256/32*416:]
			factor := int8(block[col%32/16*16+row%16])
			half := block[32+col%32/16*192:]
			high := half[4*(row%16)+col%4] >> (col % 16 / 4 * 2) & 3
			low := half[64+col%16/8*64+4*(row%16)+col%4] >> (col % 8 / 4 * 4) & 15
			out = append(out, float32(scale*float32(factor))*float32(int(high<<4|low)-32))
		}
	}
	return out
}

// pack packs rows of a tensor in pieces of all sizes.
func pack(t *testing.T, g *tensors.Tensor, n, k int) ([]byte, quant.WeightError) {
	t.Helper()
	var out bytes.Buffer
	var loss quant.WeightError
	p, r := sixes.Packer(&out, k), rand.New(rand.NewPCG(1, uint64(n)))
	for at := 0; at < n; {
		rows := min(1+r.IntN(20), n-at)
		codes, factors, scales := make([]byte, rows*k), make([]byte, rows*k/16), make([]float32, rows*k/256)
		loss.Merge(quant.TakeFactors(codes, factors, scales, rows, k,
			func(c, f []int8, row, b int) float32 { return g.Factors(c, f, at+row, b) }))
		narrow, err := tensors.F16.AppendFloats(nil, scales)
		if err := errors.Join(err, p.AddFactored(codes, narrow, factors)); err != nil {
			t.Fatal(err)
		}
		at += rows
	}
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	if int64(out.Len()) != sixes.PackedBytes(n, k) {
		t.Fatalf("%dx%d: %d bytes, want %d", n, k, out.Len(), sixes.PackedBytes(n, k))
	}
	return out.Bytes(), loss
}

// TestSixesAreWhatPythonReads: packed blocks of type Q6_K are the weights, to the last bit, that the Python package
// gguf makes of the same bytes with numpy.
func TestSixesAreWhatPythonReads(t *testing.T) {
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
	g, err := f.Tensors.Tensor("Q6_K")
	if err != nil {
		t.Fatal(err)
	}
	w, err := values.Tensor("Q6_K")
	if err != nil {
		t.Fatal(err)
	}
	n, k := int(g.Shape[0]), int(g.Shape[1])
	want := make([]float32, n*k)
	if err := w.Floats(want, 0); err != nil {
		t.Fatal(err)
	}
	packed, loss := pack(t, g, n, k)
	if loss.Relative() != 0 || loss.Count() != int64(n*k) {
		t.Errorf("%d weights err by %g", loss.Count(), loss.Relative())
	}
	for i, got := range readSixes(packed, n, k) {
		if math.Float32bits(got) != math.Float32bits(want[i]) && got != want[i] {
			t.Fatalf("row %d, column %d is %g, want %g", i/k, i%k, got, want[i])
		}
	}
}

// TestSixes packs random blocks of all numbers of rows.
func TestSixes(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for n := 1; n < 70; n++ {
		k := 256 * (1 + r.IntN(3))
		data := make([]byte, n*k/256*210)
		for i := range data {
			data[i] = byte(r.Uint32())
		}
		for at := 209; at < len(data); at += 210 {
			data[at] = data[at]&0x83 | 0x20 // finite
		}
		file := gguftest.File(nil, []gguftest.Tensor{{Name: "w", Type: 14, Shape: []int{n, k}, Data: data}})
		f, err := gguf.Open(fstest.MapFS{"m.gguf": {Data: file}}, "m.gguf")
		if err != nil {
			t.Fatal(err)
		}
		g, err := f.Tensors.Tensor("w")
		want := make([]float32, n*k)
		if err := errors.Join(err, g.Floats(want, 0)); err != nil {
			t.Fatal(err)
		}
		packed, _ := pack(t, g, n, k)
		for i, got := range readSixes(packed, n, k) {
			if got != want[i] {
				t.Fatalf("%dx%d: row %d, column %d is %g, want %g", n, k, i/k, i%k, got, want[i])
			}
		}
	}
}
