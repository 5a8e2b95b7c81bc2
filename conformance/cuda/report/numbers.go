package report

import (
	"fmt"

	"tgi/conformance/cuda/compare"
	"tgi/models"
	"tgi/runtime/llm"
)

// longest is the length of the longest sequence that is compared: over several cache blocks of each size. Smaller
// models end before it.
const longest = 600

// rounding bounds the relative error of a token's logits against the CPU's in 32 bits, on average: what rounding of
// activations and weights makes of small random models. Logits that have nothing to do with the CPU's are at 1 or more.
var rounding = map[models.Weights]float64{models.BF16: 0.05, models.FP16: 0.01, models.Int8: 0.1, models.Int4: 0.6}

// batching bounds how far the same tokens may be computed apart in another batch: products of other sizes add in
// another order.
const batching = 0.05

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

// numbers compares logits.
func (r *report) numbers() error {
	r.line("Relative error of a token's logits: average, worst; share of tokens with the same likeliest next one.\n")
	r.line("| model | weights | against | average | worst | likeliest | |\n|---|---|---|---|---|---|---|")
	for _, folder := range r.o.Checkpoints {
		for _, w := range r.o.Formats {
			if r.over("logits", "%s in %s, and what follows", r.called(folder), w) {
				return nil
			}
			if err := r.model(folder, w); err != nil {
				return fmt.Errorf("%s in %s: %w", r.called(folder), w, err)
			}
		}
	}
	return nil
}

// model compares one checkpoint in one format.
func (r *report) model(folder string, w models.Weights) error {
	reference, err := r.build(folder, models.CPU, models.FP32)
	if err != nil {
		return err
	}
	built, err := r.build(folder, models.CUDA, w)
	if err != nil {
		return err
	}
	length := min(longest, built.MaxPositions)
	sequences, want, err := onReference(reference, built.BlockSize, length)
	if err != nil {
		return err
	}
	blocks := len(sequences) * (length/built.BlockSize + 2) * 2
	eager, err := r.onDevice(built, blocks, length, len(sequences), nil)
	if err != nil {
		return err
	}
	alone, err := compare.Alone(eager, sequences)
	if err == nil {
		err = r.row(folder, w, "the CPU in 32 bits", alone, want, rounding[w])
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

// onReference plays random sequences for caches of a block size on the CPU.
func onReference(b models.Built, blockSize, length int) ([][]llm.Token, compare.Logits, error) {
	sequences := compare.Sequences(b.Vocab, blockSize, length, 1)
	cpu, err := onCPU(b, (length/b.BlockSize+2)*len(sequences)*2)
	if err != nil {
		return nil, nil, err
	}
	defer cpu.Close()
	want, err := compare.Alone(cpu, sequences)
	return sequences, want, err
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
