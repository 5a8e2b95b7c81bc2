package tower

import (
	"fmt"
	"math"
	"slices"

	"tgi/models/onnx"
	"tgi/models/tensors"
	"tgi/models/vision"
)

// qwen adds Qwen2.5-VL's tower, from the patches of a picture to features. transformers puts the rows into the order of
// windows and back. Here they stay, since a row's place matters to nothing but attention, and only what a window's
// attention reads is gathered.
func (b *builder) qwen() {
	v := b.v
	n, windows := onnx.Symbolic("patches"), onnx.Symbolic("windows")
	size := v.Window * v.Window * v.Shuffle * v.Shuffle
	b.g.Input(TilesInput, onnx.Float, n, onnx.Fixed(3*v.Patch*v.Patch))
	b.g.Input(vision.PlacesInput, onnx.Int64, n, onnx.Fixed(2))
	b.g.Input(vision.WindowsInput, onnx.Int64, windows, onnx.Fixed(size))
	b.g.Input(vision.WindowMaskInput, onnx.Int64, windows, onnx.Fixed(size))
	b.g.Input(vision.WindowRowsInput, onnx.Int64, n)
	b.angles()
	b.node("Cast", "", "mask", []string{vision.WindowMaskInput}, onnx.Attr{Name: "to", Value: int(onnx.Int32)})
	x := b.node("MatMul", "", "embedded", []string{TilesInput, b.patchMatrix()})
	for i := range v.Layers {
		x = b.qwenLayer(i, x)
	}
	wide := v.Hidden * v.Shuffle * v.Shuffle
	x = b.reshape("merged", b.rmsNorm("merger.norm", "merger.ln_q", x), -1, int64(wide))
	x = b.linear("merger1", "merger.mlp.0", x, wide, wide, true)
	x = b.linear("merger2", "merger.mlp.2", b.activation("merger.act", "gelu", x), wide, b.width, true)
	b.node("Identity", "", FeaturesOutput, []string{x})
	b.g.Output(FeaturesOutput, onnx.Float, onnx.Symbolic("features"), onnx.Fixed(b.width))
}

// angles adds the cosines and sines of the patches' places: the first half of a head's pairs turns by the line, the
// second by the column.
func (b *builder) angles() {
	dim := b.v.Hidden / b.v.Heads
	frequencies := make([]float32, dim/4)
	for i := range frequencies {
		frequencies[i] = float32(1 / math.Pow(b.v.RopeTheta, float64(4*i)/float64(dim)))
	}
	places := b.node("Cast", "", "places.float", []string{vision.PlacesInput}, onnx.Attr{Name: "to",
		Value: int(onnx.Float)})
	places = b.reshape("places.each", places, -1, 2, 1)
	angles := b.node("Mul", "", "angles.each", []string{places, b.floats("frequencies", frequencies...)})
	angles = b.reshape("angles", angles, -1, int64(dim/2))
	b.node("Cos", "", "cos", []string{angles})
	b.node("Sin", "", "sin", []string{angles})
	b.ints("first_place", 0)
}

// patchMatrix adds the patch embedding as a matrix. A picture is two equal frames of a film, so the weights of the two
// are added.
func (b *builder) patchMatrix() string {
	const name = "patch.weight"
	h, p := b.v.Hidden, b.v.Patch
	frame := p * p
	t := b.find("patch_embed.proj.weight", []int64{int64(h), 3, 2, int64(p), int64(p)})
	if t == nil {
		return name
	}
	all, out := make([]float32, t.Len()), make([]float32, 3*frame*h)
	if err := t.Floats(all, 0); err != nil {
		b.fail(err)
		return name
	}
	for row := range h {
		for c := range 3 {
			for i := range frame {
				from := (row*3+c)*2*frame + i
				out[(c*frame+i)*h+row] = all[from] + all[from+frame]
			}
		}
	}
	return b.written(name, out, int64(3*frame), int64(h))
}

// qwenLayer adds a layer of the encoder.
func (b *builder) qwenLayer(i int, x string) string {
	v, h := b.v, b.v.Hidden
	p, w := fmt.Sprintf("layer%d.", i), fmt.Sprintf("blocks.%d.", i)
	qkv := b.linear(p+"qkv", w+"attn.qkv", b.rmsNorm(p+"norm1", w+"norm1", x), h, 3*h, true)
	b.g.Add(onnx.Node{Op: "Split", Name: p + "split", Inputs: []string{qkv},
		Outputs: []string{p + "q", p + "k", p + "v"},
		Attrs:   []onnx.Attr{{Name: "axis", Value: 1}, {Name: "num_outputs", Value: 3}}})
	attended := b.qwenAttention(p, slices.Contains(v.Full, i))
	x = b.node("Add", "", p+"residual1", []string{x, b.linear(p+"out", w+"attn.proj", attended, h, h, true)})
	normed := b.rmsNorm(p+"norm2", w+"norm2", x)
	gate := b.linear(p+"gate", w+"mlp.gate_proj", normed, h, v.Intermediate, true)
	up := b.linear(p+"up", w+"mlp.up_proj", normed, h, v.Intermediate, true)
	silu := b.node("QuickGelu", microsoft, p+"silu", []string{gate}, onnx.Attr{Name: "alpha", Value: float32(1)})
	gated := b.node("Mul", "", p+"gated", []string{silu, up})
	y := b.linear(p+"down", w+"mlp.down_proj", gated, v.Intermediate, h, true)
	return b.node("Add", "", p+"residual2", []string{x, y})
}

// qwenAttention adds the attention of a layer's queries, keys and values: among all patches, or within windows.
func (b *builder) qwenAttention(p string, full bool) string {
	h := int64(b.v.Hidden)
	heads := onnx.Attr{Name: "num_heads", Value: b.v.Heads}
	var qkv []string
	for _, part := range []string{"q", "k", "v"} {
		x := b.reshape(p+part+".rows", p+part, 1, -1, h)
		if part != "v" {
			x = b.node("RotaryEmbedding", microsoft, p+part+".turned", []string{x, "first_place", "cos", "sin"})
		}
		if !full {
			x = b.reshape(p+part+".flat", x, -1, h)
			x = b.node("Gather", "", p+part+".windows", []string{x, vision.WindowsInput},
				onnx.Attr{Name: "axis", Value: 0})
		}
		qkv = append(qkv, x)
	}
	if full {
		return b.reshape(p+"attended", b.node("MultiHeadAttention", microsoft, p+"attention", qkv, heads), -1, h)
	}
	x := b.node("MultiHeadAttention", microsoft, p+"attention", append(qkv, "", "mask"), heads)
	x = b.reshape(p+"attention.flat", x, -1, h)
	return b.node("Gather", "", p+"attended", []string{x, vision.WindowRowsInput}, onnx.Attr{Name: "axis", Value: 0})
}

// rmsNorm normalises rows by their mean square.
func (b *builder) rmsNorm(name, tensor, x string) string {
	h := int64(b.v.Hidden)
	return b.node("SimplifiedLayerNormalization", "", name, []string{x,
		b.tensor(name+".weight", tensor+".weight", []int64{h}, h)}, onnx.Attr{Name: "axis", Value: -1},
		onnx.Attr{Name: "epsilon", Value: float32(b.v.NormEps)}, onnx.Attr{Name: "stash_type", Value: 1})
}

// floats adds a constant list of numbers.
func (b *builder) floats(name string, list ...float32) string {
	raw, err := tensors.F32.AppendFloats(nil, list)
	if err != nil {
		b.fail(err)
	}
	return b.g.Constant(name, onnx.Float, []int64{int64(len(list))}, raw)
}

// written writes numbers to the data file.
func (b *builder) written(name string, list []float32, dims ...int64) string {
	b.data.Begin()
	for part := range slices.Chunk(list, chunkFloats) {
		b.append(part)
	}
	return b.g.External(name, onnx.Float, dims, b.data.End())
}
