package report

import (
	"math/rand/v2"
	"reflect"

	"tgi/models"
	"tgi/runtime/llm"
	"tgi/runtime/ort"
	"tgi/runtime/reduce"
)

// questions is how many reductions of rows are compared for a model.
const questions = 200

// sampling holds what the device makes of rows of logits against the reference in Go, on the very rows that it fetches.
// Both must have the same bits.
func (r *report) sampling() error {
	for _, folder := range r.o.Checkpoints {
		if r.over("sampling", "%s, and what follows", r.called(folder)) {
			return nil
		}
		if err := r.reductions(folder); err != nil {
			return err
		}
	}
	return nil
}

// reductions compares those of one model.
func (r *report) reductions(folder string) error {
	built, err := r.build(folder, models.CUDA, r.o.Formats[0])
	if err != nil {
		return err
	}
	const tokens = 12
	m, err := r.onDevice(built, 4, tokens, tokens, nil)
	if err != nil {
		return err
	}
	defer m.Close()
	if err := m.Reduces(); err != nil {
		r.line("- %s: the device does not take the kernel (%v): %s", r.called(folder), err,
			r.holds(false, "the kernel is refused: %v", err))
		return nil
	}
	same, err := sameReductions(m, tokens)
	if err != nil {
		return err
	}
	r.line("- %s: %d of %d reductions are those of the reference: %s", r.called(folder), same, questions,
		r.holds(same == questions, "%s: %d of %d reductions differ", r.called(folder), questions-same, questions))
	return nil
}

// sameReductions asks random questions about the rows of a step and counts the answers that equal the reference's.
func sameReductions(m *ort.CUDA, tokens int) (same int, err error) {
	s := promptStep(m, tokens)
	var rows []int
	s.LogitRows = s.LogitRows[:0]
	for i := range tokens {
		s.LogitRows, rows = append(s.LogitRows, int32(i)), append(rows, i)
	}
	if err := m.Compute(s); err != nil {
		return 0, err
	}
	rng := rand.New(rand.NewPCG(3, 4))
	list := make([]llm.Reduction, questions)
	for i := range list {
		list[i] = question(rng, rng.IntN(tokens), m.Vocab())
	}
	logits, answers, err := m.Fetch(rows, list)
	if err != nil {
		return 0, err
	}
	for i := range list {
		row := logits[list[i].Row*m.Vocab():][:m.Vocab()]
		if reflect.DeepEqual(answers[i], reduce.Row(row, &list[i])) {
			same++
		}
	}
	return same, nil
}

// question asks for a random reduction of a row.
func question(rng *rand.Rand, row, vocab int) llm.Reduction {
	scales := []float32{1, 0.5, 1.25, 10}
	q := llm.Reduction{Row: row, Scale: scales[rng.IntN(len(scales))], Draw: llm.NoDraw, Raw: rng.IntN(2) == 0}
	if rng.IntN(2) == 0 {
		q.Draw = rng.Float64()
	}
	if rng.IntN(2) == 0 {
		q.Mask = make([]uint32, (vocab+31)/32)
		for i := range q.Mask {
			q.Mask[i] = rng.Uint32() | 1
		}
	}
	for kind := range llm.EditKind(2) {
		var pairs []llm.Edit
		for _, t := range rng.Perm(vocab)[:rng.IntN(min(vocab, 100))] {
			pairs = append(pairs, llm.Edit{Token: llm.Token(t), Value: 0.5 + rng.Float32()})
		}
		q.Edits = append(q.Edits, llm.Edits{Kind: kind, Pairs: pairs})
	}
	return q
}
