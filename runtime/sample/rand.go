package sample

// uniform returns the number in [0,1) that decides step k of the sequence with
// the given seed: the k-th output of SplitMix64 (Steele, Lea and Flood 2014)
// started at a hash of the seed, with 53 random bits.
//
// It is a function of seed and step and of nothing else: what other sequences
// draw, how rows are batched, or how often a sequence was preempted and
// recomputed does not change it. Hashing the seed first keeps seeds that differ
// by a multiple of the generator's increment (llm.SeedFor makes such) from
// walking the same stream.
//
// try counts how often the sequence was taken back to step k or before. What it drew before is known to have led to
// what was taken back, so each try has numbers of its own.
func uniform(seed uint64, k, try int) float64 {
	const increment = 0x9e3779b97f4a7c15
	seed ^= 0x6a09e667f3bcc908
	if try > 0 {
		seed = splitMix(seed) + uint64(try)
	}
	z := splitMix(splitMix(seed) + (uint64(k)+1)*increment)
	return float64(z>>11) * 0x1p-53
}

// splitMix is SplitMix64's output function, a bijection of the 64-bit numbers.
func splitMix(z uint64) uint64 {
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}
