package generate

import (
	"slices"
	"testing"

	"tgi/runtime/llm"
)

// spelling is a tokenizer that knows the texts of its tokens alone.
type spelling struct {
	Tokenizer
	texts []string
}

func (s spelling) Bytes(t llm.Token) ([]byte, bool) { return []byte(s.texts[t]), true }

// TestSpell: what is left of a healed text is spelled in the longest tokens, or not at all.
func TestSpell(t *testing.T) {
	texts := []string{"a", "b", "ab", "<s>", "abc", "é", "d"}
	h := &healing{tok: spelling{texts: texts}, vocab: len(texts), hidden: func(id llm.Token) bool { return id == 3 }}
	for text, want := range map[string][]llm.Token{"abba": {2, 1, 0}, "abcab": {4, 2}, "aé": {0, 5}, "ac": nil,
		"<s>": nil, "": nil} {
		if got := h.spell([]byte(text)); !slices.Equal(got, want) {
			t.Errorf("%q: %v, want %v", text, got, want)
		}
	}
}
