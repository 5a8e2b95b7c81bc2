package guest

import (
	"strings"
	"unicode/utf8"

	"tgi/sdk/abi"
)

// World is the kit's [Host]: a vocabulary, a seed, and a log.
type World struct {
	// Words is the text of each token; one written <so> is special, </s> ends.
	Words []string
	// Seed is the state of Rand. A sequence's is set before it begins.
	Seed uint64
	// Lines are what was logged.
	Lines []string
}

// NewWorld makes a vocabulary of 259 tokens: all bytes, then " the", "<s>",
// "</s>". Its size is not a multiple of 32, so that masks end inside a word.
func NewWorld() *World {
	w := &World{Seed: 1}
	for b := range 256 {
		w.Words = append(w.Words, string([]byte{byte(b)}))
	}
	w.Words = append(w.Words, " the", "<s>", "</s>")
	return w
}

// Log implements Host.
func (w *World) Log(_ uint32, text string) { w.Lines = append(w.Lines, text) }

// VocabSize implements Host.
func (w *World) VocabSize() uint32 { return uint32(len(w.Words)) }

// TokenBytes implements Host.
func (w *World) TokenBytes(id uint32) ([]byte, bool) {
	if int(id) >= len(w.Words) {
		return nil, false
	}
	return []byte(w.Words[id]), true
}

// TokenFlags implements Host.
func (w *World) TokenFlags(id uint32) (uint32, bool) {
	if int(id) >= len(w.Words) {
		return 0, false
	}
	switch word := w.Words[id]; {
	case word == "</s>":
		return abi.TokenSpecial | abi.TokenEnd, true
	case len(word) > 2 && word[0] == '<':
		return abi.TokenSpecial, true
	}
	return 0, true
}

// Encode implements Host: the longest word that fits, from left to right.
func (w *World) Encode(text string) (ids []uint32, ok bool) { return w.encode(text, true) }

// EncodeData is Encode of a text in which no special token is recognised.
func (w *World) EncodeData(text string) (ids []uint32, ok bool) { return w.encode(text, false) }

func (w *World) encode(text string, special bool) (ids []uint32, ok bool) {
	if !utf8.ValidString(text) {
		return nil, false
	}
	for text != "" {
		best, length := 0, 0
		for id, word := range w.Words {
			if flags, _ := w.TokenFlags(uint32(id)); flags&abi.TokenSpecial != 0 && !special {
				continue
			}
			if len(word) > length && strings.HasPrefix(text, word) {
				best, length = id, len(word)
			}
		}
		ids, text = append(ids, uint32(best)), text[length:]
	}
	return ids, true
}

// Rand implements Host by SplitMix64.
func (w *World) Rand() uint64 {
	w.Seed += 0x9e3779b97f4a7c15
	z := w.Seed
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}
