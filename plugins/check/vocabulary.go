package check

import (
	kit "tgi/conformance/guest"
	"tgi/plugins/internal/guest"
)

// world is the kit's vocabulary as a loaded plugin sees it.
type world struct{ *kit.World }

// Size implements guest.Vocabulary.
func (w world) Size() int { return int(w.VocabSize()) }

// Bytes implements guest.Vocabulary.
func (w world) Bytes(id uint32) []byte {
	b, _ := w.TokenBytes(id)
	return b
}

// Flags implements guest.Vocabulary.
func (w world) Flags(id uint32) uint32 {
	flags, _ := w.TokenFlags(id)
	return flags
}

// Encode implements guest.Vocabulary.
func (w world) Encode(text string) []uint32 {
	ids, _ := w.World.Encode(text)
	return ids
}

var _ guest.Vocabulary = world{}
