package embed

import (
	"math"
	"slices"
)

// Sparse makes of the scores that each token of a text has for all tokens of the vocabulary one vector (SPLADE, Formal
// et al. 2021): log(1+max(0, x)) of each score, and the largest of all tokens.
type Sparse struct {
	// Sum adds up the tokens' numbers instead.
	Sum bool
	// Twice takes the logarithm twice.
	Twice bool
}

// sparseRows is how many tokens' scores are in memory at once.
const sparseRows = 32

// pool returns the vector of a text whose tokens have vectors of width numbers; scores gives the n*out scores of n.
func (s *Sparse) pool(tokens []float32, width, out int, scores func(part []float32, n int) ([]float32, error)) (
	[]float32, error) {
	v := make([]float32, out)
	for part := range slices.Chunk(tokens, sparseRows*width) {
		all, err := scores(part, len(part)/width)
		if err != nil {
			return nil, err
		}
		for row := range slices.Chunk(all, out) {
			for i, x := range row {
				switch {
				case s.Sum:
					v[i] += s.activate(x)
				case x > v[i]:
					v[i] = x
				}
			}
		}
	}
	if !s.Sum { // the logarithm keeps the order
		for i, x := range v {
			v[i] = s.activate(x)
		}
	}
	return v, nil
}

// activate is the activation.
func (s *Sparse) activate(x float32) float32 {
	y := math.Log1p(float64(max(0, x)))
	if s.Twice {
		y = math.Log1p(y)
	}
	return float32(y)
}
