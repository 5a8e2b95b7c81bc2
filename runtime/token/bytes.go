package token

import "strings"

// Bytes returns the bytes of a token in the middle of a text, which need not be whole
// characters, and whether there is such a token. Concatenated they are what Decode returns,
// if that is valid UTF-8, apart from what decoders do at the beginning and the end. The bytes
// of a special token are its text.
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
	// Decode the token after a letter, to leave out what decoders do at the start of a text.
	var out stringSink
	d := newChain(t.decoders, &out, true)
	d.feed("a", true)
	d.feed(s, true)
	if len(t.decoders) > 0 {
		if _, ok := t.decoders[0].(suffixDecoder); ok {
			d.feed("", true) // the suffix of the last token is no space
		}
	}
	d.finish()
	text, _ := strings.CutPrefix(out.String(), "a")
	return []byte(text), true
}
