package grammar

import (
	"cmp"
	"encoding/binary"
	"slices"
)

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

// span is a range of counts; hi may be unbounded.
type span struct{ lo, hi uint32 }

// isCounted reports whether t repeats one term.
func (t *term) isCounted() bool { return t.op == opRep || t.op == opSpans }

// counted is the counts of a term that repeats another. It must not be changed.
func (t *term) counted() []span {
	if t.op == opRep {
		return []span{{t.lo, t.hi}}
	}
	return t.spans
}

// appendSpans appends spans to what is hashed.
func appendSpans(b []byte, s []span) []byte {
	for _, x := range s {
		b = binary.LittleEndian.AppendUint32(binary.LittleEndian.AppendUint32(b, x.lo), x.hi)
	}
	return b
}

// joinSpans sorts spans and joins those that touch, in place.
func joinSpans(s []span) []span {
	slices.SortFunc(s, func(x, y span) int { return cmp.Compare(x.lo, y.lo) })
	out := s[:0]
	for _, x := range s {
		if n := len(out); n > 0 && (out[n-1].hi == unbounded || x.lo <= out[n-1].hi+1) {
			out[n-1].hi = max(out[n-1].hi, x.hi)
		} else {
			out = append(out, x)
		}
	}
	return out
}

// afterOne is the counts that are left after one repetition.
func afterOne(s []span) []span {
	out := make([]span, 0, len(s))
	for _, x := range s {
		if x.hi == 0 {
			continue
		}
		if x.lo = max(x.lo, 1) - 1; x.hi != unbounded {
			x.hi--
		}
		out = append(out, x)
	}
	return out
}

// addedSpans adds the counts of two adjacent repeats of the same term, unless a sum is too large or both have gaps.
func addedSpans(a, b []span) (sum []span, ok bool) {
	if len(a) > 1 && len(b) > 1 {
		return nil, false
	}
	for _, x := range a {
		for _, y := range b {
			lo, hi, ok := addedCounts(x.lo, x.hi, y.lo, y.hi)
			if !ok {
				return nil, false
			}
			sum = append(sum, span{lo, hi})
		}
	}
	return sum, true
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
