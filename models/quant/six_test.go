package quant_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/fstest"

	"tgi/models/gguf"
	"tgi/models/gguf/gguftest"
	"tgi/models/quant"
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

// packSixes packs rows of a tensor.
func packSixes(t *testing.T, g *tensors.Tensor, n, k int) ([]byte, quant.WeightError) {
	t.Helper()
	return packPieces(t, sixes, n, k, func(at, rows int) (codes, factors []byte, scales []float32,
		loss quant.WeightError) {
		codes, factors, scales = make([]byte, rows*k), make([]byte, rows*k/16), make([]float32, rows*k/256)
		loss = quant.TakeFactors(codes, factors, scales, rows, k,
			func(c, f []int8, row, b int) float32 { return g.Factors(c, f, at+row, b) })
		return codes, factors, scales, loss
	})
}

// TestSixesAreWhatPythonReads: packed blocks of type Q6_K are the weights, to the last bit, that the Python package
// gguf makes of the same bytes with numpy.
func TestSixesAreWhatPythonReads(t *testing.T) {
	g, want, n, k := openKnown(t).matrix("Q6_K")
	packed, loss := packSixes(t, g, n, k)
	if loss.Relative() != 0 || loss.Count() != int64(n*k) {
		t.Errorf("%d weights err by %g", loss.Count(), loss.Relative())
	}
	same(t, "Q6_K", readSixes(packed, n, k), want, k)
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
		packed, _ := packSixes(t, g, n, k)
		same(t, fmt.Sprintf("%dx%d", n, k), readSixes(packed, n, k), want, k)
	}
}
