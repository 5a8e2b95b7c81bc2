package quant

import (
	"fmt"
	"math"
	"runtime"
	"runtime/debug"
	"sync"

	"tgi/models/tensors"
)

// Format is a block format.
type Format struct {
	// Form says what a block has. Its Bits are 4 or 8; or tensors.SixBits, which only TakeFactors makes. With Factors,
	// which are stored in place of scales and offsets, Block is 32. Only Take makes codes of a Table.
	tensors.Form
	// Block is the number of consecutive weights of a row that share a scale;
	// a power of two, at least 16.
	Block int
	// RoundScale, if set, rounds each scale to what will be stored, before codes are computed, so
	// that they are the best ones for the stored scale.
	RoundScale func(float32) float32
}

// Blocks returns the number of blocks of a row of k weights; the last may be partly filled.
func (f Format) Blocks(k int) int { return (k + f.Block - 1) / f.Block }

// RowBytes returns the bytes of a packed row of k weights: whole blocks.
func (f Format) RowBytes(k int) int {
	if f.Bits == tensors.SixBits { // a byte each until they are packed
		return k
	}
	return f.Blocks(k) * f.Block * f.Bits / 8
}

// zero is the code of weight 0.
func (f Format) zero() int { return 1 << (f.Bits - 1) }

// Rows quantises the rows of src [rows*k] on all processors and returns the error. codes has
// RowBytes(k) bytes and scales Blocks(k) entries for each row. If k is not a multiple of the
// block size, the last block is padded with codes of zero.
func (f Format) Rows(codes []byte, scales, src []float32, k int) WeightError {
	rows := len(src) / k
	if len(codes) != rows*f.RowBytes(k) || len(scales) != rows*f.Blocks(k) {
		panic(fmt.Sprintf("BUG: quant: %d codes and %d scales for %d rows of %d", len(codes), len(scales), rows, k))
	}
	errors := make([]WeightError, rows)
	parallel(rows, func(r int) {
		f.row(codes[r*f.RowBytes(k):(r+1)*f.RowBytes(k)], scales[r*f.Blocks(k):(r+1)*f.Blocks(k)], src[r*k:(r+1)*k],
			&errors[r])
	})
	var all WeightError
	for _, e := range errors { // in order, so that the sum does not depend on the processors
		all.Merge(e)
	}
	return all
}

// Take packs rows of k weights that are integers already, and returns the error of scales and offsets, which are
// rounded to what will be stored. block gives block b of a row: its codes, which have at most f.Bits, its scale and
// its offset, which is 0 unless there are Offsets: then codes of 4 bits begin at 0. numbers gets scale and offset of
// each block, or its scale alone. exact, if not nil, are the weights [rows*k], to which the integers only come near.
func (f Format) Take(codes []byte, numbers, exact []float32, rows, k int,
	block func(codes []int8, row, b int) (scale, offset float32)) WeightError {
	errors := make([]WeightError, rows)
	blocks, each := f.Blocks(k), f.numbers()/2
	parallel(rows, func(r int) {
		own, wide := make([]int8, f.Block), make([]int32, f.Block)
		weights := make([]float32, f.Block)
		for b := range blocks {
			scale, offset := block(own, r, b)
			for i, c := range own {
				if f.Table != tensors.NoTable {
					c = f.Table.Number(byte(c))
				}
				wide[i] = int32(c)
				weights[i] = float32(float32(c)*scale) + offset
			}
			if exact != nil {
				copy(weights, exact[r*k+b*f.Block:])
			}
			to := numbers[(r*blocks+b)*each:]
			to[0] = f.RoundScale(scale)
			rounded := float32(0)
			if f.Offsets {
				rounded = f.RoundScale(offset)
				to[1] = rounded
			}
			errors[r].addOffset(weights, wide, to[0], rounded)
			size, pack := f.Block*f.Bits/8, f.pack
			if f.Offsets {
				pack = f.packFrom0
			}
			if f.Table != tensors.NoTable {
				pack = f.packFrom0
				for i, c := range own {
					wide[i] = int32(c)
				}
			}
			pack(codes[r*f.RowBytes(k)+b*size:][:size], wide)
		}
	})
	var all WeightError
	for _, e := range errors {
		all.Merge(e)
	}
	return all
}

// parallel calls do for every row, in contiguous shares. It leaves one processor
// free: models may be served meanwhile, and their steps would wait for it.
func parallel(rows int, do func(row int)) {
	workers := min(max(1, runtime.GOMAXPROCS(0)-1), rows)
	var wg sync.WaitGroup
	var once sync.Once
	var fault any // in what the rows are read from, for the caller
	for w := range workers {
		wg.Go(func() {
			debug.SetPanicOnFault(true)
			defer func() {
				if r := recover(); r != nil {
					once.Do(func() { fault = r })
				}
			}()
			for r := rows * w / workers; r < rows*(w+1)/workers; r++ {
				do(r)
			}
		})
	}
	wg.Wait()
	if fault != nil {
		panic(fault)
	}
}

func (f Format) row(out []byte, scales, src []float32, e *WeightError) {
	codes := make([]int32, f.Block)
	for b := range scales {
		block := src[b*f.Block : min((b+1)*f.Block, len(src))]
		scale, inverse := f.scale(block)
		scales[b] = scale
		clear(codes)
		zero := int32(f.zero())
		for i, x := range block {
			codes[i] = code(x, inverse, zero)
		}
		e.add(block, codes, scale)
		f.pack(out[b*f.Block*f.Bits/8:(b+1)*f.Block*f.Bits/8], codes)
	}
}

// scale returns a block's signed scale and its inverse, 0 and 0 when every
// weight is 0 (or so small that the inverse overflows).
func (f Format) scale(block []float32) (scale, inverse float32) {
	var top, magnitude float32
	for _, x := range block { // of equal magnitudes the first decides the sign
		if m := float32(math.Abs(float64(x))); m > magnitude {
			top, magnitude = x, m
		}
	}
	scale = top / float32(-f.zero())
	if f.RoundScale != nil {
		scale = f.RoundScale(scale)
	}
	inverse = 1 / scale
	if scale == 0 || math.IsInf(float64(inverse), 0) {
		return 0, 0
	}
	return scale, inverse
}

// pack stores codes with their offset; with 4 bits the earlier one is in the
// low half of a byte.
func (f Format) pack(out []byte, codes []int32) {
	zero := int32(f.zero())
	if f.Bits == 8 {
		for i := range out {
			out[i] = byte(codes[i] + zero)
		}
		return
	}
	for i := range out {
		out[i] = byte(codes[2*i]+zero) | byte(codes[2*i+1]+zero)<<4
	}
}

// code returns the multiple of the scale nearest to x, ties to even, clipped
// to [-zero, zero-1]. Adding 1.5*2^23 leaves no bits for a fraction, which
// rounds; a block's largest element bounds |x*inverse| by zero plus rounding.
func code(x, inverse float32, zero int32) int32 {
	const magic = 3 << 22
	rounded := int32(math.Float32bits(float32(x*inverse)+magic)) - int32(0x4b400000)
	return min(max(rounded, -zero), zero-1)
}
