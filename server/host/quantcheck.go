package host

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

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

// checkTime is how long a start may take for the comparison of a model that was converted within took: no longer than
// that, and some seconds for small models.
func checkTime(took time.Duration) time.Duration { return max(took, 20*time.Second) }

// quantCheck compares a quantised model with its reference on a fixed text. The reference is built in a folder that is
// removed afterwards, by prepare. It says why not where the reference would take more than half of the available
// memory, or longer than ctx allows.
func quantCheck(ctx context.Context, d device, b models.Built, tok *token.Tokenizer, prepare func(context.Context,
	store.Options) (models.Built, error)) (a *quant.Agreement, whyNot string, err error) {
	need, available := b.Params*fp32Bytes, availableMemory()
	if d.onGPU() {
		need = b.Params * bf16Bytes
		available, _ = d.free()
	}
	if need > available/2 {
		return a, "the reference would take more than half of the available memory", nil
	}
	tokens := tok.Encode(quant.CheckText, true)
	tokens = tokens[:min(len(tokens), cmp.Or(b.OriginalPositions, b.MaxPositions))]
	if len(tokens) == 0 {
		return a, "the text has no tokens in this vocabulary", nil
	}
	dir, err := os.MkdirTemp("", "tgi-reference-")
	if err != nil {
		return a, "", err
	}
	defer os.RemoveAll(dir)
	reference, err := prepare(ctx, store.Options{Device: d.Device, Weights: referenceOn(d), Dir: dir})
	if errors.Is(err, context.DeadlineExceeded) {
		return a, "the reference would take longer than the conversion did; tgi model convert compares without a limit", nil
	}
	if err != nil {
		return a, "", err
	}
	want, err := newCheckSequence(d, reference, len(tokens))
	if err != nil {
		return a, "", err
	}
	defer want.model.Close()
	got, err := newCheckSequence(d, b, len(tokens))
	if err != nil {
		return a, "", err
	}
	defer got.model.Close()
	a, err = quant.Compare(want, got, tokens, b.Vocab)
	return a, "", err
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
func (s *checkSequence) Logits(tokens []uint32) ([]float32, error) { return s.logits(tokens, 0) }

// logits appends tokens to the sequence, and returns the logits of those from number first on.
func (s *checkSequence) logits(tokens []uint32, first int) ([]float32, error) {
	step := llm.Step{
		Tokens: tokens, CuSeqlens: []int32{0, int32(len(tokens))}, PastLens: []int32{int32(s.n)},
	}
	for i := range tokens {
		step.SlotMapping = append(step.SlotMapping, int32(s.n+i))
		if i >= first {
			step.LogitRows = append(step.LogitRows, int32(i))
		}
	}
	s.n += len(tokens)
	used := blocksFor(s.n, s.model.BlockSize())
	if used > len(s.blocks) {
		return nil, fmt.Errorf("BUG: %d tokens in a cache for %d", s.n, len(s.blocks)*s.model.BlockSize())
	}
	step.BlockTable, step.MaxBlocks = s.blocks[:used], used
	return s.model.Forward(&step)
}
