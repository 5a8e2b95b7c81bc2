package compare

import (
	"math/rand/v2"

	"tgi/runtime/llm"
)

// Logits of several sequences: [sequence][token][vocab].
type Logits [][][]float32

// Run plays sequences on a backend in one way and returns the logits of every token. The backend's cache must hold
// all of them twice at once, with one block more for each; its content is overwritten, first with other tokens.
type Run func(b Backend, sequences [][]llm.Token) (Logits, error)

// Alone plays each sequence by itself, in one step.
func Alone(b Backend, sequences [][]llm.Token) (Logits, error) {
	c, err := dirty(b, sequences)
	if err != nil {
		return nil, err
	}
	var all Logits
	for _, tokens := range sequences {
		out, err := c.step([]*row{{}}, [][]llm.Token{tokens})
		if err != nil {
			return nil, err
		}
		all = append(all, out[0])
	}
	return all, nil
}

// Tokens plays each sequence by itself, a token a step: what decoding is.
func Tokens(b Backend, sequences [][]llm.Token) (Logits, error) {
	c, err := dirty(b, sequences)
	if err != nil {
		return nil, err
	}
	var all Logits
	for _, tokens := range sequences {
		var logits [][]float32
		q := &row{}
		for i := range tokens {
			out, err := c.step([]*row{q}, [][]llm.Token{tokens[i : i+1]})
			if err != nil {
				return nil, err
			}
			logits = append(logits, out[0]...)
		}
		all = append(all, logits)
	}
	return all, nil
}

// Decode plays the first half of each sequence alone, and the second halves together, a token of each a step; rows
// that are done leave the batch.
func Decode(b Backend, sequences [][]llm.Token) (Logits, error) {
	c, err := dirty(b, sequences)
	if err != nil {
		return nil, err
	}
	all := make(Logits, len(sequences))
	rows := make([]*row, len(sequences))
	for i, tokens := range sequences {
		rows[i] = &row{}
		if half := tokens[:len(tokens)/2]; len(half) > 0 {
			out, err := c.step(rows[i:i+1], [][]llm.Token{half})
			if err != nil {
				return nil, err
			}
			all[i] = out[0]
		}
	}
	return all, c.together(sequences, rows, all, func(int, int) int { return 1 })
}

// Ragged returns a run that plays all sequences together: in each step some of those that are left, in an order of
// its own, each with a piece of random length. The seed decides.
func Ragged(seed uint64) Run {
	return func(b Backend, sequences [][]llm.Token) (Logits, error) {
		rng := rand.New(rand.NewPCG(seed, 1))
		rows := make([]*row, len(sequences))
		for i := range rows {
			rows[i] = &row{}
		}
		c, err := dirty(b, sequences)
		if err != nil {
			return nil, err
		}
		all := make(Logits, len(sequences))
		return all, c.together(sequences, rows, all, func(place, left int) int {
			switch rng.IntN(4) {
			case 0:
				return 1 - min(place, 1) // none, but one of the first row: a step has tokens
			case 1:
				return 1
			}
			return 1 + rng.IntN(left)
		})
	}
}

// together plays what is left of the sequences, all in each step. piece says how many of a row's left tokens a step
// takes, also none, but not of the first row that is left.
func (c *cache) together(sequences [][]llm.Token, rows []*row, all Logits, piece func(place, left int) int) error {
	for {
		var in []int // the sequences of the step
		var tokens [][]llm.Token
		var step []*row
		place := 0
		for i, q := range rows {
			left := sequences[i][q.length:]
			if len(left) == 0 {
				continue
			}
			n := piece(place, len(left))
			if place++; n > 0 {
				in, step, tokens = append(in, i), append(step, q), append(tokens, left[:n])
			}
		}
		if place == 0 {
			return nil
		}
		out, err := c.step(step, tokens)
		if err != nil {
			return err
		}
		for k, i := range in {
			all[i] = append(all[i], out[k]...)
		}
	}
}

// Forked plays each sequence with a twin that leaves it after a third of the tokens: the twin shares the full blocks
// and has a copy of the last one, goes on with other tokens, and must leave no trace in what the sequence computes.
func Forked(b Backend, sequences [][]llm.Token) (Logits, error) {
	c, err := dirty(b, sequences)
	if err != nil {
		return nil, err
	}
	all := make(Logits, len(sequences))
	for i, tokens := range sequences {
		q, third := &row{}, (len(tokens)+2)/3
		head, tail := tokens[:third], tokens[third:]
		out, err := c.step([]*row{q}, [][]llm.Token{head})
		if err != nil {
			return nil, err
		}
		all[i] = out[0]
		if len(tail) == 0 {
			continue
		}
		twin, err := c.fork(q)
		if err != nil {
			return nil, err
		}
		other := make([]llm.Token, len(tail))
		for k, t := range tail {
			other[k] = (t + 1) % llm.Token(b.Vocab())
		}
		// The twin writes first; then the original goes on as the twin of the twin.
		if _, err := c.step([]*row{q}, [][]llm.Token{other}); err != nil {
			return nil, err
		}
		if out, err = c.step([]*row{twin}, [][]llm.Token{tail}); err != nil {
			return nil, err
		}
		all[i] = append(all[i], out[0]...)
	}
	return all, nil
}
