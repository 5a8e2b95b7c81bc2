package quant

import (
	"fmt"
	"math"
	"runtime"
	"sync"
)

// Format is a block format.
type Format struct {
	// Bits of one code, 4 or 8.
	Bits int
	// Block is the number of consecutive weights of a row that share a scale;
	// a power of two, at least 16.
	Block int
}

// Check fails for a format that MatMulNBits does not know.
func (f Format) Check() error {
	if f.Bits != 4 && f.Bits != 8 {
		return fmt.Errorf("quant: %d bits, want 4 or 8", f.Bits)
	}
	if f.Block < 16 || f.Block&(f.Block-1) != 0 {
		return fmt.Errorf("quant: blocks of %d, want a power of two from 16", f.Block)
	}
	return nil
}

// Blocks returns the blocks of a row of k weights; the last may be part full.
func (f Format) Blocks(k int) int { return (k + f.Block - 1) / f.Block }

// RowBytes returns the bytes of a packed row of k weights: whole blocks.
func (f Format) RowBytes(k int) int { return f.Blocks(k) * f.Block * f.Bits / 8 }

// zero is the code of weight 0.
func (f Format) zero() int { return 1 << (f.Bits - 1) }

// Rows quantises the rows of src, each of k weights, on all processors.
// codes has RowBytes(k) and scales Blocks(k) entries for each row. Where k ends
// inside a block the rest of it holds codes of zero.
func (f Format) Rows(codes []byte, scales, src []float32, k int) {
	rows := len(src) / k
	if len(codes) != rows*f.RowBytes(k) || len(scales) != rows*f.Blocks(k) {
		panic(fmt.Sprintf("BUG: quant: %d codes and %d scales for %d rows of %d", len(codes), len(scales), rows, k))
	}
	f.parallel(rows, func(r int) {
		f.row(codes[r*f.RowBytes(k):(r+1)*f.RowBytes(k)], scales[r*f.Blocks(k):(r+1)*f.Blocks(k)], src[r*k:(r+1)*k])
	})
}

// parallel calls do for every row, in contiguous shares.
func (f Format) parallel(rows int, do func(row int)) {
	workers := min(runtime.GOMAXPROCS(0), rows)
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			for r := rows * w / workers; r < rows*(w+1)/workers; r++ {
				do(r)
			}
		})
	}
	wg.Wait()
}

func (f Format) row(codes []byte, scales, src []float32) {
	for b := range scales {
		block := src[b*f.Block : min((b+1)*f.Block, len(src))]
		scale, inverse := f.scale(block)
		scales[b] = scale
		out := codes[b*f.Block*f.Bits/8 : (b+1)*f.Block*f.Bits/8]
		if f.Bits == 8 {
			f.pack8(out, block, inverse)
		} else {
			f.pack4(out, block, inverse)
		}
	}
}

// scale returns a block's signed scale and its inverse, 0 and 0 when every
// weight is 0 (or so small that the inverse overflows).
func (f Format) scale(block []float32) (scale, inverse float32) {
	var top float32
	for _, x := range block {
		if x > top || -x > top {
			top = max(x, -x)
		}
	}
	for _, x := range block { // the sign of the first of largest magnitude
		if x == top || -x == top {
			scale = x / float32(-f.zero())
			break
		}
	}
	inverse = 1 / scale
	if scale == 0 || math.IsInf(float64(inverse), 0) {
		return 0, 0
	}
	return scale, inverse
}

// code rounds half to even and clips.
func (f Format) code(x, inverse float32) byte {
	zero := float64(f.zero())
	c := math.RoundToEven(float64(x*inverse)) + zero
	return byte(min(max(c, 0), 2*zero-1))
}

func (f Format) pack8(out []byte, block []float32, inverse float32) {
	for i, x := range block {
		out[i] = f.code(x, inverse)
	}
	for i := len(block); i < len(out); i++ {
		out[i] = byte(f.zero())
	}
}

// pack4 puts the earlier weight in the low half of a byte.
func (f Format) pack4(out []byte, block []float32, inverse float32) {
	for i := range out {
		low, high := byte(f.zero()), byte(f.zero())
		if 2*i < len(block) {
			low = f.code(block[2*i], inverse)
		}
		if 2*i+1 < len(block) {
			high = f.code(block[2*i+1], inverse)
		}
		out[i] = low | high<<4
	}
}

// Dequantise writes the weights that the codes stand for to dst, rows of k.
func (f Format) Dequantise(dst []float32, codes []byte, scales []float32, k int) {
	rows := len(dst) / k
	f.parallel(rows, func(r int) {
		row, rowScales := codes[r*f.RowBytes(k):], scales[r*f.Blocks(k):]
		for i := range k {
			var c int
			if f.Bits == 8 {
				c = int(row[i])
			} else {
				c = int(row[i/2]>>(4*(i%2))) & 15
			}
			dst[r*k+i] = float32(c-f.zero()) * rowScales[i/f.Block]
		}
	})
}
