package quant

import "fmt"

// Model runs one sequence on a backend.
type Model interface {
	// Logits appends tokens to the sequence and returns the logits of each of
	// them, [len(tokens)*vocab]. The slice is valid until the next call.
	Logits(tokens []uint32) ([]float32, error)
}

// comparePiece limits the tokens of one call, and so the logits in memory.
const comparePiece = 16

// Compare runs two models on the same tokens and measures how far their predictions agree.
// vocab is the width of both models' logits.
func Compare(reference, quantised Model, tokens []uint32, vocab int) (*Agreement, error) {
	a := &Agreement{}
	for len(tokens) > 0 {
		piece := tokens[:min(comparePiece, len(tokens))]
		tokens = tokens[len(piece):]
		want, err := reference.Logits(piece)
		if err != nil {
			return nil, fmt.Errorf("quant: reference: %w", err)
		}
		got, err := quantised.Logits(piece)
		if err != nil {
			return nil, fmt.Errorf("quant: quantised: %w", err)
		}
		if n := len(piece) * vocab; len(want) != n || len(got) != n {
			return nil, fmt.Errorf("quant: %d and %d logits for %d tokens of %d", len(want), len(got), len(piece),
				vocab)
		}
		for i := range piece {
			if err := a.Add(want[i*vocab:(i+1)*vocab], got[i*vocab:(i+1)*vocab]); err != nil {
				return nil, err
			}
		}
	}
	return a, nil
}
