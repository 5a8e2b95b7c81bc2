package quant_test

import (
	"encoding/binary"
	"fmt"
	"testing"

	"tgi/models/quant"
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
	all := openKnown(t)
	for name, widths := range map[string][]int{"Q4_K": {4, 8}, "Q5_K": {8}, "IQ4_XS": {8}} {
		g, want, n, k := all.matrix(name)
		for _, bits := range widths {
			f := quant.Format{Form: tensors.Form{Bits: bits, Offsets: true, Factors: true}, Block: 32}
			packed, loss := packPieces(t, f, n, k, func(at, rows int) (codes, factors []byte, numbers []float32,
				loss quant.WeightError) {
				codes, factors = make([]byte, rows*f.RowBytes(k)), make([]byte, 2*rows*k/32)
				numbers = make([]float32, 2*rows*k/256)
				loss = f.TakeFactored(codes, factors, numbers, rows, k,
					func(c []int8, s, o []byte, row, b int) (scale, offset float32) {
						return g.Factored(c, s, o, at+row, b)
					})
				return codes, factors, numbers, loss
			})
			if loss.Relative() != 0 || loss.Count() != int64(n*k) {
				t.Errorf("%s: %d weights err by %g", name, loss.Count(), loss.Relative())
			}
			same(t, fmt.Sprintf("%s, %d bits", name, bits), readFactored(f, packed, n, k), want, k)
		}
	}
}
