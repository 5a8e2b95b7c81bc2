package decoder

import (
	"cmp"
	"fmt"
	"io"

	"tgi/models"
	"tgi/models/hf"
	"tgi/models/onnx"
	"tgi/models/quant"
	"tgi/models/tensors"
	"tgi/models/vision/tower"
)

// versions are those of the graphs that this package builds. Increment a device's with every change
// of its graphs or of its weights' format: all its cached models are then converted again.
var versions = map[models.Device]int{models.CPU: 12, models.CUDA: 5}

// storedVersion is that of matrices that keep a checkpoint's integers, in place of an increment of all versions.
const storedVersion = 2

// Key describes, apart from the checkpoint, all that a build depends on. Equal keys and checkpoints
// give equal files. block is that of Options.
func Key(d models.Device, w models.Weights, block int) string {
	key := fmt.Sprintf("builder %d\nweights %s\n", versions[d], w)
	if block != 0 {
		key += fmt.Sprintf("block %d\n", block)
	}
	if w == models.Stored {
		key += fmt.Sprintf("stored %d\n", storedVersion)
	}
	if d != models.CPU { // whose key is older than the other devices
		key = fmt.Sprintf("device %s\n", d) + key
	}
	return key
}

// Names of a built model's files. The graph refers to DataFile by this name.
const (
	ModelFile = "model.onnx"
	DataFile  = "model.onnx.data"
)

// Options of Build.
type Options struct {
	// Device is where the graph will run; empty is the CPU.
	Device  models.Device
	Weights models.Weights
	// Block, if not 0, is how many weights of a row share a scale, instead of models.QuantBlock: 64 or 128, with Int8
	// and Int4 on the CPU.
	Block int
	// Progress, if set, is called as weights are written, with the number of parameters done
	// and in total.
	Progress func(done, total int64)
	// embeddings lets the graph take vectors in place of tokens, as those of models that read images do.
	embeddings bool
	// anySizes builds graphs with sizes of heads and experts that the operators do not take.
	anySizes bool
}

// Result of Build.
type Result struct {
	Arch   models.Arch
	Layout models.Layout
	// Model is the content of ModelFile, Adapted that of AdaptedFile; nil for models without adapters.
	Model, Adapted []byte
	// Vision is the graph of a vision tower, the content of tower.File; nil without one.
	Vision []byte
	// Stages is the graph of what is behind a pooled vector, the content of StagesFile; nil without it.
	Stages []byte
	// DataBytes is the size of what was written to the data file.
	DataBytes int64
	// Error is the error of the quantised weights; its Count is 0 if they are not quantised.
	Error quant.WeightError
}

// Build writes the weights of ck to data and returns the graph that refers to them. It fails,
// naming the tensor, if a tensor is missing, has another shape than the configuration says, or
// is not used by the architecture.
func Build(ck *hf.Checkpoint, data io.Writer, opt Options) (r Result, err error) {
	defer tensors.Guard(&err)()
	device := cmp.Or(opt.Device, models.CPU)
	t, err := newTarget(device, opt.Weights, ck.Config)
	if err == nil && !opt.anySizes {
		err = checkSizes(device, opt.Weights, &ck.Config)
	}
	if err == nil {
		err = t.setBlock(device, opt)
	}
	if err != nil {
		return Result{}, err
	}
	if opt.Weights == models.Stored && len(ck.Coded) == 0 {
		return Result{}, fmt.Errorf("weights %s: those of %s are not quantised, choose %s or %s", models.Stored, ck.Name,
			models.Int8, models.Int4)
	}
	src, err := newSource(ck)
	if err != nil {
		return Result{}, err
	}
	b := &builder{
		target: t, cfg: t.within(ck.Config), src: src, opt: opt,
		g:    onnx.New(ck.Name, DataFile),
		data: onnx.NewDataWriter(data),
	}
	sees := t.images && ck.Config.Vision != nil
	b.opt.embeddings = opt.embeddings || sees
	b.progress(0) // so that the beginning is told, before the first weight has taken its time
	b.graph()
	var vision []byte
	if sees && b.err == nil {
		vision, b.err = tower.Build(ck, DataFile, b.data)
	}
	var stages []byte
	if b.err == nil && b.cfg.Encoder != nil && len(b.cfg.Encoder.Stages) > 0 {
		stages, b.err = b.stages()
	}
	if err := b.data.Close(); b.err == nil {
		b.err = err
	}
	if b.err != nil {
		return Result{}, b.err
	}
	plain := b.g.Clone()
	plain.Fuse(gateFused)
	model, err := plain.Marshal("tgi", b.opsets...)
	if err != nil {
		return Result{}, fmt.Errorf("decoder: %w", err)
	}
	var adapted []byte
	if t.adapters {
		adapted, err = b.adapted().Marshal("tgi", b.adaptedOpsets()...)
		if err = cmp.Or(b.err, err); err != nil {
			return Result{}, fmt.Errorf("decoder: adapters: %w", err)
		}
	}
	c, width, tileRows := b.cfg, 0, 0
	if b.opt.embeddings {
		width = c.Hidden
	}
	if sees {
		tileRows = c.Vision.TileRows()
	}
	return Result{Model: model, Adapted: adapted, Vision: vision, Stages: stages, DataBytes: b.data.Size(),
		Error:  b.quantError,
		Layout: t.Layout,
		Arch: models.Arch{
			Name: ck.Name, Architecture: c.Architecture, Layers: c.Layers, Heads: c.Heads, KVHeads: c.KVHeads,
			HeadDim: c.HeadDim, Vocab: c.Vocab,
			Latent: c.Latent.Rank != 0, MaxPositions: c.MaxPositions,
			OriginalPositions: c.OriginalPositions, Params: src.params,
			Width: width, TileRows: tileRows, Places: b.places(), KeyEnds: b.keyEnds(),
		}}, nil
}

// builder holds one build. After the first error, which is kept, its methods do nothing.
type builder struct {
	target
	cfg  hf.Config
	src  *source
	opt  Options
	g    *onnx.Graph
	data *onnx.DataWriter
	// products are where adapters may add.
	products []linearNode
	// table is the embedding, if the head is tied to it.
	table      matrix
	quantError quant.WeightError
	// wide, scales and bytes are scratch buffers for weights.
	wide, scales []float32
	bytes        []byte
	done         int64
	err          error
}

func (b *builder) fail(err error) {
	if b.err == nil {
		b.err = err
	}
}

// forgetEvery is after how many parameters the memory of those that were read is given back: without that, a mapped
// checkpoint fills the memory that the process may have, page by page.
const forgetEvery = 32 << 20

// progress counts parameters as they are written.
func (b *builder) progress(n int) {
	if before := b.done; before/forgetEvery != (before+int64(n))/forgetEvery {
		b.src.set.Forget()
	}
	b.done += int64(n)
	if b.opt.Progress != nil {
		b.opt.Progress(b.done, b.src.params)
	}
}
