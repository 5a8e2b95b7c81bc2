package quant

import "tgi/models/tensors"

// With tensors.SixBits 256 weights of a row share a scale, and each 16 of them have a factor of 8 bits besides. A
// weight is its code times the factor, times the scale. A row's length is a multiple of 256.
const (
	factored = tensors.FactoredBlock
	factor   = tensors.FactorBlock
	sixBlock = GroupRows * (2 + 2*12)
	sixBytes = GroupRows*2 + factored/32*sixBlock // of so many columns of a group
)

// scaleBytes is the bytes of a row's scales, and offsets if there are any.
func (f Format) scaleBytes(k int) int {
	switch {
	case f.Bits == tensors.SixBits:
		return 2 * (k / factored)
	case f.Factors:
		return 4 * (k / factored)
	}
	return f.numbers() * f.Blocks(k)
}

// factorBytes is the bytes of a row's factors.
func (f Format) factorBytes(k int) int {
	switch {
	case f.Bits == tensors.SixBits:
		return k / factor
	case f.Factors:
		return 2 * (k / f.Block)
	}
	return 0
}

// TakeFactors is Take for tensors.SixBits: it loses nothing. codes and factors have a byte for each; scales are 16-bit
// floats. block gives 256 codes of row's block b, -32 to 31, their factors and the scale.
func TakeFactors(codes, factors []byte, scales []float32, rows, k int,
	block func(codes, factors []int8, row, b int) (scale float32)) WeightError {
	errors := make([]WeightError, rows)
	blocks := k / factored
	parallel(rows, func(r int) {
		own, by := make([]int8, factored), make([]int8, factored/factor)
		weights, wide := make([]float32, factor), make([]int32, factor)
		for b := range blocks {
			at := r*blocks + b
			scale := block(own, by, r, b)
			scales[at] = scale
			for i, f := range by {
				factors[at*len(by)+i] = byte(f)
				step := scale * float32(f) // which is exact
				for j, c := range own[i*factor:][:factor] {
					codes[at*factored+i*factor+j] = byte(c + 32)
					weights[j], wide[j] = step*float32(c), int32(c)
				}
				errors[r].add(weights, wide, step)
			}
		}
	})
	var all WeightError
	for _, e := range errors {
		all.Merge(e)
	}
	return all
}

// packSixes packs one group, whose rows begin codes, scales and factors.
func packSixes(out, codes, scales, factors []byte, k int) {
	blocks := k / factored
	for b := range k / 32 {
		if b%(factored/32) == 0 {
			for row := range GroupRows {
				copy(out[2*row:], scales[2*(row*blocks+b*32/factored):][:2])
			}
			out = out[2*GroupRows:]
		}
		for row := range GroupRows {
			f := factors[row*k/factor+2*b:]
			out[row], out[GroupRows+row] = f[0], f[1]
			for half, at := range []int{2 * GroupRows, 2*GroupRows + 12*GroupRows} {
				c, to := codes[row*k+32*b+16*half:][:16], out[at+4*row:]
				for i := range 4 {
					to[i] = c[i]>>4 | c[4+i]>>4<<2 | c[8+i]>>4<<4 | c[12+i]>>4<<6
					to[64+i] = c[i]&15 | c[4+i]<<4
					to[128+i] = c[8+i]&15 | c[12+i]<<4
				}
			}
		}
		out = out[sixBlock:]
	}
}
