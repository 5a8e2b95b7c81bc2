package compare

import (
	"fmt"
	"math/rand/v2"
	"slices"

	"tgi/runtime/llm"
)

// Backend runs steps; ort's backends do.
type Backend interface {
	// Forward returns the logits of the step's LogitRows, [len(LogitRows)*Vocab()], valid until the next call.
	Forward(s *llm.Step) ([]float32, error)
	CopyBlocks(pairs []llm.BlockCopy) error
	Vocab() int
	// BlockSize is how many tokens a block of the cache holds; Blocks how many blocks there are.
	BlockSize() int
	Blocks() int
}

// cache hands out the blocks of a backend's cache. Blocks are never given back: a run has its own cache.
type cache struct {
	Backend
	next int32
}

// dirty returns an empty cache whose blocks hold the keys and values of other tokens: what an earlier run of the same
// sequences left there would hide that this one does not write them.
func dirty(b Backend, sequences [][]llm.Token) (*cache, error) {
	c := &cache{Backend: b}
	for range 2 { // a run takes at most two rows for a sequence
		for _, tokens := range sequences {
			other := make([]llm.Token, len(tokens))
			for i, t := range tokens {
				other[i] = (t + llm.Token(b.Vocab()/2)) % llm.Token(b.Vocab())
			}
			if _, err := c.step([]*row{{}}, [][]llm.Token{other}); err != nil {
				return nil, err
			}
		}
	}
	c.next = 0
	return c, nil
}

// row is a sequence in the cache.
type row struct {
	blocks []int32
	length int // tokens in the cache
}

// grow gives q the blocks for n more tokens.
func (c *cache) grow(q *row, n int) error {
	for len(q.blocks)*c.BlockSize() < q.length+n {
		if int(c.next) >= c.Blocks() {
			return fmt.Errorf("the cache of %d blocks is too small for this run", c.Blocks())
		}
		q.blocks = append(q.blocks, c.next)
		c.next++
	}
	return nil
}

// fork returns a row with the same tokens. Full blocks are shared, the last one is copied when it is not full.
func (c *cache) fork(q *row) (*row, error) {
	full := q.length / c.BlockSize()
	f := &row{blocks: slices.Clone(q.blocks[:full]), length: q.length}
	if q.length%c.BlockSize() == 0 {
		return f, nil
	}
	if err := c.grow(f, 0); err != nil {
		return nil, err
	}
	return f, c.CopyBlocks([]llm.BlockCopy{{Dst: f.blocks[full], Src: q.blocks[full]}})
}

// step appends tokens[i] to rows[i] and returns the logits of every token, [row][token][vocab].
func (c *cache) step(rows []*row, tokens [][]llm.Token) ([][][]float32, error) {
	s := &llm.Step{CuSeqlens: []int32{0}}
	for i, q := range rows {
		if err := c.grow(q, len(tokens[i])); err != nil {
			return nil, err
		}
		s.MaxBlocks = max(s.MaxBlocks, len(q.blocks))
	}
	for i, q := range rows {
		c.add(s, q, tokens[i])
	}
	flat, err := c.Forward(s)
	if err != nil {
		return nil, err
	}
	all := slices.Collect(slices.Chunk(slices.Clone(flat), c.Vocab()))
	out := make([][][]float32, len(rows))
	for i := range rows {
		out[i], all = all[:len(tokens[i])], all[len(tokens[i]):]
	}
	return out, nil
}

// add appends tokens to a row, which has the blocks for them, and to a step whose logits are those of every token.
func (c *cache) add(s *llm.Step, q *row, tokens []llm.Token) {
	size := int32(c.BlockSize())
	s.PastLens = append(s.PastLens, int32(q.length))
	for range tokens {
		at := int32(q.length)
		s.SlotMapping = append(s.SlotMapping, q.blocks[at/size]*size+at%size)
		s.LogitRows = append(s.LogitRows, int32(len(s.LogitRows)))
		q.length++
	}
	s.Tokens = append(s.Tokens, tokens...)
	s.CuSeqlens = append(s.CuSeqlens, int32(len(s.Tokens)))
	blocks := slices.Repeat([]int32{-1}, s.MaxBlocks)
	copy(blocks, q.blocks)
	s.BlockTable = append(s.BlockTable, blocks...)
}

// Sequences returns random sequences of tokens below vocab: short ones, some whose lengths lie around the edges of
// cache blocks of a size, and one of the longest length that is asked for. The seed decides.
func Sequences(vocab, size, longest int, seed uint64) [][]llm.Token {
	rng := rand.New(rand.NewPCG(seed, 2))
	lengths := []int{1, 2, 5, size - 1, size, size + 1, 2 * size, 2*size + 1, 3*size - 1, longest}
	var out [][]llm.Token
	for _, n := range lengths {
		tokens := make([]llm.Token, min(n, longest))
		for i := range tokens {
			tokens[i] = llm.Token(rng.IntN(vocab))
		}
		out = append(out, tokens)
	}
	return out
}
