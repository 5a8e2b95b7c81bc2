package report

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"tgi/models"
	"tgi/models/hf"
	"tgi/runtime/llm"
	"tgi/runtime/ort"
)

// aims are tokens a second of decoding with CUDA graphs at 1,024 tokens of context that are hoped for on an H200. They
// are printed, and not judged.
var aims = []struct {
	shape   string
	weights models.Weights
	rows    int
	tokens  float64
}{{"llama3.1-8b", models.BF16, 1, 170}, {"llama3.1-8b", models.Int4, 1, 400}, {"llama3.1-8b", models.BF16, 64, 6000}}

// speed times steps.
func (r *report) speed() error {
	r.line("Steps of the backend alone, with %d tokens in the cache of each row; the logits of each row are copied to "+
		"the host. Limit: tokens/s if a step took no longer than the device needs to read the weights and the cache once. "+
		"Share: of the memory's bandwidth.\n", r.o.Context)
	r.line("| model | weights | step | rows | ms | tokens/s | limit | GB/s | share | aim |\n" +
		"|---|---|---|---|---|---|---|---|---|---|")
	for _, name := range r.o.Shapes {
		for _, w := range r.o.Timed {
			if r.over("speed", "%s in %s, and what follows", r.called(name), w) {
				return nil
			}
			began := time.Now()
			if err := r.shape(name, w); err != nil {
				return fmt.Errorf("%s in %s: %w", r.called(name), w, err)
			}
			r.note("%s in %s took %.0f s, to write and build included", r.called(name), w, time.Since(began).Seconds())
		}
	}
	for _, n := range r.notes {
		r.line("\n- %s", n)
	}
	return nil
}

// note keeps a remark for the end of the part, which a table has in its middle.
func (r *report) note(format string, args ...any) {
	r.notes = append(r.notes, fmt.Sprintf(format, args...))
}

// timed is a model that is timed.
type timed struct {
	*ort.CUDA
	name  string
	built models.Built
	// read is how many bytes of weights a step reads.
	read float64
}

// shape times one model in one format.
func (r *report) shape(name string, w models.Weights) error {
	dir, err := folder(name)
	if err != nil {
		return err
	}
	built, err := r.build(dir, models.CUDA, w)
	if err != nil {
		return err
	}
	read, err := weightsRead(dir, built)
	if err != nil {
		return err
	}
	rows, prompt := slices.Max(r.o.Rows), slices.Max(r.o.Prompts)
	blocks := max(rows*r.perRow(built), prompt/built.BlockSize+2)
	o := r.options(built, blocks, prompt, rows)
	o.Graphs = r.o.Rows
	began := time.Now()
	m, err := ort.OpenCUDA(o)
	if err != nil {
		return err
	}
	t := timed{CUDA: m, name: r.called(name), built: built, read: read}
	kernels := ""
	if w.Quantised() {
		kernels = map[bool]string{true: ", fpA_intB kernels", false: ", default kernels"}[m.MixedGEMM()]
	}
	r.note("%s in %s opened in %.1f s%s", t.name, w, time.Since(began).Seconds(), kernels)
	err = r.steps(t)
	mixed := m.MixedGEMM()
	m.Close()
	if err != nil || !mixed {
		return err
	}
	return r.plainKernels(t, o)
}

// perRow is how many blocks a row of the timed steps takes.
func (r *report) perRow(b models.Built) int { return r.o.Context/b.BlockSize + 2 }

// steps times all steps of a model.
func (r *report) steps(t timed) error {
	rows := func(name string, run func(*llm.Step) ([]float32, error)) error {
		for _, n := range r.o.Rows {
			if err := r.decode(t, name, n, run); err != nil {
				return err
			}
		}
		return nil
	}
	if err := rows("decode, graph", t.Forward); err != nil {
		return err
	}
	for _, n := range r.o.Prompts {
		if r.over("speed", "%s in %s, prompts of %d tokens", t.name, t.built.Weights, n) {
			continue
		}
		took, err := r.times(t.Forward, promptStep(t.CUDA, n))
		if err != nil {
			return err
		}
		r.line("| %s | %s | first token of %d | 1 | %.1f | %.0f | | | | |", t.name, t.built.Weights, n,
			took.Seconds()*1e3, float64(n)/took.Seconds())
	}
	return rows("decode, eager", t.Eager) // what matters least comes last
}

// plainKernels times a quantised model with the kernels that it gets without the option.
func (r *report) plainKernels(t timed, o ort.CUDAOptions) (err error) {
	if r.over("speed", "%s in %s with the default kernels", t.name, t.built.Weights) {
		return nil
	}
	o.MixedGEMM = false
	if t.CUDA, err = ort.OpenCUDA(o); err != nil {
		return err
	}
	defer t.Close()
	for _, n := range r.o.Rows {
		if err := r.decode(t, "decode, graph, default kernels", n, t.Forward); err != nil {
			return err
		}
	}
	return nil
}

// decode times one size of decoding steps.
func (r *report) decode(t timed, what string, n int, run func(*llm.Step) ([]float32, error)) error {
	w := t.built.Weights
	if r.over("speed", "%s in %s, %s of %d rows", t.name, w, what, n) {
		return nil
	}
	if need := n * r.perRow(t.built); need > t.Blocks() {
		r.line("| %s | %s | %s | %d | the cache has %d blocks, %d are needed | | | | | |", t.name, w, what, n,
			t.Blocks(),
			need)
		return nil
	}
	took, err := r.times(run, decodeStep(t.CUDA, n, r.o.Context))
	if err != nil {
		return err
	}
	read := t.read + float64(n*r.o.Context)*float64(t.built.CacheBytesPerToken())
	perSecond, tokens := read/took.Seconds(), float64(n)/took.Seconds()
	limit, share := "?", "?"
	if most, _ := bandwidth(r.o.Device); most > 0 {
		limit, share = fmt.Sprintf("%.0f", float64(n)*most/read), fmt.Sprintf("%.0f %%", 100*perSecond/most)
	}
	r.line("| %s | %s | %s | %d | %.2f | %.0f | %s | %.0f | %s | %s |", t.name, w, what, n, took.Seconds()*1e3, tokens,
		limit, perSecond/1e9, share, aim(t, what, n, tokens))
	return nil
}

// aim says how a figure compares with the one hoped for, if there is one.
func aim(t timed, what string, rows int, tokens float64) string {
	for _, a := range aims {
		if a.shape == t.name && a.weights == t.built.Weights && a.rows == rows && strings.HasSuffix(what, "graph") {
			return fmt.Sprintf("%.0f on an H200: %s", a.tokens, map[bool]string{true: "reached",
				false: "not reached"}[tokens >=
				a.tokens])
		}
	}
	return ""
}

// weightsRead is how many bytes of weights a step reads: all, but an embedding that is not the output head too, of
// which it reads a row for each token.
func weightsRead(dir string, b models.Built) (float64, error) {
	ck, err := hf.Open(dir)
	if err != nil {
		return 0, err
	}
	defer ck.Close()
	if ck.Config.Tied {
		return float64(b.WeightBytes), nil
	}
	perWeight := map[models.Weights]float64{models.Int8: 1 + 2.0/32, models.Int4: 0.5 + 2.0/32}[b.Weights]
	if perWeight == 0 {
		perWeight = 2
	}
	return float64(b.WeightBytes) - perWeight*float64(ck.Config.Vocab)*float64(ck.Config.Hidden), nil
}
