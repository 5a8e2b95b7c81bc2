package sample

import "math/bits"

// forbidden is a block of -Inf, the logit of forbidden tokens.
var forbidden = func() (b [1024]float32) {
	for i := range b {
		b[i] = negInf
	}
	return b
}()

// applyMask sets to -Inf each logit whose bit in mask is 0. Bits past the vocabulary are
// ignored. Most masks forbid nearly all or nearly nothing: runs of forbidden words are
// copied over, and a word that allows some tokens costs as many steps as the fewer of
// its bits.
func applyMask(mask []uint32, logits []float32) {
	for w := 0; w < len(mask); w++ {
		switch m := mask[w]; {
		case m == 0:
			end := w + 1
			for end < len(mask) && mask[end] == 0 {
				end++
			}
			fillNegInf(logits[w*32 : min(end*32, len(logits))])
			w = end - 1
		case m == ^uint32(0):
		case bits.OnesCount32(m) < 16:
			keepAllowed(m, logits[w*32:min(w*32+32, len(logits))])
		default:
			x := logits[w*32 : min(w*32+32, len(logits))]
			for deny := ^m; deny != 0; deny &= deny - 1 {
				if i := bits.TrailingZeros32(deny); i < len(x) {
					x[i] = negInf
				}
			}
		}
	}
}

// fillNegInf sets all of x to -Inf.
func fillNegInf(x []float32) {
	for len(x) > 0 {
		x = x[copy(x, forbidden[:]):]
	}
}

// keepAllowed sets the logits, at most 32, whose bit in allow is 0 to -Inf.
func keepAllowed(allow uint32, x []float32) {
	var kept [32]float32
	for m := allow; m != 0; m &= m - 1 {
		if i := bits.TrailingZeros32(m); i < len(x) {
			kept[i] = x[i]
		}
	}
	fillNegInf(x)
	for m := allow; m != 0; m &= m - 1 {
		if i := bits.TrailingZeros32(m); i < len(x) {
			x[i] = kept[i]
		}
	}
}
