package decoder

import (
	"cmp"
	"fmt"
	"math"

	"tgi/models"
	"tgi/models/hf"
	"tgi/models/onnx"
)

// StagesFile is the name of the graph that the pooled vector of a text goes through, over the model's data file.
const StagesFile = "stages.onnx"

// Names of the inputs of an encoder's graph and of its output.
const (
	// LengthsInput is where each text's tokens begin, int64 [texts+1].
	LengthsInput = "cu_seqlens"
	// PlacesInput is each token's place in its text, int64 [tokens]; TypesInput its kind, int64 [tokens].
	PlacesInput = "places"
	TypesInput  = "token_types"
	// HiddenOutput are the vectors of the tokens that logit_rows names, float [rows, hidden].
	HiddenOutput = "hidden"
	// PooledInput and StagesOutput are those of the graph of stages, float [texts, width].
	PooledInput  = "pooled"
	StagesOutput = "out"
)

// attnNorm names the norm before, or with PostNorm behind, the attention of layer i.
func attnNorm(c *hf.Config, i int) string {
	if c.Encoder != nil && c.Encoder.BareFirst && i == 0 {
		return ""
	}
	return c.Tensors.AttnNorm
}

// encoder adds the whole model, from ids to the vectors of tokens.
func (b *builder) encoder() {
	c, tokens := &b.cfg, onnx.Symbolic("tokens")
	e := c.Encoder
	b.g.Input("input_ids", onnx.Int64, tokens)
	b.g.Input(LengthsInput, onnx.Int64, onnx.Symbolic("texts+1"))
	b.g.Input(logitRowsInput, onnx.Int64, onnx.Symbolic("rows"))
	b.rotaryTables()
	x := b.scaled("embed.scaled", b.embed("input_ids"), c.Scales.Embed)
	if c.Tensors.Positions != "" {
		b.g.Input(PlacesInput, onnx.Int64, tokens)
		table := all(weightOf(c.Tensors.Whole(c.Tensors.Positions)), c.MaxPositions+c.Learned)
		table[0].Offset, table[0].Rows = c.Learned, c.MaxPositions
		x = b.addRows("positions", x, table, PlacesInput)
	}
	if e.TokenTypes > 0 {
		b.g.Input(TypesInput, onnx.Int64, tokens)
		x = b.addRows("types", x, all(weightOf(c.Tensors.Whole(c.Tensors.Types)), e.TokenTypes), TypesInput)
	}
	if e.Buckets > 0 {
		b.distances()
	}
	x = b.after("embed_norm", c.Tensors.Whole, c.Tensors.EmbedNorm, x)
	update := ""
	for i := range c.Layers {
		if b.err != nil {
			return
		}
		if e.PostNorm {
			x = b.postNormLayer(i, x)
		} else {
			x, update = b.layer(i, x, update)
		}
	}
	if !e.PostNorm {
		x, _ = b.norm("norm", c.Tensors.Whole, c.Tensors.Norm, x, update)
	}
	b.node("Identity", "", HiddenOutput, []string{x})
	b.g.Output(HiddenOutput, onnx.Float, onnx.Symbolic("rows"), onnx.Fixed(c.Hidden))
}

// addRows adds to x the rows of a table that index names.
func (b *builder) addRows(name, x string, table []hf.Slice, index string) string {
	m := b.floats(table, b.cfg.Hidden)
	weight := b.g.External(name+".weight", b.element.graph, []int64{int64(m.n), int64(m.k)}, m.codes)
	rows := b.node("Gather", "", name, []string{weight, index}, onnx.Attr{Name: "axis", Value: 0})
	return b.node("Add", "", name+".added", []string{x, rows})
}

// postNormLayer adds a block whose norms are behind the sums.
func (b *builder) postNormLayer(i int, x string) string {
	c, p, t := &b.cfg, graphPrefix(i), b.cfg.Tensors
	inLayer := func(part string) string { return t.InLayer(i, part) }
	last := i == c.Layers-1
	attended := b.attendAll(i, p, b.linear(p+"qkv", x, c.Hidden, c.QKVBias, c.QKV(i)...))
	if last {
		attended, x = b.rows(p+"attn_rows", attended), b.rows(p+"residual_rows", x)
	}
	attended = b.linear(p+"out", attended, c.Heads*c.HeadDim, c.OutBias, c.Out(i))
	x, _ = b.norm(p+"attn_norm", inLayer, t.AttnNorm, x, attended)
	x, _ = b.norm(p+"mlp_norm", inLayer, t.MLPNorm, x, b.mlp(i, x, last))
	return x
}

// attendAll adds layer i's attention among the tokens of each text.
func (b *builder) attendAll(i int, p, qkv string) string {
	c := &b.cfg
	inputs := []string{qkv, "", "", LengthsInput, "", "", "", "", ""}
	if c.Rotates(i) {
		inputs[4], inputs[5] = b.rotary("cos", i), b.rotary("sin", i)
	}
	fused := c.QKNorm.Over == hf.QKNormHead && !c.QKNorm.Layer
	if fused {
		w := c.Tensors
		inputs[6] = b.vector(p+"q_norm.weight", c.Norm.Offset, weightOf(w.InLayer(i, w.QNorm)))
		inputs[7] = b.vector(p+"k_norm.weight", c.Norm.Offset, weightOf(w.InLayer(i, w.KNorm)))
	} else if c.QKNorm.Over != hf.QKNormNone {
		copy(inputs, b.normedHeads(i, p, qkv))
	}
	if c.Encoder.Buckets > 0 {
		inputs[8] = "distances"
	}
	attrs := []onnx.Attr{{Name: "num_heads", Value: c.Heads}, {Name: "kv_num_heads", Value: c.KVHeads},
		{Name: "head_size", Value: c.HeadDim}, {Name: "scale", Value: float32(c.Scales.Attention)},
		{Name: "qk_norm_epsilon", Value: float32(c.Norm.Eps)}}
	add := func(on bool, attr string, value any) {
		if on {
			attrs = append(attrs, onnx.Attr{Name: attr, Value: value})
		}
	}
	add(c.Encoder.Causal, "causal", 1)
	add(c.Windows[i] > 0, "reach", c.Windows[i]-1)
	add(c.Rotates(i), "do_rotary", 1)
	add(c.Rotates(i) && c.RopeOf(i).Interleaved, "rotary_interleaved", 1)
	add(c.AttentionCap != 0, "softcap", float32(c.AttentionCap))
	add(fused && c.QKNorm.AfterRotary, "qk_norm_after_rotary", 1)
	b.g.Add(onnx.Node{Op: "EncoderAttention", Domain: tgiDomain, Name: p + "attention", Inputs: inputs,
		Outputs: []string{p + "attention"}, Attrs: attrs})
	return p + "attention"
}

// farthest is the distance from which on all have one bias.
const farthest = 128

// distances adds what scores gain by the distance of the key from the query, [heads, 2*farthest+1] from -farthest to
// farthest. The table of the checkpoint has a row for each class of distances: half of the classes are for keys ahead,
// and of each half the first are for one distance each and the others, ever wider, for the rest (T5's and MPNet's).
func (b *builder) distances() {
	c := &b.cfg
	t := b.tensor(weightOf(c.Tensors.Whole(c.Tensors.Relative)))
	if t == nil {
		return
	}
	table := b.widen(t, 0, t.Len())
	out := make([]float32, 0, c.Heads*(2*farthest+1))
	for h := range c.Heads {
		for d := -farthest; d <= farthest; d++ {
			out = append(out, table[distanceClass(d, c.Encoder.Buckets)*c.Heads+h])
		}
	}
	b.data.Begin()
	b.write("distances", out)
	b.progress(t.Len())
	b.g.External("distances", b.element.graph, []int64{int64(c.Heads), 2*farthest + 1}, b.data.End())
}

// distanceClass returns the class of a key that is d behind the query, before it if d is negative. The logarithm is
// that of 32-bit floats, as in training.
func distanceClass(d, classes int) int {
	half := classes / 2
	base, n := 0, -d
	if n < 0 {
		base, n = half, -n
	}
	exact := half / 2
	if n < exact {
		return base + n
	}
	share := float32(math.Log(float64(float32(n)/float32(exact)))) / float32(math.Log(float64(farthest)/float64(exact)))
	return base + min(exact+int(share*float32(half-exact)), half-1)
}

// stages returns the graph of the layers behind the pooling.
func (b *builder) stages() ([]byte, error) {
	own := b.g
	b.g = onnx.New("stages", DataFile)
	defer func() { b.g = own }()
	stages := b.cfg.Encoder.Stages
	x := b.g.Input(PooledInput, onnx.Float, onnx.Symbolic("texts"), onnx.Fixed(stages[0].In))
	weights := b.opt.Weights
	b.opt.Weights = models.FP32 // a few vectors go through it, and what it decides is the result
	defer func() { b.opt.Weights = weights }()
	for i, s := range stages {
		name := fmt.Sprintf("stage%d", i)
		if len(s.Rows) > 0 {
			x = b.difference(name, x, s)
			continue
		}
		x = b.linear(name, x, s.In, s.Bias, all(s.Folder+s.Tensor, s.Out)...)
		if s.BiasFrom != "" {
			x = b.node("Add", "", name+".biased", []string{x, b.vector(name+".bias", 0, s.BiasFrom)})
		}
		if s.Activation != "" {
			domain := ""
			if s.Activation == "Gelu" {
				domain = microsoftDomain
			}
			x = b.node(s.Activation, domain, name+".act", []string{x})
		}
		if s.Norm != "" {
			list := []string{b.vector(name+".norm.weight", 0, weightOf(s.Norm))}
			if s.NormBias {
				list = append(list, b.vector(name+".norm.bias", 0, biasOf(s.Norm)))
			}
			x = b.normNode(name+".norm", true, x, list)
		}
	}
	b.node("Identity", "", StagesOutput, []string{x})
	b.g.Output(StagesOutput, onnx.Float, onnx.Symbolic("texts"), onnx.Fixed(stages[len(stages)-1].Out))
	if b.err != nil {
		return nil, b.err
	}
	return b.g.Marshal("tgi", b.opsets...)
}

// difference adds the product with one row of a tensor, less that with another.
func (b *builder) difference(name, x string, s hf.Stage) string {
	var out []string
	for i, row := range s.Rows {
		out = append(out, b.linear(fmt.Sprintf("%s.%d", name, i), x, s.In, false,
			hf.Slice{Tensor: s.Folder + s.Tensor, Groups: 1, Stride: s.Of, Offset: row, Rows: 1}))
	}
	if len(out) == 1 {
		return out[0]
	}
	return b.node("Sub", "", name, out)
}

// encoder adds the tensors that only encoders have.
func (s shapes) encoder(e *hf.Encoder) {
	c, t := s.c, s.c.Tensors
	if e.TokenTypes > 0 {
		s.out[weightOf(t.Whole(t.Types))] = []int64{int64(e.TokenTypes), int64(c.Hidden)}
	}
	if e.Buckets > 0 {
		s.out[weightOf(t.Whole(t.Relative))] = []int64{int64(e.Buckets), int64(c.Heads)}
	}
	for _, st := range e.Stages {
		s.out[weightOf(st.Folder+st.Tensor)] = []int64{int64(cmp.Or(st.Of, st.Out)), int64(st.In)}
		if st.Bias {
			s.out[biasOf(st.Folder+st.Tensor)] = []int64{int64(st.Out)}
		}
		if st.BiasFrom != "" {
			s.out[st.BiasFrom] = []int64{int64(st.Out)}
		}
		if st.Norm != "" {
			s.out[weightOf(st.Norm)] = []int64{int64(c.Hidden)}
			if st.NormBias {
				s.out[biasOf(st.Norm)] = []int64{int64(c.Hidden)}
			}
		}
	}
}
