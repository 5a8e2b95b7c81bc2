package ort

import (
	"fmt"
	"slices"

	"tgi/runtime/llm"
)

// bounds are what a model's steps stay within.
type bounds struct {
	vocab, maxLen, originalLen, blocks, blockSize, width int
	places, keyEnds                                      bool
}

// checkStep returns an error if a step is inconsistent or would make the model read or write
// outside its tensors.
func checkStep(s *llm.Step, o bounds) error {
	tokens, rows := len(s.Tokens), s.Rows()
	switch {
	case tokens == 0 || rows == 0:
		return fmt.Errorf("%d tokens in %d rows", tokens, rows)
	case len(s.CuSeqlens) != rows+1:
		return fmt.Errorf("CuSeqlens has %d entries, want %d", len(s.CuSeqlens), rows+1)
	case s.CuSeqlens[0] != 0 || int(s.CuSeqlens[rows]) != tokens:
		return fmt.Errorf("CuSeqlens spans %d to %d, want 0 to %d", s.CuSeqlens[0], s.CuSeqlens[rows], tokens)
	case s.MaxBlocks < 1 || len(s.BlockTable) != rows*s.MaxBlocks:
		return fmt.Errorf("BlockTable has %d entries, want %d rows of %d", len(s.BlockTable), rows, s.MaxBlocks)
	case len(s.Adapters) != 0 && len(s.Adapters) != rows:
		return fmt.Errorf("%d rows have Adapters, want %d or none", len(s.Adapters), rows)
	case len(s.Long) != 0 && (len(s.Long) != rows || o.originalLen == 0):
		return fmt.Errorf("%d rows have Long, want none or, if the original context counts, %d", len(s.Long), rows)
	case len(s.SlotMapping) != tokens:
		return fmt.Errorf("SlotMapping has %d entries, want %d", len(s.SlotMapping), tokens)
	}
	for i, t := range s.Tokens {
		if int64(t) >= int64(o.vocab) {
			return fmt.Errorf("token %d is %d, the vocabulary has %d", i, t, o.vocab)
		}
	}
	for b := range rows {
		if err := checkRow(s, b, o); err != nil {
			return fmt.Errorf("row %d: %w", b, err)
		}
	}
	if err := checkEmbeddings(s, o.width); err != nil {
		return err
	}
	if err := checkPlaces(s, o); err != nil {
		return err
	}
	if len(s.KeyEnds) != 0 && (!o.keyEnds || len(s.KeyEnds) != tokens) {
		return fmt.Errorf("%d KeyEnds for %d tokens; the model takes such: %t", len(s.KeyEnds), tokens, o.keyEnds)
	}
	last := int32(-1)
	for i, r := range s.LogitRows {
		if r <= last || int(r) >= tokens {
			return fmt.Errorf("LogitRows[%d] is %d, must be above %d and below %d", i, r, last, tokens)
		}
		last = r
	}
	return nil
}

// checkEmbeddings checks that the step's embeddings lie within its tokens, in order, and have the model's width.
func checkEmbeddings(s *llm.Step, width int) error {
	end := 0
	for i, e := range s.Embeddings {
		if e.At < end || e.N < 1 || e.End() > len(s.Tokens) || len(e.Vectors) != e.N*width || width == 0 {
			return fmt.Errorf("embedding %d has %d numbers of tokens %d to %d, after %d of %d; the model takes %d for each",
				i, len(e.Vectors), e.At, e.End(), end, len(s.Tokens), width)
		}
		end = e.End()
	}
	return nil
}

// checkPlaces checks that the step's places, if it has such, are three for each token and within the model's positions.
func checkPlaces(s *llm.Step, o bounds) error {
	if len(s.Places) != 0 && (!o.places || len(s.Places) != 3*len(s.Tokens)) {
		return fmt.Errorf("%d Places for %d tokens; the model takes places: %t", len(s.Places), len(s.Tokens), o.places)
	}
	for i, p := range s.Places {
		if p < 0 || int(p) >= o.maxLen {
			return fmt.Errorf("place %d of Places is %d, the model has %d positions", i, p, o.maxLen)
		}
	}
	return nil
}

// checkRow checks one row's length, blocks and slots.
func checkRow(s *llm.Step, b int, o bounds) error {
	from, to, past := int(s.CuSeqlens[b]), int(s.CuSeqlens[b+1]), int(s.PastLens[b])
	if from >= to || to > len(s.Tokens) {
		return fmt.Errorf("CuSeqlens gives it tokens %d to %d of %d", from, to, len(s.Tokens))
	}
	end := past + to - from
	if past < 0 || end > o.maxLen || end > s.MaxBlocks*o.blockSize {
		return fmt.Errorf("PastLens is %d and the row ends at %d, the model has %d positions and the row %d blocks",
			past, end, o.maxLen, s.MaxBlocks)
	}
	if o.originalLen != 0 && end > o.originalLen && (len(s.Long) == 0 || !s.Long[b]) {
		return fmt.Errorf("it ends at %d and is not Long, the original context has %d positions", end, o.originalLen)
	}
	table := s.BlockTable[b*s.MaxBlocks:][:(end+o.blockSize-1)/o.blockSize]
	for i, block := range table {
		if block < 0 || int(block) >= o.blocks {
			return fmt.Errorf("BlockTable[%d] is %d, the cache has %d blocks", i, block, o.blocks)
		}
	}
	for i := from; i < to && len(s.KeyEnds) == len(s.Tokens); i++ {
		least := past + i - from + 1
		if i > from {
			least = max(least, int(s.KeyEnds[i-1]))
		}
		if key := int(s.KeyEnds[i]); key < least || key > end {
			return fmt.Errorf("KeyEnds[%d] is %d, want %d to %d", i, key, least, end)
		}
	}
	for i, slot := range s.SlotMapping[from:to] {
		position := past + i
		own := table[position/o.blockSize]*int32(o.blockSize) + int32(position%o.blockSize)
		if slot != -1 && slot != own {
			return fmt.Errorf("SlotMapping[%d] is %d, position %d lies at %d", from+i, slot, position, own)
		}
	}
	return nil
}

// checkTensors returns an error if a model's inputs and outputs are not those that this package
// expects.
func checkTensors(s *session, o Options) error {
	in, out, err := s.bothTensors()
	if err != nil {
		return err
	}
	want := []tensorInfo{{"logits", float32s, []int64{-1, int64(o.Vocab)}}}
	if err := match("output", out, want); err != nil {
		return err
	}
	want = append(wantedInputs(), tensorInfo{cacheFormInput, int32s, []int64{1}})
	if o.Places {
		want = append(want, tensorInfo{placesInput, int64s, []int64{-1, 3}})
	}
	if o.KeyEnds {
		want = append(want, tensorInfo{keyEndsInput, int32s, []int64{-1}})
	}
	if o.OriginalLen > 0 {
		want = append(want, tensorInfo{rotaryRowsInput, int64s, []int64{-1}})
	}
	if o.Adapters > 0 {
		want = append(want, tensorInfo{adaptersInput, int64s, []int64{-1}})
	}
	if o.Width > 0 {
		want = append(want, tensorInfo{embeddedInput, int64s, []int64{-1, 1}},
			tensorInfo{embeddingsInput, float32s, []int64{-1, int64(o.Width)}})
	}
	for layer := range o.Layers {
		for _, prefix := range o.halves() {
			want = append(want, tensorInfo{fmt.Sprintf("%s.%d", prefix, layer), uint8s, []int64{-1, -1}})
		}
	}
	return match("input", in, want)
}

// bothTensors lists the model's inputs and its outputs.
func (s *session) bothTensors() (in, out []tensorInfo, err error) {
	if in, err = s.tensors(false); err == nil {
		out, err = s.tensors(true)
	}
	return in, out, err
}

// wantedInputs are the inputs that describe a step.
func wantedInputs() (want []tensorInfo) {
	for name, kind := range stepInputs {
		dims := []int64{-1}
		if name == "block_table" {
			dims = []int64{-1, -1}
		}
		want = append(want, tensorInfo{name, kind, dims})
	}
	return want
}

// checkCUDATensors is checkTensors for a model that was built for CUDA. It returns the type of the cache's elements.
func checkCUDATensors(s *session, o CUDAOptions) (element, error) {
	in, out, err := s.bothTensors()
	if err != nil {
		return 0, err
	}
	kind := bfloat16s
	if slices.ContainsFunc(in, func(t tensorInfo) bool { return t.kind == float16s }) {
		kind = float16s
	}
	wantIn := append(wantedInputs(), tensorInfo{"attention_metadata", int32s, []int64{metadataSize}})
	if !o.Latent {
		wantIn = append(wantIn, tensorInfo{attendInput, int64s, []int64{1}})
	}
	if o.Adapters > 0 {
		wantIn = append(wantIn, tensorInfo{adaptersInput, int64s, []int64{-1}},
			tensorInfo{loraInput, int64s, []int64{1}})
	}
	if o.Places {
		wantIn = append(wantIn, tensorInfo{placesInput, int64s, []int64{-1, placesPerToken}})
	}
	wantOut := []tensorInfo{{"logits", float32s, []int64{-1, int64(o.Vocab)}}}
	for layer := range o.Layers {
		for _, half := range o.halves() {
			dims := []int64{-1, int64(o.BlockSize), int64(o.KVHeads), int64(o.HeadDim)}
			wantIn = append(wantIn, tensorInfo{fmt.Sprintf("%s.%d", half, layer), kind, dims})
			wantOut = append(wantOut, tensorInfo{fmt.Sprintf("%s_out.%d", half, layer), kind, dims})
		}
	}
	if err := match("output", out, wantOut); err != nil {
		return 0, err
	}
	return kind, match("input", in, wantIn)
}

// match compares a model's tensors with the expected ones, by name. A dimension of -1 on either
// side matches any.
func match(what string, have, want []tensorInfo) error {
	for _, h := range have {
		if !slices.ContainsFunc(want, func(w tensorInfo) bool { return w.name == h.name }) {
			return fmt.Errorf("%s %q is not known to this backend", what, h.name)
		}
	}
	for _, w := range want {
		i := slices.IndexFunc(have, func(h tensorInfo) bool { return h.name == w.name })
		if i < 0 {
			return fmt.Errorf("%s %q is missing", what, w.name)
		}
		h := have[i]
		fits := h.kind == w.kind && len(h.dims) == len(w.dims)
		for d := 0; fits && d < len(w.dims); d++ {
			fits = h.dims[d] == w.dims[d] || h.dims[d] == -1 || w.dims[d] == -1
		}
		if !fits {
			return fmt.Errorf("%s %q has element type %d and dimensions %v, want %d and %v",
				what, w.name, h.kind, h.dims, w.kind, w.dims)
		}
	}
	return nil
}
