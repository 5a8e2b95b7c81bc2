package grammar

import "math/bits"

// byteSet is a set of bytes.
type byteSet [4]uint64

var allBytes = byteSet{^uint64(0), ^uint64(0), ^uint64(0), ^uint64(0)}

func byteSetOf(b byte) (s byteSet) {
	s.add(b)
	return s
}

func (s *byteSet) add(b byte) { s[b>>6] |= 1 << (b & 63) }

func (s *byteSet) addRange(lo, hi byte) {
	for b := int(lo); b <= int(hi); b++ {
		s.add(byte(b))
	}
}

func (s *byteSet) has(b byte) bool { return s[b>>6]>>(b&63)&1 != 0 }

func (s byteSet) empty() bool { return s[0]|s[1]|s[2]|s[3] == 0 }

func (s byteSet) and(o byteSet) byteSet {
	return byteSet{s[0] & o[0], s[1] & o[1], s[2] & o[2], s[3] & o[3]}
}

func (s byteSet) or(o byteSet) byteSet {
	return byteSet{s[0] | o[0], s[1] | o[1], s[2] | o[2], s[3] | o[3]}
}

func (s byteSet) not() byteSet { return byteSet{^s[0], ^s[1], ^s[2], ^s[3]} }

func (s byteSet) minus(o byteSet) byteSet { return s.and(o.not()) }

// side returns s if it contains b, otherwise its complement.
func (s byteSet) side(b byte) byteSet {
	if s.has(b) {
		return s
	}
	return s.not()
}

func (s byteSet) count() int {
	return bits.OnesCount64(s[0]) + bits.OnesCount64(s[1]) + bits.OnesCount64(s[2]) + bits.OnesCount64(s[3])
}

// lowest is the smallest member of a set that is not empty.
func (s byteSet) lowest() byte {
	for i, w := range s {
		if w != 0 {
			return byte(i<<6 + bits.TrailingZeros64(w))
		}
	}
	panic("BUG: lowest member of the empty set of bytes")
}
