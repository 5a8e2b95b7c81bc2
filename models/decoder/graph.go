package decoder

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	"tgi/models/onnx"
)

// Operator domains beside ONNX's own.
const (
	microsoftDomain = "com.microsoft"
	tgiDomain       = "tgi"
)

// logitRowsInput is the graph input that names the tokens whose logits are wanted.
const logitRowsInput = "logit_rows"

// Inputs of a graph that takes embeddings: the indices of m tokens [m, 1], and their vectors [m, hidden].
const (
	embeddedInput   = "embedded"
	embeddingsInput = "embeddings"
)

// placesInput is the input of a graph whose tokens have positions in time, height and width, [tokens, 3].
const placesInput = "places"

// metadataInput is the index of PagedAttention's input attention_metadata.
const metadataInput = 16

// graph adds the whole model, from ids to logits.
func (b *builder) graph() {
	c := b.cfg
	tokens, rows := onnx.Symbolic("tokens"), onnx.Symbolic("rows")
	b.g.Input("input_ids", onnx.Int64, tokens)
	b.g.Input("cu_seqlens", onnx.Int32, onnx.Symbolic("rows+1"))
	b.g.Input("past_lens", onnx.Int32, rows)
	b.g.Input("block_table", onnx.Int32, rows, onnx.Symbolic("row_blocks"))
	b.g.Input("slot_mapping", onnx.Int32, tokens)
	b.g.Input(logitRowsInput, onnx.Int64, onnx.Symbolic("logit_rows"))
	if b.attention.metadata {
		b.g.Input("attention_metadata", onnx.Int32, onnx.Fixed(3))
	}
	for i := range c.Layers {
		for _, kind := range []string{"k_cache", "v_cache"} {
			b.g.Input(fmt.Sprintf("%s.%d", kind, i), elements[b.Cache].graph, b.attention.cache(c, b.BlockSize)...)
		}
	}
	b.rotaryTables()
	if b.places() {
		b.turns()
	}
	residual := b.embed("input_ids")
	if b.opt.embeddings {
		residual = b.replace(residual)
	}
	update := "" // what the next norm adds to the residual first
	for i := range c.Layers {
		if b.err != nil {
			return
		}
		residual, update = b.layer(i, residual, update)
	}
	x, _ := b.norm("norm", nameNorm, residual, update)
	b.head(x)
	b.g.Output("logits", onnx.Float, onnx.Symbolic("logit_rows"), onnx.Fixed(c.Vocab))
	if b.attention.returnsCache {
		for i := range c.Layers {
			for _, kind := range []string{"k_cache_out", "v_cache_out"} {
				b.g.Output(fmt.Sprintf("%s.%d", kind, i), elements[b.Cache].graph, b.attention.cache(c, b.BlockSize)...)
			}
		}
	}
}

// replace puts the embeddings of the step in place of the table's.
func (b *builder) replace(table string) string {
	count := onnx.Symbolic("embedded")
	b.g.Input(embeddedInput, onnx.Int64, count, onnx.Fixed(1))
	b.g.Input(embeddingsInput, b.element.graph, count, onnx.Fixed(b.cfg.Hidden))
	return b.node("ScatterND", "", "embed.replaced", []string{table, embeddedInput, embeddingsInput})
}

// layer adds one block and returns its residual and the MLP's output; the next norm adds them.
func (b *builder) layer(i int, residual, update string) (string, string) {
	c, p, w := b.cfg, graphPrefix(i), layerPrefix(i)
	last := i == c.Layers-1
	x, residual := b.norm(p+"attn_norm", w+"input_layernorm.weight", residual, update)
	b.adaptable(i, p+"qkv", x, 0, 3, false)
	qkv := b.linear(p+"qkv", x, c.Hidden, c.QKVBias,
		part{w + "self_attn.q_proj", c.Heads * c.HeadDim},
		part{w + "self_attn.k_proj", c.KVHeads * c.HeadDim},
		part{w + "self_attn.v_proj", c.KVHeads * c.HeadDim})
	x = b.attend(i, p, qkv)
	if last {
		// The rest works on each token separately, so only the tokens whose logits are
		// wanted are needed.
		x = b.rows(p+"attn_rows", x)
		residual = b.rows(p+"residual_rows", residual)
	}
	b.adaptable(i, p+"out", x, 3, 1, last)
	x = b.linear(p+"out", x, c.Heads*c.HeadDim, c.OutBias, part{w + "self_attn.o_proj", c.Hidden})
	x, residual = b.norm(p+"mlp_norm", w+"post_attention_layernorm.weight", residual, x)
	x = b.gate(b, i, x)
	b.adaptable(i, p+"down", x, 6, 1, last)
	return residual, b.linear(p+"down", x, c.Intermediate, c.MLPBias, part{w + "mlp.down_proj", c.Hidden})
}

// graphPrefix begins the names of layer i's nodes.
func graphPrefix(i int) string { return fmt.Sprintf("layer%d.", i) }

// node adds a node with one output of the same name.
func (b *builder) node(op, domain, name string, inputs []string, attrs ...onnx.Attr) string {
	b.g.Add(onnx.Node{Op: op, Domain: domain, Name: name, Inputs: inputs, Outputs: []string{name}, Attrs: attrs})
	return name
}

// rows selects the tokens whose logits are wanted.
func (b *builder) rows(name, x string) string {
	return b.node("Gather", "", name, []string{x, logitRowsInput}, onnx.Attr{Name: "axis", Value: 0})
}

// norm adds update, if there is one, to the residual and normalises the sum. It returns the
// normalised stream and the sum.
func (b *builder) norm(name, tensor, residual, update string) (normed, sum string) {
	weight := b.vector(name+".weight", tensor)
	eps := onnx.Attr{Name: "epsilon", Value: float32(b.cfg.NormEps)}
	if update == "" {
		return b.node("SimplifiedLayerNormalization", "", name, []string{residual, weight},
			onnx.Attr{Name: "axis", Value: -1}, eps, onnx.Attr{Name: "stash_type", Value: 1}), residual
	}
	sum = name + ".sum"
	b.g.Add(onnx.Node{Op: "SkipSimplifiedLayerNormalization", Domain: microsoftDomain, Name: name,
		Inputs: []string{residual, update, weight}, Outputs: []string{name, "", "", sum}, Attrs: []onnx.Attr{eps}})
	return name, sum
}

// attend adds layer i's attention to the packed queries, keys and values.
func (b *builder) attend(i int, p, qkv string) string {
	c, op, name := b.cfg, b.attention, p+"attention"
	inputs := []string{qkv, "", "", fmt.Sprintf("k_cache.%d", i), fmt.Sprintf("v_cache.%d", i),
		"cu_seqlens", "past_lens", "block_table", "cos_cache", "sin_cache", "slot_mapping"}
	if b.places() {
		inputs[8], inputs[9] = "cos_rows", "sin_rows"
	}
	if c.QKNorm {
		w := layerPrefix(i)
		inputs = append(inputs, "",
			b.vector(p+"q_norm.weight", w+"self_attn.q_norm.weight"),
			b.vector(p+"k_norm.weight", w+"self_attn.k_norm.weight"))
	}
	if op.metadata {
		inputs = append(slices.Grow(inputs, metadataInput), make([]string, metadataInput-len(inputs))...)
		inputs = append(inputs, "attention_metadata")
	}
	outputs := []string{name}
	if op.returnsCache {
		outputs = append(outputs, fmt.Sprintf("k_cache_out.%d", i), fmt.Sprintf("v_cache_out.%d", i))
	}
	attrs := []onnx.Attr{{Name: "num_heads", Value: c.Heads}, {Name: "kv_num_heads", Value: c.KVHeads}}
	if op.headSize {
		attrs = append(attrs, onnx.Attr{Name: "head_size", Value: c.HeadDim})
	}
	if b.places() {
		attrs = append(attrs, onnx.Attr{Name: "rotary_by_token", Value: 1})
	}
	attrs = append(attrs,
		onnx.Attr{Name: "scale", Value: float32(1 / math.Sqrt(float64(c.HeadDim)))},
		onnx.Attr{Name: "local_window_size", Value: cmp.Or(c.Windows[i], op.noWindow)},
		onnx.Attr{Name: "do_rotary", Value: 1},
		onnx.Attr{Name: "rotary_interleaved", Value: 0},
		onnx.Attr{Name: "qk_norm_epsilon", Value: float32(c.NormEps)})
	b.g.Add(onnx.Node{Op: "PagedAttention", Domain: op.domain, Name: name, Inputs: inputs, Outputs: outputs,
		Attrs: attrs})
	return name
}

// rotaryTables adds the cosines and sines of every position. Angles are rounded to 32 bits before
// the cosine, as in training: at position 100,000 the rounding decides the third digit. Only the
// results are rounded to the element type.
func (b *builder) rotaryTables() {
	c := b.cfg
	frequencies := c.Rope.Frequencies(c.HeadDim)
	for _, table := range []struct {
		name string
		of   func(float64) float64
	}{{"cos_cache", math.Cos}, {"sin_cache", math.Sin}} {
		b.data.Begin()
		row := make([]float32, len(frequencies))
		for pos := range c.MaxPositions {
			for i, f := range frequencies {
				angle := float32(pos) * float32(f)
				row[i] = float32(table.of(float64(angle))) * float32(c.Rope.Attention)
			}
			b.write(table.name, row)
		}
		b.g.External(table.name, b.element.graph, []int64{int64(c.MaxPositions), int64(len(frequencies))}, b.data.End())
	}
}

// places reports whether the graph takes three positions for each token. With text alone the three are equal, which is
// the ordinary rotary embedding.
func (b *builder) places() bool { return b.opt.embeddings && b.cfg.Rope.Sections != [3]int{} }

// turns adds the cosines and sines of each token: for each section of a head's pairs those of another position.
func (b *builder) turns() {
	sections := b.cfg.Rope.Sections
	b.g.Input(placesInput, onnx.Int64, onnx.Symbolic("tokens"), onnx.Fixed(len(sections)))
	sizes := b.ints("sections", int64(sections[0]), int64(sections[1]), int64(sections[2]))
	for _, name := range []string{"cos", "sin"} {
		rows := b.node("Gather", "", name+".places", []string{name + "_cache", placesInput},
			onnx.Attr{Name: "axis", Value: 0})
		parts, own := make([]string, len(sections)), make([]string, len(sections))
		for i := range sections {
			parts[i] = fmt.Sprintf("%s.section%d", name, i)
		}
		b.g.Add(onnx.Node{Op: "Split", Name: name + ".sections", Inputs: []string{rows, sizes}, Outputs: parts,
			Attrs: []onnx.Attr{{Name: "axis", Value: 2}}})
		for i, part := range parts {
			index := fmt.Sprintf("%s.place%d", name, i)
			b.g.Constant(index, onnx.Int64, nil, binary.LittleEndian.AppendUint64(nil, uint64(i)))
			own[i] = b.node("Gather", "", part+".own", []string{part, index}, onnx.Attr{Name: "axis", Value: 1})
		}
		b.node("Concat", "", name+"_rows", own, onnx.Attr{Name: "axis", Value: 1})
	}
}

// ints adds a constant list of integers.
func (b *builder) ints(name string, list ...int64) string {
	var raw []byte
	for _, n := range list {
		raw = binary.LittleEndian.AppendUint64(raw, uint64(n))
	}
	return b.g.Constant(name, onnx.Int64, []int64{int64(len(list))}, raw)
}
