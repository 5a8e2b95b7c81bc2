package ort

import (
	"fmt"
	"slices"

	"tgi/runtime/llm"
)

// checkStep returns an error if a step is inconsistent or would make the model read or write
// outside its tensors.
func checkStep(s *llm.Step, o Options) error {
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
	case len(s.SlotMapping) != tokens:
		return fmt.Errorf("SlotMapping has %d entries, want %d", len(s.SlotMapping), tokens)
	}
	for i, t := range s.Tokens {
		if int64(t) >= int64(o.Vocab) {
			return fmt.Errorf("token %d is %d, the vocabulary has %d", i, t, o.Vocab)
		}
	}
	for b := range rows {
		if err := checkRow(s, b, o); err != nil {
			return fmt.Errorf("row %d: %w", b, err)
		}
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

// checkRow checks one row's length, blocks and slots.
func checkRow(s *llm.Step, b int, o Options) error {
	from, to, past := int(s.CuSeqlens[b]), int(s.CuSeqlens[b+1]), int(s.PastLens[b])
	if from >= to || to > len(s.Tokens) {
		return fmt.Errorf("CuSeqlens gives it tokens %d to %d of %d", from, to, len(s.Tokens))
	}
	end := past + to - from
	if past < 0 || end > o.MaxLen || end > s.MaxBlocks*BlockSize {
		return fmt.Errorf("PastLens is %d and the row ends at %d, the model has %d positions and the row %d blocks",
			past, end, o.MaxLen, s.MaxBlocks)
	}
	table := s.BlockTable[b*s.MaxBlocks:][:(end+BlockSize-1)/BlockSize]
	for i, block := range table {
		if block < 0 || int(block) >= o.Blocks {
			return fmt.Errorf("BlockTable[%d] is %d, the cache has %d blocks", i, block, o.Blocks)
		}
	}
	for i, slot := range s.SlotMapping[from:to] {
		position := past + i
		own := table[position/BlockSize]*BlockSize + int32(position%BlockSize)
		if slot != -1 && slot != own {
			return fmt.Errorf("SlotMapping[%d] is %d, position %d lies at %d", from+i, slot, position, own)
		}
	}
	return nil
}

// checkTensors returns an error if a model's inputs and outputs are not those that this package
// expects.
func checkTensors(s *session, o Options) error {
	in, err := s.tensors(false)
	if err != nil {
		return err
	}
	out, err := s.tensors(true)
	if err != nil {
		return err
	}
	want := []tensorInfo{{"logits", float32s, []int64{-1, int64(o.Vocab)}}}
	if err := match("output", out, want); err != nil {
		return err
	}
	want = want[:0]
	for name, kind := range stepInputs {
		dims := []int64{-1}
		if name == "block_table" {
			dims = []int64{-1, -1}
		}
		want = append(want, tensorInfo{name, kind, dims})
	}
	for layer := range o.Layers {
		for _, prefix := range []string{"k_cache", "v_cache"} {
			want = append(want, tensorInfo{fmt.Sprintf("%s.%d", prefix, layer), float32s,
				[]int64{-1, int64(o.blockFloats())}})
		}
	}
	return match("input", in, want)
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
