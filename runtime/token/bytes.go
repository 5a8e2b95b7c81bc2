package token

import "strings"

// Bytes returns the bytes that a token stands for in the middle of a text, which
// need not be whole characters, and whether there is such a token. Put together
// they are what Decode returns of the same tokens, where that is UTF-8 and but for
// what decoders do at the beginning and the end. A special token's bytes are its
// own text.
func (t *Tokenizer) Bytes(id uint32) ([]byte, bool) {
	s, ok := t.decoderForm(id)
	if !ok {
		return nil, false
	}
	for _, d := range t.decoders {
		switch d.(type) {
		case byteDecoder:
			if raw, ok := fromByteAlphabet(s); ok {
				return []byte(raw), true
			}
			return []byte(s), true
		case fallbackDecoder:
			if b, ok := byteToken(s); ok {
				return []byte{b}, true
			}
		}
	}
	// The token behind a letter: what is at the start of a text only stays out.
	var out stringSink
	d := newChain(t.decoders, &out, true)
	d.feed("a", true)
	d.feed(s, true)
	d.finish()
	text, _ := strings.CutPrefix(out.String(), "a")
	return []byte(text), true
}
