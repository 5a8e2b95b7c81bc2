package decoder

import (
	"fmt"
	"io"

	"tgi/models"
	"tgi/models/hf"
	"tgi/models/onnx"
	"tgi/models/quant"
)

// Version is the version of the graph that this package builds. It is part of the cache key:
// increment it with every change of the graph or of the weights' format.
const Version = 2

// Names of a built model's files. The graph refers to DataFile by this name.
const (
	ModelFile = "model.onnx"
	DataFile  = "model.onnx.data"
)

// Options of Build.
type Options struct {
	Weights models.Weights
	// Progress, if set, is called as weights are written, with the number of parameters done
	// and in total.
	Progress func(done, total int64)
	// exact makes quantised products compute in 32 bits, so that tests can distinguish packing
	// errors from the rounding of activations.
	exact bool
}

// Result of Build.
type Result struct {
	Arch models.Arch
	// Model is the content of ModelFile.
	Model []byte
	// DataBytes is the size of what was written to the data file.
	DataBytes int64
	// Error is the error of the quantised weights; its Count is 0 for fp32.
	Error quant.WeightError
}

// Build writes the weights of ck to data and returns the graph that refers to them. It fails,
// naming the tensor, if a tensor is missing, has another shape than the configuration says, or
// is not used by the architecture.
func Build(ck *hf.Checkpoint, data io.Writer, opt Options) (Result, error) {
	if _, err := models.ParseWeights(string(opt.Weights)); err != nil {
		return Result{}, err
	}
	src, err := newSource(ck)
	if err != nil {
		return Result{}, err
	}
	b := &builder{
		cfg: ck.Config, src: src, opt: opt,
		g:    onnx.New(ck.Name, DataFile),
		data: onnx.NewDataWriter(data),
	}
	b.graph()
	if err := b.data.Close(); b.err == nil {
		b.err = err
	}
	if b.err != nil {
		return Result{}, b.err
	}
	model, err := b.g.Marshal("tgi", onnx.Opset{Version: 21}, onnx.Opset{Domain: microsoftDomain, Version: 1},
		onnx.Opset{Domain: tgiDomain, Version: 1})
	if err != nil {
		return Result{}, fmt.Errorf("decoder: %w", err)
	}
	c := ck.Config
	return Result{Model: model, DataBytes: b.data.Size(), Error: b.quantError, Arch: models.Arch{
		Name: ck.Name, Architecture: c.Architecture, Layers: c.Layers, Heads: c.Heads, KVHeads: c.KVHeads,
		HeadDim: c.HeadDim, Vocab: c.Vocab, MaxPositions: c.MaxPositions, Params: src.params,
	}}, nil
}

// builder holds one build. After the first error, which is kept, its methods do nothing.
type builder struct {
	cfg  hf.Config
	src  *source
	opt  Options
	g    *onnx.Graph
	data *onnx.DataWriter
	// table is the embedding, if the head is tied to it.
	table      matrix
	quantError quant.WeightError
	// wide and bytes are scratch buffers for weights.
	wide  []float32
	bytes []byte
	done  int64
	err   error
}

func (b *builder) fail(err error) {
	if b.err == nil {
		b.err = err
	}
}

// progress counts parameters as they are written.
func (b *builder) progress(n int) {
	b.done += int64(n)
	if b.opt.Progress != nil {
		b.opt.Progress(b.done, b.src.params)
	}
}
