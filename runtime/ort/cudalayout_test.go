package ort

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"tgi/runtime/llm"
)

// cudaStep is a step of a chunk of two tokens, the third and fourth of their row, and a row's single token, on blocks
// of 256.
func cudaStep() *llm.Step {
	return &llm.Step{Tokens: []llm.Token{7, 8, 9}, CuSeqlens: []int32{0, 2, 3}, PastLens: []int32{2, 300}, MaxBlocks: 3,
		BlockTable: []int32{4, -1, -1, 1, 2, -1}, SlotMapping: []int32{4*256 + 2, -1, 2*256 + 44},
		LogitRows: []int32{2}}
}

// unpack writes a step into a block as large as its layout says and reads the arrays back.
func unpack(t *testing.T, l layout, s *llm.Step) map[string][]int64 {
	t.Helper()
	block := slices.Repeat([]int64{-77}, l.bytes/8) // nothing of what lay there before may stay
	base := unsafe.Pointer(&block[0])
	l.pack(base, s, 256, 99)
	got, end := map[string][]int64{}, 0
	for _, p := range l.parts {
		if p.name == "" {
			continue
		}
		if p.at%partAlign != 0 || p.at < end {
			t.Errorf("%s lies at %d, the one before ends at %d", p.name, p.at, end)
		}
		end = p.at + p.elements*p.kind.size()
		if p.kind == int64s {
			got[p.name] = slices.Clone(array[int64](base, p))
			continue
		}
		for _, v := range array[int32](base, p) {
			got[p.name] = append(got[p.name], int64(v))
		}
	}
	if end > l.bytes {
		t.Errorf("the last array ends at %d of %d", end, l.bytes)
	}
	return got
}

func TestCUDALayout(t *testing.T) {
	silent := cudaStep()
	silent.LogitRows = nil
	placed := cudaStep()
	placed.Places = []int32{1, 2, 3, 4, 5, 6, 7, 8, 9}
	decode := &llm.Step{Tokens: []llm.Token{7, 8}, CuSeqlens: []int32{0, 1, 2}, PastLens: []int32{5, 300}, MaxBlocks: 5,
		BlockTable: []int32{4, -1, -1, -1, -1, 1, 2, -1, -1, -1}, SlotMapping: []int32{4*256 + 5, 2*256 + 44},
		LogitRows: []int32{1}}
	for _, c := range []struct {
		name string
		step *llm.Step
		of   sizes
		want string
	}{
		{"eager", cudaStep(), sizesOf(cudaStep(), extras{}),
			"input_ids [7 8 9] cu_seqlens [0 2 3] past_lens [2 300] block_table [4 99 99 1 2 99] " +
				"slot_mapping [1026 -1 556] logit_rows [2]"},
		{"no logits", silent, sizesOf(silent, extras{adapters: true}),
			"input_ids [7 8 9] cu_seqlens [0 2 3] past_lens [2 300] block_table [4 99 99 1 2 99] " +
				"slot_mapping [1026 -1 556] logit_rows [0]"},
		{"padded, with a narrower table", decode, bucket{rows: 4, width: 2}.sizes(extras{places: true}),
			"input_ids [7 8 0 0] cu_seqlens [0 1 2 3 4] past_lens [5 300 0 0] block_table [4 99 1 2 99 99 99 99] " +
				"slot_mapping [1029 556 -1 -1] logit_rows [1 0 0 0] places [5 5 5 300 300 300 0 0 0 0 0 0]"},
		{"places", cudaStep(), sizesOf(cudaStep(), extras{adapters: true, places: true}),
			"input_ids [7 8 9] cu_seqlens [0 2 3] past_lens [2 300] block_table [4 99 99 1 2 99] " +
				"slot_mapping [1026 -1 556] logit_rows [2] places [2 2 2 3 3 3 300 300 300]"},
		{"places of their own", placed, sizesOf(placed, extras{places: true}),
			"input_ids [7 8 9] cu_seqlens [0 2 3] past_lens [2 300] block_table [4 99 99 1 2 99] " +
				"slot_mapping [1026 -1 556] logit_rows [2] places [1 2 3 4 5 6 7 8 9]"},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := c.of.layout()
			arrays := unpack(t, l, c.step)
			var got []string
			for _, p := range l.parts {
				if p.name != "" && p.name != adaptersInput { // which are written with the step's own lock
					got = append(got, fmt.Sprint(p.name, " ", arrays[p.name]))
				}
			}
			if text := strings.Join(got, " "); text != c.want {
				t.Errorf("got\n%s, want\n%s", text, c.want)
			}
		})
	}
	if m := metadata(cudaStep()); m != [metadataSize]int32{2, 301, 301} {
		t.Errorf("metadata %v", m)
	}
}

// Steps in one bucket have arrays of the same sizes, and their longest sequence is within the bounds that are recorded
// with it.
func TestCUDABuckets(t *testing.T) {
	rowSizes := []int{1, 2, 4, 32}
	ids := map[int]bucket{}
	for _, blockSize := range []int{64, 128, 256} {
		for rows := 1; rows <= 33; rows++ {
			for _, longest := range []int{1, 64, 65, 511, 512, 513, 1024, 1025, 4096, 100_000, 131_072} {
				s := &llm.Step{CuSeqlens: []int32{0}}
				for row := range rows {
					addRow(s, CUDAOptions{MaxLen: 131_072, BlockSize: blockSize}, (longest-1)*row/max(1, rows-1), 1)
				}
				s.PastLens[0] = int32(longest - 1)
				b, ok := bucketFor(s, rowSizes, blockSize)
				if ok != (rows <= 32) {
					t.Fatalf("%d rows have a bucket: %v", rows, ok)
				}
				if !ok {
					continue
				}
				most, least := b.lengths(blockSize)
				if b.rows < rows || longest > most || longest < least || b.width*blockSize < longest ||
					longest > splitTokens && least <= splitTokens {
					t.Errorf("%d rows of up to %d tokens, blocks of %d: bucket %+v for %d to %d tokens", rows, longest,
						blockSize, b, least, most)
				}
				if was, ok := ids[b.id()]; ok && was != b || b.id() < 1 {
					t.Errorf("id %d is that of %+v and of %+v", b.id(), was, b)
				}
				ids[b.id()] = b
			}
		}
	}
	for name, s := range map[string]*llm.Step{"a chunk": cudaStep()} {
		if b, ok := bucketFor(s, rowSizes, 256); ok {
			t.Errorf("%s has bucket %+v", name, b)
		}
	}
	one := &llm.Step{CuSeqlens: []int32{0}}
	addRow(one, CUDAOptions{MaxLen: 100, BlockSize: 256}, 5, 1)
	if _, ok := bucketFor(one, nil, 256); ok {
		t.Error("a bucket where there are no graphs")
	}
}

// The steps that Open measures are valid ones of a cache of one block.
func TestLargestSteps(t *testing.T) {
	for _, o := range []CUDAOptions{
		{Vocab: 10, MaxLen: 1000, BlockSize: 256, StepTokens: 2048, StepRows: 3},
		{Vocab: 10, MaxLen: 100_000, BlockSize: 64, StepTokens: 1024, StepRows: 128},
		{Vocab: 10, MaxLen: 2, BlockSize: 128, StepTokens: 1, StepRows: 1},
	} {
		prompts := 0
		for i, s := range largestSteps(o) {
			if err := checkStep(s, o.bounds(1)); err != nil {
				t.Errorf("step %d of %+v: %v", i, o, err)
			}
			prompts = max(prompts, len(s.Tokens))
		}
		if prompts != o.StepTokens+o.StepRows {
			t.Errorf("%d tokens, want %d and %d rows", prompts, o.StepTokens, o.StepRows)
		}
	}
}

func TestDeviceThread(t *testing.T) {
	d := newDeviceThread()
	defer d.end()
	func() {
		defer func() {
			if r := recover(); r != "boom" {
				t.Errorf("recovered %v", r)
			}
		}()
		d.do(func() { panic("boom") })
	}()
	ran := false
	d.do(func() { ran = true })
	if !ran {
		t.Error("nothing runs after a panic")
	}
}
