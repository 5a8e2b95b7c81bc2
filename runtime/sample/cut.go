package sample

import "math"

// border says where a ranking ends that keeps elements until enough is kept.
type border struct {
	key    uint32  // elements with a smaller key are kept, with a greater one dropped
	before float64 // what the elements with a smaller key weigh
}

// cut ranks elements by ascending key and finds the last that is kept when each
// is kept whose predecessors weigh less than target: with weights 1 and target
// k the k-th, with probabilities and target p the one that completes the mass p.
// A nil weights counts each element as 1. There is at least one element, and
// target is above 0. It takes linear time: a radix selection over the keys'
// 11 + 11 + 10 bits, most significant first.
func (s *scratch) cut(keys []uint32, weights []float32, target float64) border {
	var b border
	const levels = 3
	shifts := [levels]int{21, 10, 0}
	widths := [levels]int{11, 11, 10}
	for l := range levels {
		bins := s.bins[:1<<widths[l]]
		clear(bins)
		shift, width := shifts[l], widths[l]
		mask := uint32(1)<<width - 1
		for i, k := range keys {
			if l > 0 && (k^b.key)>>(shift+width) != 0 {
				continue
			}
			bin := &bins[k>>shift&mask]
			bin.n++
			if weights == nil {
				bin.weight++
			} else {
				bin.weight += float64(weights[i])
			}
		}
		// The last bin that holds anything is the border where rounding leaves
		// the target unreached.
		at, start := 0, b.before
		for i := range bins {
			if bins[i].n == 0 {
				continue
			}
			at, b.before = i, start
			start += bins[i].weight
			if start >= target {
				break
			}
		}
		b.key |= uint32(at) << shift
	}
	return b
}

// bin collects the elements whose keys share some leading bits.
type bin struct {
	weight float64
	n      int
}

// descending maps logits to keys whose ascending order is the logits' descending
// order. The two zeros share a key.
func descending(v float32) uint32 {
	b := math.Float32bits(v + 0) // -0 + 0 is +0
	if b>>31 == 0 {
		return 0x7fffffff - b
	}
	return b
}

// distance maps v >= 0 to keys in the same order. They are fixed-point numbers
// in steps of 2^-26 rather than v's own bits, because those would crowd all
// the distances of a row into a few of cut's bins; what is nearer than a step
// ties, as does all from 2*spread on, which weighs nothing.
func distance(v float32) uint32 {
	if v < 2*spread {
		return uint32(v * (1 << 26))
	}
	return math.MaxUint32
}
