package report

import (
	"tgi/conformance/cuda/compare"
	"tgi/models"
	"tgi/models/decoder"
	"tgi/models/hf"
)

// longest is the length of the longest sequence that is compared: over several cache blocks of each size. Smaller
// models end before it.
const longest = 600

// rounding bounds the relative error of a token's logits against 32 bits, on average: what rounding of activations, and
// of weights to 16 bits, makes of small random models. Logits that have nothing to do with those are at 1 or more.
// Mixtures can be above it and right: where two experts' scores are as good as equal, rounding chooses another one, and
// that token is far off. The median of a failure tells them apart.
var rounding = map[models.Weights]float64{models.BF16: 0.05, models.FP16: 0.01, models.Int8: 0.02, models.Int4: 0.02}

// batching bounds how far the same tokens may be computed apart in another batch: products of other sizes add in
// another order.
const batching = 0.05

// Names of what logits are compared with. Where weights are integers, the CPU has the same ones, as 32-bit floats.
const (
	inFloats  = "the CPU in 32 bits"
	inPyTorch = "transformers in 32 bits"
)

// sameWay are the ways to play sequences that must give what each gives alone.
var sameWay = []struct {
	name string
	run  compare.Run
}{
	{"token by token", compare.Tokens},
	{"decoding together", compare.Decode},
	{"ragged batches", compare.Ragged(1)},
	{"forks and shared blocks", compare.Forked},
}

// numbers compares logits. A checkpoint that cannot be had in a format is named, and one that fails does not end the
// others.
func (r *report) numbers() error {
	if r.o.Note != "" {
		r.line("%s\n", r.o.Note)
	}
	r.line("Relative error of a token's logits: average, worst; share of tokens with the same likeliest next one. In " +
		"32 bits weights that are integers on the device have the same values.\n")
	r.line("| model | weights | against | average | worst | likeliest | |\n|---|---|---|---|---|---|---|")
	for _, w := range r.o.Formats {
		for _, folder := range r.o.Checkpoints {
			if r.over("logits", "%s in %s, and what follows", r.called(folder), w) {
				return nil
			}
			ck, err := hf.Describe(folder)
			if err != nil {
				return err
			}
			if err := decoder.Check(models.CUDA, w, ck.Config); err != nil {
				r.line("| %s | %s | refused: %v | | | | |", r.called(folder), w, err)
				continue
			}
			if err := r.model(folder, w); err != nil {
				r.line("| %s | %s | %v | | | | %s |", r.called(folder), w, err,
					r.holds(false, "%s in %s: %v", r.called(folder), w, err))
			}
		}
	}
	return nil
}

// model compares one checkpoint in one format.
func (r *report) model(folder string, w models.Weights) error {
	built, err := r.build(folder, models.CUDA, w)
	if err != nil {
		return err
	}
	length := min(longest, built.MaxPositions)
	reference, err := r.reference(folder, w, built.BlockSize, length)
	if err != nil {
		return err
	}
	sequences := reference.sequences
	blocks := len(sequences) * (length/built.BlockSize + 2) * 2
	eager, err := r.onDevice(built, blocks, length, len(sequences), nil)
	if err != nil {
		return err
	}
	alone, err := compare.Alone(eager, sequences)
	if err == nil {
		err = r.row(folder, w, inFloats, alone, reference.want, rounding[w])
	}
	if err == nil && !w.Quantised() {
		err = r.transformers(eager, folder, w, length)
	}
	for _, way := range sameWay {
		var got compare.Logits
		if err == nil {
			got, err = way.run(eager, sequences)
		}
		if err == nil {
			err = r.row(folder, w, way.name, got, alone, batching)
		}
	}
	together, err2 := compare.Decode(eager, sequences)
	eager.Close()
	if err != nil || err2 != nil {
		return firstOf(err, err2)
	}
	graphs, err := r.onDevice(built, blocks, length, len(sequences), []int{4, len(sequences)})
	if err != nil {
		return err
	}
	defer graphs.Close()
	got, err := compare.Decode(graphs, sequences)
	if err != nil {
		return err
	}
	return r.row(folder, w, "CUDA graphs", got, together, batching)
}

// transformers compares with what lies beside a checkpoint, if anything does.
func (r *report) transformers(m compare.Backend, folder string, w models.Weights, longest int) error {
	golden, err := theirs(folder, longest, m.Vocab())
	if err != nil || len(golden.sequences) == 0 {
		return err
	}
	got, err := compare.Alone(m, golden.sequences)
	if err != nil {
		return err
	}
	return r.row(folder, w, inPyTorch, got, golden.want, rounding[w])
}

// row adds one comparison to the table; most is the bound of the average error.
func (r *report) row(folder string, w models.Weights, against string, got, want compare.Logits, most float64) error {
	d, err := compare.Of(got, want)
	if err != nil {
		return err
	}
	r.line("| %s | %s | %s | %.2g | %.2g | %.1f %% | %s |", r.called(folder), w, against, d.Mean, d.Worst, 100*d.Top1,
		r.numbersHold(d.Mean <= most, "%s in %s against %s: %v", r.called(folder), w, against, d))
	return nil
}

func firstOf(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}
