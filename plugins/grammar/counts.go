package grammar

// maxCount is the largest bound that counts are put together to. No text repeats anything more often, so what may come
// more often may come without end.
const maxCount = 1 << 31

// nestedCounts gives the counts of a repeat, lo to hi times, of what is itself repeated least to most times, where
// that is the same as repeating once: x{1,3}{2,5} is x{2,15}. ok is false where it is not, since counts are left out,
// as in x{3}{0,2}. Without it a text of nested counts may be read in as many ways as there are divisions of its length
// among the levels.
func nestedCounts(least, most, lo, hi uint32) (low, high uint32, ok bool) {
	x, y, p, q := uint64(least), uint64(most), uint64(lo), uint64(hi)
	switch {
	case p == 0 && x > 1:
		return 0, 0, false // nothing, or least
	case p != q && most != unbounded && x*(p+1) > y*p+1:
		return 0, 0, false // p times most, then p+1 times least
	}
	if x*p > maxCount {
		return 0, 0, false
	}
	high = unbounded
	if most != unbounded && hi != unbounded && y*q <= maxCount {
		high = uint32(y * q)
	}
	return uint32(x * p), high, true
}

// addedCounts gives the counts of a repeat behind another of the same, where they are not too large.
func addedCounts(aLo, aHi, bLo, bHi uint32) (lo, hi uint32, ok bool) {
	if low := uint64(aLo) + uint64(bLo); low > maxCount {
		return 0, 0, false
	}
	hi = unbounded
	if high := uint64(aHi) + uint64(bHi); aHi != unbounded && bHi != unbounded && high <= maxCount {
		hi = uint32(high)
	}
	return aLo + bLo, hi, true
}
