package token

import (
	"strings"
	"testing"
)

// TestBytes spells real strings by the bytes of their tokens: where a text
// survives encoding and decoding, those must give it back, but for the space that
// llama2 puts in front.
func TestBytes(t *testing.T) {
	for _, name := range families {
		t.Run(name, func(t *testing.T) {
			tok := loadFile(t, name)
			tested := 0
			for _, s := range testStrings(t) {
				ids := tok.Encode(s, false)
				if tok.Decode(ids, false) != s {
					continue
				}
				tested++
				var b []byte
				for _, id := range ids {
					one, ok := tok.Bytes(id)
					if !ok {
						t.Fatalf("no bytes for token %d of %q", id, s)
					}
					b = append(b, one...)
				}
				if got := string(b); got != s && strings.TrimPrefix(got, " ") != s {
					t.Errorf("the bytes of %q are %q", s, got)
				}
			}
			if tested < 5000 {
				t.Errorf("%d strings tested, want thousands", tested)
			}
			if b, ok := tok.Bytes(uint32(tok.VocabSize())); ok {
				t.Errorf("a token behind the vocabulary has the bytes %q", b)
			}
		})
	}
}
