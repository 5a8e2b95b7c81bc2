package grammar

// maxCount is the largest bound of merged counts. No text has more repetitions, so a larger bound means unbounded.
const maxCount = 1 << 31

// nestedCounts merges a repeat of a repeat into one, if the two are equal: x{1,3}{2,5} is x{2,15}. ok is false if the
// possible counts have gaps, as in x{3}{0,2}. Without the merge a text of nested repeats can be parsed in as many ways
// as its length can be divided among the levels.
func nestedCounts(least, most, lo, hi uint32) (low, high uint32, ok bool) {
	x, y, p, q := uint64(least), uint64(most), uint64(lo), uint64(hi)
	switch {
	case p == 0 && x > 1:
		return 0, 0, false // nothing, or least
	case p != q && most != unbounded && x*(p+1) > y*p+1:
		return 0, 0, false // a gap between p times most and p+1 times least
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

// addedCounts adds the counts of two adjacent repeats of the same term, unless the sum is too large.
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
