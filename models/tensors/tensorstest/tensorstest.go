// Package tensorstest reads matrices as the integers that they can be given in, for the tests of packages that give
// some.
package tensorstest

import (
	"iter"
	"testing"

	"tgi/models/tensors"
)

// Block is a block of integers of a matrix, and the values that it stands for.
type Block struct {
	Row, Block    int
	Codes         []int8
	Scale, Offset float32
	Values        []float32
}

// Number is what a code of a form stands for, before it is scaled.
func Number(form tensors.Form, code int8) int8 {
	if form.Table != tensors.NoTable {
		return form.Table.Number(byte(code))
	}
	return code
}

// Blocks gives the blocks of a matrix that has a form other than SixBits. Codes outside the form's range end the test,
// and so does an offset that it does not have. What a block holds is for its turn alone.
func Blocks(t testing.TB, w *tensors.Tensor) iter.Seq[Block] {
	t.Helper()
	form, n, k := w.Form(), int(w.Shape[0]), int(w.Shape[1])
	lowest, highest := -1<<(form.Bits-1), 1<<(form.Bits-1)-1
	if form.Bits == 4 && (form.Offsets || form.Table != tensors.NoTable) {
		lowest, highest = 0, 15
	}
	row, codes := make([]float32, k), make([]int8, tensors.IntegerBlock)
	return func(yield func(Block) bool) {
		for i := range n {
			if err := w.Floats(row, i*k); err != nil {
				t.Fatal(err)
			}
			for b := range k / len(codes) {
				x := Block{Row: i, Block: b, Codes: codes, Values: row[b*len(codes):][:len(codes)]}
				if x.Scale, x.Offset = w.Integers(codes, i, b); x.Offset != 0 && !form.Offsets {
					t.Fatalf("%s: row %d, block %d has the offset %g", w.Name, i, b, x.Offset)
				}
				for _, code := range codes {
					if int(code) < lowest || int(code) > highest {
						t.Fatalf("%s: row %d, block %d: code %d, want %d to %d", w.Name, i, b, code, lowest, highest)
					}
				}
				if !yield(x) {
					return
				}
			}
		}
	}
}

// ReadIntegers reads a matrix in all forms of integers that it can be given in, so that what is wrong with its file
// shows.
func ReadIntegers(w *tensors.Tensor) {
	form := w.Form()
	if len(w.Shape) != 2 || form.Bits == 0 {
		return
	}
	codes, factors := make([]int8, tensors.FactoredBlock), make([]int8, tensors.FactoredBlock/tensors.FactorBlock)
	scales, offsets := make([]byte, 8), make([]byte, 8)
	for i := range int(w.Shape[0]) {
		for b := range int(w.Shape[1]) / tensors.IntegerBlock {
			switch {
			case form.Bits == tensors.SixBits && b%8 == 0:
				w.Factors(codes, factors, i, b/8)
			case form.Factors && b%8 == 0:
				w.Factored(codes, scales, offsets, i, b/8)
			}
			if form.Bits != tensors.SixBits {
				w.Integers(codes[:tensors.IntegerBlock], i, b)
			}
		}
	}
}
