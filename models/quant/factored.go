package quant

// factoredNumbers are the bytes that a group's 256 columns have in front with Factors: two 16-bit floats of each row.
const factoredNumbers = 4 * GroupRows

// TakeFactored is Take for Factors: it loses nothing. numbers gets two 16-bit floats for each 256 weights of a row,
// factors two bytes for each block of 32. block gives 256 codes of row's block b, from 0 on with 4 bits, the 8 factors
// of scales and the 8 of offsets, and the scale and the offset that these multiply.
func (f Format) TakeFactored(codes, factors []byte, numbers []float32, rows, k int,
	block func(codes []int8, scales, offsets []byte, row, b int) (scale, offset float32)) WeightError {
	errors := make([]WeightError, rows)
	blocks, each := k/factored, factored/f.Block
	parallel(rows, func(r int) {
		own, scales, offsets := make([]int8, factored), make([]byte, each), make([]byte, each)
		weights, wide := make([]float32, f.Block), make([]int32, f.Block)
		for b := range blocks {
			at := r*blocks + b
			scale, offset := block(own, scales, offsets, r, b)
			numbers[2*at], numbers[2*at+1] = scale, offset
			for i := range each {
				factors[2*(at*each+i)], factors[2*(at*each+i)+1] = scales[i], offsets[i]
				step, low := scale*float32(scales[i]), offset*float32(offsets[i]) // which are exact
				for j, c := range own[i*f.Block:][:f.Block] {
					weights[j], wide[j] = float32(step*float32(c))+low, int32(c)
				}
				errors[r].addOffset(weights, wide, step, low)
				size := f.Block * f.Bits / 8
				f.packFrom0(codes[r*f.RowBytes(k)+(b*each+i)*size:][:size], wide)
			}
		}
	})
	var all WeightError
	for _, e := range errors {
		all.Merge(e)
	}
	return all
}

// packFrom0 is pack for codes that blocks with offsets have: with 4 bits they begin at 0.
func (f Format) packFrom0(out []byte, codes []int32) {
	if f.Bits == 4 {
		for i := range codes {
			codes[i] -= int32(f.zero())
		}
	}
	f.pack(out, codes)
}

// packFactored packs one group, whose rows begin codes, numbers and factors.
func (f Format) packFactored(out, codes, numbers, factors []byte, k int) {
	perRow, blocks, each := f.RowBytes(k), k/factored, factored/f.Block
	size := f.Block * f.Bits / 8
	for b := range k / f.Block {
		if b%each == 0 {
			for row := range GroupRows {
				own := numbers[4*(row*blocks+b/each):]
				copy(out[2*row:][:2], own)
				copy(out[2*GroupRows+2*row:][:2], own[2:])
			}
			out = out[factoredNumbers:]
		}
		for row := range GroupRows {
			own := factors[2*(row*blocks*each+b):]
			out[row], out[GroupRows+row] = own[0], own[1]
			f.packCodes(out[2*GroupRows+4*row:], codes[row*perRow+b*size:][:size])
		}
		out = out[GroupRows*(2+size):]
	}
}
