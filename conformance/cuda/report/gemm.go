package report

import (
	"fmt"
	"slices"

	"tgi/conformance/cuda/compare"
	"tgi/models"
	"tgi/runtime/llm"
	"tgi/runtime/ort"
)

// kernels bounds how far both kinds of kernels for quantised weights may be apart: they round the same sums.
const kernels = 0.02

// gemm compares the kernels that multiply integers by floats themselves with the default ones.
func (r *report) gemm() error {
	r.line("| weights | against | average | worst | likeliest | |\n|---|---|---|---|---|---|")
	for _, w := range r.o.Formats {
		if !w.Quantised() {
			continue
		}
		if r.over("int4", "%s", w) {
			return nil
		}
		if err := r.bothKernels(w); err != nil {
			return fmt.Errorf("%s: %w", w, err)
		}
	}
	for _, n := range r.notes {
		r.line("\n- %s", n)
	}
	return nil
}

// bothKernels compares those of one format on the demo model.
func (r *report) bothKernels(w models.Weights) error {
	built, err := r.build(r.o.Demo, models.CUDA, w)
	if err != nil {
		return err
	}
	length := min(longest, built.MaxPositions)
	reference, err := r.reference(r.o.Demo, w, built.BlockSize, length)
	if err != nil {
		return err
	}
	sequences, want := reference.sequences, reference.want
	o := r.options(built, len(sequences)*(length/built.BlockSize+2)*2, length, len(sequences))
	mixed, took, used, err := r.played(o, sequences)
	if err != nil {
		return err
	}
	mark := r.holds(used, "%s: the fpA_intB kernels are refused for the demo model", w)
	r.note("%s: fpA_intB kernels used: %s", w, mark)
	o.MixedGEMM = false
	plain, plainTook, _, err := r.played(o, sequences)
	if err != nil {
		return err
	}
	for _, c := range []struct {
		against   string
		got, want compare.Logits
		most      float64
	}{{"fpA_intB to default kernels", mixed, plain, kernels}, {"fpA_intB to the CPU in 32 bits", mixed, want,
		rounding[w]},
		{"default kernels to the CPU in 32 bits", plain, want, rounding[w]}} {
		d, err := compare.Of(c.got, c.want)
		if err != nil {
			return err
		}
		r.line("| %s | %s | %.2g | %.2g | %.1f %% | %s |", w, c.against, d.Mean, d.Worst, 100*d.Top1,
			r.numbersHold(d.Mean <= c.most, "%s, %s: %v", w, c.against, d))
	}
	for i, n := range gemmRows {
		r.note("%s, a step of %d rows: fpA_intB %.3f ms, default %.3f ms", w, n, 1e3*took[i], 1e3*plainTook[i])
	}
	return nil
}

// gemmRows are the sizes of steps that are timed.
var gemmRows = []int{1, 8, 32}

// played returns what a model makes of sequences, how many seconds its steps take, and whether it uses kernels of their
// own for quantised weights.
func (r *report) played(o ort.CUDAOptions, sequences [][]llm.Token) (compare.Logits, []float64, bool, error) {
	o.StepRows = max(o.StepRows, slices.Max(gemmRows))
	o.MaxBlocks = max(o.MaxBlocks, 2*slices.Max(gemmRows))
	m, err := ort.OpenCUDA(o)
	if err != nil {
		return nil, nil, false, err
	}
	defer m.Close()
	logits, err := compare.Alone(m, sequences)
	if err != nil {
		return nil, nil, false, err
	}
	var seconds []float64
	for _, n := range gemmRows {
		took, err := r.times(m.Forward, decodeStep(m, n, 1))
		if err != nil {
			return nil, nil, false, err
		}
		seconds = append(seconds, took.Seconds())
	}
	return logits, seconds, m.MixedGEMM(), nil
}
