package sample

import "math"

// cutoff says where a ranking ends that keeps elements until enough is kept.
type cutoff struct {
	key    uint32  // elements with a smaller key are kept, with a greater one dropped
	before float64 // what the elements with a smaller key weigh
}

// cut ranks elements by ascending key and returns the last one to keep, where an element is
// kept if its predecessors weigh less than target: with weights 1 and target k this is the
// k-th, with probabilities and target p the one that completes the mass p. A nil weights
// counts each element as 1. There must be at least one element, and target must be above 0.
// It takes linear time: a radix selection over 11 + 11 + 10 bits of the keys, most
// significant first.
func (s *scratch) cut(keys []uint32, weights []float32, target float64) cutoff {
	var b cutoff
	for _, level := range [...]struct{ shift, width uint32 }{{21, 11}, {10, 11}, {0, 10}} {
		bins := s.bins[:1<<level.width]
		clear(bins)
		shift := level.shift & 31 // lets the compiler drop a check
		// Only keys that share the bits found so far count: all of them at first.
		span := uint32(1)<<(level.shift+level.width) - 1
		for i, k := range keys {
			off := k - b.key
			if off > span {
				continue
			}
			bin := &bins[off>>shift]
			bin.n++
			if weights == nil {
				bin.weight++
			} else {
				bin.weight += float64(weights[i])
			}
		}
		// If rounding leaves the target unreached, the last nonempty bin is the cutoff.
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

// descendingKey maps logits to keys whose ascending order is the logits' descending
// order. The two zeros share a key.
func descendingKey(v float32) uint32 {
	b := math.Float32bits(v + 0) // -0 + 0 is +0
	if b>>31 == 0 {
		return 0x7fffffff - b
	}
	return b
}

// distanceKey maps v >= 0 to keys in the same order. They are fixed-point numbers
// in steps of 2^-26 rather than v's own bits, because those would crowd all
// the distances of a row into a few of cut's bins; what is nearer than a step
// ties, as does all from 2*spread on, which weighs nothing.
func distanceKey(v float32) uint32 {
	if v < 2*spread {
		return uint32(v * (1 << 26))
	}
	return math.MaxUint32
}
