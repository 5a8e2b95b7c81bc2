package grammar

import (
	"encoding/binary"
	"hash/maphash"
)

// hash identifies a structure by its content: equal terms, expressions, frames and sets have the same hash in this
// process, whichever grammar they come from and however often caches were emptied in between. It has 128 bits under
// random keys, so collisions are not expected, not even if the author of a grammar tries to cause one.
type hash struct{ a, b uint64 }

var seeds = [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()}

func hashOf(b []byte) hash {
	return hash{maphash.Bytes(seeds[0], b), maphash.Bytes(seeds[1], b)}
}

func (h hash) less(o hash) bool { return h.a < o.a || h.a == o.a && h.b < o.b }

func (h hash) compare(o hash) int {
	switch {
	case h == o:
		return 0
	case h.less(o):
		return -1
	}
	return 1
}

func (h hash) append(b []byte) []byte {
	return binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(b, h.a), h.b)
}

func (h hash) bytes() (k Key) {
	h.append(k[:0])
	return k
}

// Tags distinguish structures of different kinds that would otherwise be encoded alike.
const (
	tagTerm byte = iota
	tagExpr
	tagFrame
	tagGroup
	tagThread
	tagKernel
	tagSet
	tagRule
	tagList
	tagPassed
)
