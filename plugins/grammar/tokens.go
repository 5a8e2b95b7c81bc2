package grammar

import (
	"slices"

	"tgi/plugins/grammar/ir"
)

// tokens is a set of tokens that a grammar names.
type tokens struct {
	h     hash
	words []uint32
}

func (t *tokens) has(id uint32) bool { return hasBit(t.words, id) }

func (t *tokens) finish() *tokens {
	b := []byte{tagExpr, 0xFF}
	for _, w := range t.words {
		b = append(b, byte(w), byte(w>>8), byte(w>>16), byte(w>>24))
	}
	t.h = hashOf(b)
	return t
}

// tokensOf returns the tokens that a leaf names; nil if there are none.
func (v *Vocab) tokensOf(x *ir.Expr) (*tokens, error) {
	words := make([]uint32, v.words)
	if x.Kind == ir.TokenText {
		id, err := v.named(x.Name)
		if err != nil {
			return nil, err
		}
		setBit(words, id)
		return (&tokens{words: words}).finish(), nil
	}
	for _, r := range x.Ranges {
		for id := uint64(r.Lo); id <= uint64(r.Hi) && id < uint64(v.size); id++ {
			if v.exists(uint32(id)) {
				setBit(words, uint32(id))
			}
		}
	}
	if x.Except {
		for i, n := range v.normal {
			words[i] = n &^ words[i]
		}
	}
	if !slices.ContainsFunc(words, func(w uint32) bool { return w != 0 }) {
		return nil, nil
	}
	return (&tokens{words: words}).finish(), nil
}
