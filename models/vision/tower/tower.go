// Package tower builds the graph that turns a tile of a picture into embeddings of a text model: a vision tower (SigLIP
// or CLIP), and what connects it to the text model. It computes what the classes of Python's transformers 5.23 do.
//
// Input tiles has the dimensions [1, 3, side, side]; a picture is computed tile by tile, which bounds the memory. Input
// rows chooses among the rows that the tile has, and behind them, for LLaVA-NeXT, the row that ends a line of patches.
// Output features is [rows, width of the text model]. All numbers are 32-bit floats; the operators are ONNX's and
// com.microsoft's, so that every device can run it.
//
// The tower of Qwen2.5-VL takes a whole picture, patch by patch, and its other inputs are those that package vision
// names.
package tower

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"tgi/models/hf"
	"tgi/models/onnx"
	"tgi/models/tensors"
)

// File is the name of the graph in a built model, over the model's data file.
const File = "vision.onnx"

// Names of the graph's inputs and of its output.
const (
	TilesInput     = "pixel_values"
	RowsInput      = "rows"
	FeaturesOutput = "features"
)

// microsoft is the domain of operators beside ONNX's own.
const microsoft = "com.microsoft"

// errShape is wrapped if a tensor does not match config.json.
var errShape = errors.New("checkpoint does not fit its configuration")

// chunkFloats limits the weights that are widened at a time.
const chunkFloats = 4 << 20

// Build writes the weights of the tower of ck to data, the content of the file dataFile, and returns the graph that
// refers to them. It fails, naming the tensor, if one is missing, has another shape than the configuration says, or is
// not used.
func Build(ck *hf.Checkpoint, dataFile string, data *onnx.DataWriter) ([]byte, error) {
	b := &builder{v: *ck.Config.Vision, width: ck.Config.Hidden, set: ck.Tensors, data: data,
		g: onnx.New(ck.Name+" vision", dataFile), used: map[string]bool{}}
	b.graph()
	if b.err == nil {
		b.checkUnused()
	}
	if b.err != nil {
		return nil, fmt.Errorf("%s: %w", ck.Config.Architecture, b.err)
	}
	return b.g.Marshal("tgi", onnx.Opset{Version: 21}, onnx.Opset{Domain: microsoft, Version: 1})
}

// builder holds one build. After the first error, which is kept, its methods do nothing.
type builder struct {
	v     hf.Vision
	width int // of the text model
	set   *tensors.Set
	data  *onnx.DataWriter
	g     *onnx.Graph
	used  map[string]bool
	wide  []float32
	bytes []byte
	err   error
}

func (b *builder) fail(err error) {
	if b.err == nil {
		b.err = err
	}
}

// graph adds everything from pixels to features.
func (b *builder) graph() {
	v := b.v
	if v.Kind == hf.QwenVL {
		b.qwen()
		return
	}
	b.g.Input(TilesInput, onnx.Float, onnx.Fixed(1), onnx.Fixed(3), onnx.Fixed(v.Side), onnx.Fixed(v.Side))
	b.g.Input(RowsInput, onnx.Int64, onnx.Symbolic("rows"))
	x := b.patches()
	if v.Class {
		x = b.layerNorm("pre_norm", "pre_layrnorm", x)
	}
	for i := range v.Layers {
		x = b.layer(i, x)
	}
	switch v.Kind {
	case hf.Gemma3Vision:
		x = b.layerNorm("post_norm", "post_layernorm", x)
		b.ignore("head.") // which makes one vector of a picture
	case hf.Idefics3:
		x = b.layerNorm("post_norm", "post_layernorm", x)
	default:
		b.used[hf.VisionPrefix+"post_layernorm.weight"], b.used[hf.VisionPrefix+"post_layernorm.bias"] = true, true
		b.ignoreLayers()
	}
	if v.Class && v.DropClass {
		x = b.node("Slice", "", "patches_only", []string{x, b.ints("one", 1), b.ints("last", math.MaxInt32),
			b.ints("axis0", 0)})
	}
	x = b.connect(x)
	if v.Kind == hf.LLaVANext {
		newline := b.tensor("newline_row", "newline", []int64{int64(b.width)}, 1, int64(b.width))
		x = b.node("Concat", "", "with_newline", []string{x, newline}, onnx.Attr{Name: "axis", Value: 0})
	}
	b.node("Gather", "", FeaturesOutput, []string{x, RowsInput}, onnx.Attr{Name: "axis", Value: 0})
	b.g.Output(FeaturesOutput, onnx.Float, onnx.Symbolic("rows"), onnx.Fixed(b.width))
}

// patches embeds the patches of a tile and their positions: [patches, hidden], the class token first.
func (b *builder) patches() string {
	v := b.v
	n, h, p := int64(v.Patches()), int64(v.Hidden), int64(v.Patch)
	weight := b.tensor("patch.weight", "embeddings.patch_embedding.weight", []int64{h, 3, p, p}, h, 3, p, p)
	inputs := []string{TilesInput, weight}
	if !v.Class { // SigLIP's
		inputs = append(inputs, b.tensor("patch.bias", "embeddings.patch_embedding.bias", []int64{h}, h))
	}
	x := b.node("Conv", "", "patch", inputs, onnx.Attr{Name: "strides", Value: []int{v.Patch, v.Patch}})
	x = b.node("Transpose", "", "patch.rows", []string{b.reshape("patch.columns", x, h, n*n)})
	positions := n * n
	if v.Class {
		class := b.tensor("class", "embeddings.class_embedding", []int64{h}, 1, h)
		x = b.node("Concat", "", "with_class", []string{class, x}, onnx.Attr{Name: "axis", Value: 0})
		positions++
	}
	return b.node("Add", "", "embedded", []string{x, b.positions(positions, h)})
}

// positions adds the table of position embeddings.
func (b *builder) positions(n, hidden int64) string {
	if p := b.v.Patches(); b.v.Kind == hf.Idefics3 && !exactPlaces(p) {
		b.fail(fmt.Errorf("vision_config: %d patches in a line: the places that transformers finds for them depend on the "+
			"machine", p))
	}
	return b.tensor("positions", "embeddings.position_embedding.weight", []int64{n, hidden}, n, hidden)
}

// exactPlaces reports whether Idefics3VisionEmbeddings gives n patches in a line the places 0, 1, 2, ... It looks for
// fractions i/n among the boundaries arange(1/n, 1, 1/n), both rounded to 32 bits, and PyTorch's arange rounds the
// first of each vector of the processor in between: the places are exact if they are with every width of vectors.
func exactPlaces(n int) bool {
	for _, lanes := range []int{1, 4, 8, 16} {
		if !exactWith(n, lanes) {
			return false
		}
	}
	return true
}

// exactWith is exactPlaces for one width of vectors.
func exactWith(n, lanes int) bool {
	step := 1 / float64(n)
	count := int(math.Ceil((1 - step) / step)) // n-1 or n
	boundary := func(k int) float32 {
		if k >= count/lanes*lanes { // behind the last whole vector
			return float32(step + float64(k)*step)
		}
		first := float64(float32(step + float64(k/lanes*lanes)*step))
		return float32(first + float64(k%lanes)*step)
	}
	for i := range n {
		at := min(float32(i)*(1/float32(n)), float32(1-1e-6))
		place := 0
		for place < count && boundary(place) <= at {
			place++
		}
		if place != i {
			return false
		}
	}
	return true
}

// layer adds a layer of the encoder.
func (b *builder) layer(i int, x string) string {
	v := b.v
	p, w, h := fmt.Sprintf("layer%d.", i), fmt.Sprintf("encoder.layers.%d.", i), v.Hidden
	normed := b.layerNorm(p+"norm1", w+"layer_norm1", x)
	var qkv []string
	for _, part := range []string{"q", "k", "v"} {
		flat := b.linear(p+part, w+"self_attn."+part+"_proj", normed, h, h, true)
		qkv = append(qkv, b.reshape(p+part+".rows", flat, 1, -1, int64(h)))
	}
	attended := b.node("MultiHeadAttention", microsoft, p+"attention", qkv, onnx.Attr{Name: "num_heads",
		Value: v.Heads})
	attended = b.linear(p+"out", w+"self_attn.out_proj", b.reshape(p+"attended", attended, -1, int64(h)), h, h, true)
	x = b.node("Add", "", p+"residual1", []string{x, attended})
	y := b.linear(p+"fc1", w+"mlp.fc1", b.layerNorm(p+"norm2", w+"layer_norm2", x), h, v.Intermediate, true)
	y = b.linear(p+"fc2", w+"mlp.fc2", b.activation(p+"act", v.Activation, y), v.Intermediate, h, true)
	return b.node("Add", "", p+"residual2", []string{x, y})
}

// connect leads from the tower's rows to the text model's width.
func (b *builder) connect(x string) string {
	v := b.v
	if v.Kind == hf.Idefics3 {
		n, s, h := int64(v.Patches()), int64(v.Shuffle), int64(v.Hidden)
		swap := onnx.Attr{Name: "perm", Value: []int{1, 0, 2}}
		x = b.reshape("shuffle.lines", x, n, n/s, h*s)
		x = b.node("Transpose", "", "shuffle.turned", []string{x}, swap)
		x = b.reshape("shuffle.squares", x, n/s, n/s, h*s*s)
		x = b.node("Transpose", "", "shuffle.back", []string{x}, swap)
		x = b.reshape("shuffled", x, n/s*(n/s), h*s*s)
		return b.linear("connector", "connector.modality_projection.proj", x, int(h*s*s), b.width, false)
	}
	if v.Kind == hf.Gemma3Vision {
		return b.pooled(x)
	}
	x = b.linear("projector1", "projector.linear_1", x, v.Hidden, b.width, v.ProjectorBias)
	return b.linear("projector2", "projector.linear_2", b.activation("projector.act", v.Projector, x), b.width, b.width,
		v.ProjectorBias)
}

// pooled adds Gemma 3's projector: means of squares of patches, a norm whose weights are stored as their distance from
// 1, and a matrix [in, out].
func (b *builder) pooled(x string) string {
	v := b.v
	n, s, h := int64(v.Patches()), v.Shuffle, int64(v.Hidden)
	x = b.reshape("pool.planes", b.node("Transpose", "", "pool.columns", []string{x}), 1, h, n, n)
	x = b.node("AveragePool", "", "pool", []string{x}, onnx.Attr{Name: "kernel_shape", Value: []int{s, s}},
		onnx.Attr{Name: "strides", Value: []int{s, s}})
	x = b.node("Transpose", "", "pool.rows", []string{b.reshape("pool.flat", x, h, int64(v.TileRows()))})
	weight := make([]float32, h)
	if t := b.find("projector.mm_soft_emb_norm.weight", []int64{h}); t != nil {
		if err := t.Floats(weight, 0); err != nil {
			b.fail(err)
		}
	}
	for i := range weight {
		weight[i]++
	}
	x = b.node("SimplifiedLayerNormalization", "", "projector.norm",
		[]string{x, b.written("projector.norm.weight", weight, h)}, onnx.Attr{Name: "axis", Value: -1},
		onnx.Attr{Name: "epsilon", Value: float32(v.NormEps)}, onnx.Attr{Name: "stash_type", Value: 1})
	matrix := b.tensor("projector.weight", "projector.mm_input_projection_weight", []int64{h, int64(b.width)}, h,
		int64(b.width))
	return b.node("MatMul", "", "projected", []string{x, matrix})
}

// activation applies one that transformers names.
func (b *builder) activation(name, kind, x string) string {
	switch kind {
	case "quick_gelu":
		return b.node("QuickGelu", microsoft, name, []string{x}, onnx.Attr{Name: "alpha", Value: float32(1.702)})
	case "gelu_pytorch_tanh":
		return b.node("Gelu", "", name, []string{x}, onnx.Attr{Name: "approximate", Value: "tanh"})
	}
	return b.node("Gelu", "", name, []string{x})
}

// linear multiplies rows of width k by a matrix [n, k].
func (b *builder) linear(name, tensor, x string, k, n int, bias bool) string {
	inputs := []string{x, b.tensor(name+".weight", tensor+".weight", []int64{int64(n), int64(k)}, int64(n), int64(k))}
	if bias {
		inputs = append(inputs, b.tensor(name+".bias", tensor+".bias", []int64{int64(n)}, int64(n)))
	}
	return b.node("Gemm", "", name, inputs, onnx.Attr{Name: "transB", Value: 1})
}

func (b *builder) layerNorm(name, tensor, x string) string {
	h := int64(b.v.Hidden)
	weight := b.tensor(name+".weight", tensor+".weight", []int64{h}, h)
	bias := b.tensor(name+".bias", tensor+".bias", []int64{h}, h)
	return b.node("LayerNormalization", "", name, []string{x, weight, bias},
		onnx.Attr{Name: "axis", Value: -1}, onnx.Attr{Name: "epsilon", Value: float32(b.v.NormEps)})
}

func (b *builder) reshape(name, x string, dims ...int64) string {
	return b.node("Reshape", "", name, []string{x, b.ints(name+".shape", dims...)})
}

// ints adds a constant list of integers.
func (b *builder) ints(name string, list ...int64) string {
	var raw []byte
	for _, n := range list {
		raw = binary.LittleEndian.AppendUint64(raw, uint64(n))
	}
	return b.g.Constant(name, onnx.Int64, []int64{int64(len(list))}, raw)
}

// node adds a node with one output of the same name.
func (b *builder) node(op, domain, name string, inputs []string, attrs ...onnx.Attr) string {
	b.g.Add(onnx.Node{Op: op, Domain: domain, Name: name, Inputs: inputs, Outputs: []string{name}, Attrs: attrs})
	return name
}

// tensor adds a tensor of the checkpoint under a name and with dimensions of the graph.
func (b *builder) tensor(name, tensor string, shape []int64, dims ...int64) string {
	t := b.find(tensor, shape)
	if t == nil {
		return name
	}
	b.data.Begin()
	for at, all := 0, t.Len(); at < all && b.err == nil; at += chunkFloats {
		b.write(t, at, min(chunkFloats, all-at))
	}
	return b.g.External(name, onnx.Float, dims, b.data.End())
}

// find returns a tensor of the tower, whose shape it checks.
func (b *builder) find(name string, shape []int64) *tensors.Tensor {
	name = hf.VisionPrefix + name
	b.used[name] = true
	t, err := b.set.Tensor(name)
	if err != nil {
		b.fail(err)
		return nil
	}
	if !slices.Equal(t.Shape, shape) {
		b.fail(fmt.Errorf("%s: tensor %q has shape %v, want %v: %w", t.File, t.Name, t.Shape, shape, errShape))
		return nil
	}
	return t
}

// write writes numbers of a tensor to the data file.
func (b *builder) write(t *tensors.Tensor, at, n int) {
	if cap(b.wide) < n {
		b.wide = make([]float32, n)
	}
	x := b.wide[:n]
	if err := t.Floats(x, at); err != nil {
		b.fail(err)
		return
	}
	b.append(x)
}

// append writes numbers to the data file.
func (b *builder) append(x []float32) {
	var err error
	if b.bytes, err = tensors.F32.AppendFloats(b.bytes[:0], x); err == nil {
		_, err = b.data.Write(b.bytes)
	}
	if err != nil {
		b.fail(err)
	}
}

// ignoreLayers notes the layers behind the one that the features come from.
func (b *builder) ignoreLayers() {
	const layers = "encoder.layers."
	for _, name := range b.set.Names() {
		number := 0
		if rest, ok := strings.CutPrefix(name, hf.VisionPrefix+layers); ok {
			if _, err := fmt.Sscanf(rest, "%d.", &number); err == nil && number >= b.v.Layers &&
				number < b.v.Layers+b.v.Unused {
				b.used[name] = true
			}
		}
	}
}

// ignore notes the tensors of a part that the features do not pass.
func (b *builder) ignore(part string) {
	for _, name := range b.set.Names() {
		if strings.HasPrefix(name, hf.VisionPrefix+part) {
			b.used[name] = true
		}
	}
}

// checkUnused refuses tensors of the tower that the graph does not use, except the numbers of positions that old
// checkpoints store.
func (b *builder) checkUnused() {
	for _, name := range b.set.Names() {
		if strings.HasPrefix(name, hf.VisionPrefix) && !b.used[name] &&
			name != hf.VisionPrefix+"embeddings.position_ids" {
			t, err := b.set.Tensor(name)
			if err == nil {
				err = fmt.Errorf("%s: tensor %q is not part of the vision tower with this configuration: %w", t.File,
					t.Name, errShape)
			}
			b.fail(err)
			return
		}
	}
}
