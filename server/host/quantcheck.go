package host

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"slices"

	"tgi/models"
	"tgi/models/quant"
	"tgi/models/store"
	"tgi/runtime/llm"
	"tgi/runtime/token"
)

// Bytes of a parameter in the reference.
const (
	fp32Bytes = 4
	bf16Bytes = 2
)

// referenceOn is the form that quantised weights are compared with: the largest that the device computes with.
func referenceOn(d device) models.Weights {
	formats := d.Device.Formats()
	return formats[slices.IndexFunc(formats, func(w models.Weights) bool { return d.Check(w) == nil })]
}

// quantCheck compares a freshly quantised model with its reference on a fixed
// text. The reference is built in a folder that is removed afterwards, by
// prepare. It returns "" where the reference would take more than half of the
// available memory.
func quantCheck(ctx context.Context, d device, b models.Built, tok *token.Tokenizer, prepare func(context.Context,
	store.Options) (models.Built, error)) (string, error) {
	need, available := b.Params*fp32Bytes, availableMemory()
	if d.onGPU() {
		need = b.Params * bf16Bytes
		available, _ = d.free()
	}
	if need > available/2 {
		return "", nil
	}
	dir, err := os.MkdirTemp("", "tgi-reference-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(dir)
	reference, err := prepare(ctx, store.Options{Device: d.Device, Weights: referenceOn(d), Dir: dir})
	if err != nil {
		return "", err
	}
	tokens := tok.Encode(quant.CheckText, true)
	tokens = tokens[:min(len(tokens), cmp.Or(b.OriginalPositions, b.MaxPositions))]
	if len(tokens) == 0 {
		return "the text has no tokens in this vocabulary", nil
	}
	want, err := newCheckSequence(d, reference, len(tokens))
	if err != nil {
		return "", err
	}
	defer want.model.Close()
	got, err := newCheckSequence(d, b, len(tokens))
	if err != nil {
		return "", err
	}
	defer got.model.Close()
	a, err := quant.Compare(want, got, tokens, b.Vocab)
	if err != nil {
		return "", err
	}
	return a.String(), nil
}

// checkSequence runs one sequence on a backend of its own. It implements quant.Model.
type checkSequence struct {
	model  backend
	n      int // tokens computed
	blocks []int32
}

// newCheckSequence opens b with a cache for n tokens.
func newCheckSequence(d device, b models.Built, n int) (*checkSequence, error) {
	s := &checkSequence{blocks: make([]int32, blocksFor(n, b.BlockSize))}
	for i := range s.blocks {
		s.blocks[i] = int32(i)
	}
	var err error
	s.model, err = d.openSmall(b, n)
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
	used := blocksFor(s.n, s.model.BlockSize())
	if used > len(s.blocks) {
		return nil, fmt.Errorf("BUG: %d tokens in a cache for %d", s.n, len(s.blocks)*s.model.BlockSize())
	}
	step.BlockTable, step.MaxBlocks = s.blocks[:used], used
	return s.model.Forward(&step)
}
