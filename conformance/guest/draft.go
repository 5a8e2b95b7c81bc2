package guest

import (
	"bytes"
	"encoding/binary"
	"slices"

	"tgi/sdk/abi"
)

// propose asks a guest of kind draft at one position, with less room each time, and again with as much room as before:
// a guess follows from the tokens.
func (s *sequence) propose() (a Answer, ok bool) {
	if s.guess == 0 {
		if s.guess, ok = s.alloc(4*abi.MaxDraft + guard); !ok {
			return a, false
		}
	}
	position := uint32(len(s.tokens))
	room := abi.MaxDraft - (position-s.prompt)%abi.MaxDraft
	fence := s.guess + 4*room
	m := s.Memory()
	copy(m[s.room:], words(s.tokens...))
	copy(m[fence:], bytes.Repeat([]byte{guardByte}, guard))
	v, ok := s.call("tgi_draft_propose", uint64(s.room), uint64(position), uint64(position-s.known), uint64(s.guess),
		uint64(room))
	if !ok {
		return a, false
	}
	s.known = position
	n := int32(uint32(v))
	if n < 0 || uint32(n) > room {
		s.run.report("guess", "%d tokens, there is room for %d", n, room)
		return a, false
	}
	m = s.Memory()
	if slices.ContainsFunc(m[fence:fence+guard], func(b byte) bool { return b != guardByte }) {
		s.run.report("overrun", "tgi_draft_propose writes behind its room of %d tokens", room)
		return a, false
	}
	a.Kind = abi.KindDraft
	for i := range uint32(n) {
		id := binary.LittleEndian.Uint32(m[s.guess+4*i:])
		if id >= s.world.VocabSize() {
			s.run.report("guess", "token %d, the vocabulary has %d", id, s.world.VocabSize())
			return a, false
		}
		a.Force = append(a.Force, id)
	}
	// what comes is the first guess, or another token
	next := uint32('a') + position%2
	if n > 0 && position%3 > 0 {
		next = a.Force[0]
	}
	s.tokens = append(s.tokens, next)
	return a, true
}
