package host

import (
	"context"
	"fmt"
	"os"

	"tgi/models"
	"tgi/models/quant"
	"tgi/models/store"
	"tgi/runtime/llm"
	"tgi/runtime/ort"
	"tgi/runtime/token"
)

// fp32Bytes is what a parameter takes in the reference.
const fp32Bytes = 4

// quantCheck compares a freshly quantised model with its fp32 form on a fixed
// text. The fp32 form is built in a folder that is removed afterwards, by
// prepare. It returns "" where the reference would take more than half of the
// available memory.
func quantCheck(ctx context.Context, b models.Built, tok *token.Tokenizer, prepare func(context.Context,
	store.Options) (models.Built, error)) (string, error) {
	if b.Params*fp32Bytes > availableMemory()/2 {
		return "", nil
	}
	dir, err := os.MkdirTemp("", "tgi-reference-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(dir)
	reference, err := prepare(ctx, store.Options{Weights: models.FP32, Dir: dir})
	if err != nil {
		return "", err
	}
	tokens := tok.Encode(quant.CheckText, true)
	tokens = tokens[:min(len(tokens), b.MaxPositions)]
	want, err := newCheckSequence(reference, len(tokens))
	if err != nil {
		return "", err
	}
	defer want.Close()
	got, err := newCheckSequence(b, len(tokens))
	if err != nil {
		return "", err
	}
	defer got.Close()
	a, err := quant.Compare(want, got, tokens, b.Vocab)
	if err != nil {
		return "", err
	}
	return a.String(), nil
}

// checkSequence runs one sequence on a backend of its own. It implements quant.Model.
type checkSequence struct {
	*ort.Paged
	n      int // tokens computed
	blocks []int32
}

// newCheckSequence opens b with a cache for n tokens.
func newCheckSequence(b models.Built, n int) (*checkSequence, error) {
	s := &checkSequence{blocks: make([]int32, (n+ort.BlockSize-1)/ort.BlockSize)}
	for i := range s.blocks {
		s.blocks[i] = int32(i)
	}
	opt := backendOptions(b)
	opt.Blocks = len(s.blocks)
	var err error
	s.Paged, err = ort.Open(opt)
	return s, err
}

// Logits implements quant.Model.
func (s *checkSequence) Logits(tokens []uint32) ([]float32, error) {
	step := llm.Step{
		Tokens: tokens, CuSeqlens: []int32{0, int32(len(tokens))}, PastLens: []int32{int32(s.n)},
	}
	for i := range tokens {
		step.SlotMapping = append(step.SlotMapping, int32(s.n+i))
		step.LogitRows = append(step.LogitRows, int32(i))
	}
	s.n += len(tokens)
	if s.n > len(s.blocks)*ort.BlockSize {
		return nil, fmt.Errorf("BUG: %d tokens in a cache for %d", s.n, len(s.blocks)*ort.BlockSize)
	}
	used := (s.n + ort.BlockSize - 1) / ort.BlockSize
	step.BlockTable, step.MaxBlocks = s.blocks[:used], used
	return s.Forward(&step)
}
