package compare

import (
	"fmt"

	"tgi/runtime/llm"
)

// Chunks plays one sequence on a backend in pieces of at most so many tokens, and its last tail tokens one by one. It
// returns the logits of the tokens in at, which ascend. The backend's cache must hold the sequence; a play of other
// tokens before shows whether this one writes all that it reads.
func Chunks(b Backend, tokens []llm.Token, chunk, tail int, at []int) ([][]float32, error) {
	c := &cache{Backend: b}
	q, prompt := &row{}, len(tokens)-tail
	if prompt < 0 || chunk < 1 {
		return nil, fmt.Errorf("%d tokens in chunks of %d, the last %d alone", len(tokens), chunk, tail)
	}
	var out [][]float32
	for q.length < len(tokens) {
		n := 1
		if q.length < prompt {
			n = min(chunk, prompt-q.length)
		}
		from := q.length
		var want []int32
		for len(at) > 0 && at[0] < from+n {
			want, at = append(want, int32(at[0]-from)), at[1:]
		}
		if err := c.grow(q, n); err != nil {
			return nil, err
		}
		s := &llm.Step{CuSeqlens: []int32{0}, MaxBlocks: len(q.blocks)}
		c.add(s, q, tokens[from:from+n])
		s.LogitRows = want
		logits, err := b.Forward(s)
		if err != nil {
			return nil, err
		}
		for i := range want {
			out = append(out, append([]float32(nil), logits[i*b.Vocab():(i+1)*b.Vocab()]...))
		}
	}
	return out, nil
}
