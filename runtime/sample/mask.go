package sample

import "math/bits"

// forbid sets to -Inf each logit whose bit in mask is 0. Bits past the
// vocabulary are ignored.
func forbid(mask []uint32, logits []float32) {
	for w, m := range mask {
		x := logits[w*32 : min(w*32+32, len(logits))]
		if m == 0 {
			for i := range x {
				x[i] = negInf
			}
			continue
		}
		for deny := ^m; deny != 0; deny &= deny - 1 {
			if i := bits.TrailingZeros32(deny); i < len(x) {
				x[i] = negInf
			}
		}
	}
}
