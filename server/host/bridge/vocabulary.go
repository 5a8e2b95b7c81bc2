package bridge

import (
	"tgi/plugins"
	"tgi/runtime/token"
	"tgi/sdk/abi"
)

// vocabulary implements plugins.Vocabulary.
type vocabulary struct {
	tok  *token.Tokenizer
	size int
	ends map[uint32]bool
}

// Vocabulary returns a tokenizer as plugins want it. size is the length of a row of
// logits: models pad it beyond the tokenizer's. The tokens of eos end a sequence.
func Vocabulary(tok *token.Tokenizer, size int, eos []uint32) plugins.Vocabulary {
	v := vocabulary{tok: tok, size: size, ends: map[uint32]bool{}}
	for _, id := range eos {
		v.ends[id] = true
	}
	return v
}

// Size implements plugins.Vocabulary.
func (v vocabulary) Size() int { return v.size }

// Bytes implements plugins.Vocabulary.
func (v vocabulary) Bytes(id uint32) []byte {
	b, _ := v.tok.Bytes(id)
	return b
}

// Flags implements plugins.Vocabulary.
func (v vocabulary) Flags(id uint32) (flags uint32) {
	if v.tok.Special(id) {
		flags |= abi.TokenSpecial
	}
	if v.ends[id] {
		flags |= abi.TokenEnd
	}
	return flags
}

// Encode implements plugins.Vocabulary.
func (v vocabulary) Encode(text string) []uint32 { return v.tok.Encode(text, false) }

// EncodeData implements plugins.Vocabulary.
func (v vocabulary) EncodeData(text string) []uint32 {
	return v.tok.EncodeSpans(text, []token.Span{{End: len(text)}})
}
