package report

import (
	"math/rand/v2"
	"slices"
	"time"

	"tgi/runtime/llm"
	"tgi/runtime/ort"
)

// times returns the median time of a step that forward runs.
func (r *report) times(forward func(*llm.Step) ([]float32, error), s *llm.Step) (time.Duration, error) {
	for range 2 { // the first runs record graphs and choose kernels
		if _, err := forward(s); err != nil {
			return 0, err
		}
	}
	var all []time.Duration
	for began := time.Now(); len(all) < 3 || time.Since(began) < r.o.For; {
		from := time.Now()
		if _, err := forward(s); err != nil {
			return 0, err
		}
		all = append(all, time.Since(from))
	}
	slices.Sort(all)
	return max(all[len(all)/2], time.Nanosecond), nil
}

// decodeStep is a step of rows with one random token each, after past tokens.
func decodeStep(m *ort.CUDA, rows, past int) *llm.Step {
	rng := rand.New(rand.NewPCG(1, uint64(rows)))
	size := m.BlockSize()
	s := &llm.Step{CuSeqlens: []int32{0}, MaxBlocks: past/size + 1}
	for row := range rows {
		first := int32(row * s.MaxBlocks)
		for b := range s.MaxBlocks {
			s.BlockTable = append(s.BlockTable, first+int32(b))
		}
		s.Tokens = append(s.Tokens, llm.Token(rng.IntN(m.Vocab())))
		s.PastLens = append(s.PastLens, int32(past))
		s.CuSeqlens = append(s.CuSeqlens, int32(row+1))
		s.SlotMapping = append(s.SlotMapping, (first+int32(past/size))*int32(size)+int32(past%size))
		s.LogitRows = append(s.LogitRows, int32(row))
	}
	return s
}

// promptStep is a step of one prompt of random tokens.
func promptStep(m *ort.CUDA, tokens int) *llm.Step {
	rng := rand.New(rand.NewPCG(2, uint64(tokens)))
	s := &llm.Step{CuSeqlens: []int32{0, int32(tokens)}, PastLens: []int32{0}, LogitRows: []int32{int32(tokens - 1)},
		MaxBlocks: (tokens + m.BlockSize() - 1) / m.BlockSize()}
	for b := range s.MaxBlocks {
		s.BlockTable = append(s.BlockTable, int32(b))
	}
	for i := range tokens {
		s.Tokens = append(s.Tokens, llm.Token(rng.IntN(m.Vocab())))
		s.SlotMapping = append(s.SlotMapping, int32(i))
	}
	return s
}
