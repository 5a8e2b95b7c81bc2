package decoder

import (
	"encoding/binary"
	"fmt"
	"math"

	"tgi/models/onnx"
)

// Operator domains beside ONNX's own.
const (
	microsoftDomain = "com.microsoft"
	tgiDomain       = "tgi"
)

// blockSize is the tokens of a cache block, as the attention operator has it.
const blockSize = 16

// graph adds the whole model, from ids to logits.
func (b *builder) graph() {
	c := b.cfg
	tokens, rows := onnx.Symbolic("tokens"), onnx.Symbolic("rows")
	b.g.Input("input_ids", onnx.Int64, tokens)
	b.g.Input("cu_seqlens", onnx.Int32, onnx.Symbolic("rows+1"))
	b.g.Input("past_lens", onnx.Int32, rows)
	b.g.Input("block_table", onnx.Int32, rows, onnx.Symbolic("row_blocks"))
	b.g.Input("slot_mapping", onnx.Int32, tokens)
	b.g.Input("logit_rows", onnx.Int64, onnx.Symbolic("logit_rows"))
	for i := range c.Layers {
		for _, kind := range []string{"k_cache", "v_cache"} {
			b.g.Input(fmt.Sprintf("%s.%d", kind, i), onnx.Float, onnx.Symbolic("blocks"),
				onnx.Fixed(c.KVHeads*c.HeadDim*blockSize))
		}
	}
	b.rotaryTables()
	residual := b.embed("input_ids")
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
}

// layer adds one block and returns its residual and the MLP's output; the next norm adds them.
func (b *builder) layer(i int, residual, update string) (string, string) {
	c, p := b.cfg, fmt.Sprintf("layer%d.", i)
	w := layerPrefix(i)
	x, residual := b.norm(p+"attn_norm", w+"input_layernorm.weight", residual, update)
	qkv := b.linear(p+"qkv", x, c.Hidden, c.QKVBias,
		part{w + "self_attn.q_proj", c.Heads * c.HeadDim},
		part{w + "self_attn.k_proj", c.KVHeads * c.HeadDim},
		part{w + "self_attn.v_proj", c.KVHeads * c.HeadDim})
	x = b.attention(i, p, qkv)
	if i == c.Layers-1 {
		// The rest works on each token separately, so only the tokens whose logits are
		// wanted are needed.
		x = b.rows(p+"attn_rows", x)
		residual = b.rows(p+"residual_rows", residual)
	}
	x = b.linear(p+"out", x, c.Heads*c.HeadDim, c.OutBias, part{w + "self_attn.o_proj", c.Hidden})
	x, residual = b.norm(p+"mlp_norm", w+"post_attention_layernorm.weight", residual, x)
	x = b.linear(p+"gate_up", x, c.Hidden, c.MLPBias,
		part{w + "mlp.gate_proj", c.Intermediate},
		part{w + "mlp.up_proj", c.Intermediate})
	x = b.node("SwiGLU", tgiDomain, p+"gated", []string{x})
	return residual, b.linear(p+"down", x, c.Intermediate, c.MLPBias, part{w + "mlp.down_proj", c.Hidden})
}

// node adds a node with one output of the same name.
func (b *builder) node(op, domain, name string, inputs []string, attrs ...onnx.Attr) string {
	b.g.Add(onnx.Node{Op: op, Domain: domain, Name: name, Inputs: inputs, Outputs: []string{name}, Attrs: attrs})
	return name
}

// rows selects the tokens whose logits are wanted.
func (b *builder) rows(name, x string) string {
	return b.node("Gather", "", name, []string{x, "logit_rows"}, onnx.Attr{Name: "axis", Value: 0})
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

func (b *builder) attention(i int, p, qkv string) string {
	c := b.cfg
	inputs := []string{qkv, "", "", fmt.Sprintf("k_cache.%d", i), fmt.Sprintf("v_cache.%d", i),
		"cu_seqlens", "past_lens", "block_table", "cos_cache", "sin_cache", "slot_mapping"}
	if c.QKNorm {
		w := layerPrefix(i)
		inputs = append(inputs, "",
			b.vector(p+"q_norm.weight", w+"self_attn.q_norm.weight"),
			b.vector(p+"k_norm.weight", w+"self_attn.k_norm.weight"))
	}
	return b.node("PagedAttention", tgiDomain, p+"attention", inputs,
		onnx.Attr{Name: "num_heads", Value: c.Heads},
		onnx.Attr{Name: "kv_num_heads", Value: c.KVHeads},
		onnx.Attr{Name: "head_size", Value: c.HeadDim},
		onnx.Attr{Name: "scale", Value: float32(1 / math.Sqrt(float64(c.HeadDim)))},
		onnx.Attr{Name: "local_window_size", Value: c.Windows[i]},
		onnx.Attr{Name: "do_rotary", Value: 1},
		onnx.Attr{Name: "rotary_interleaved", Value: 0},
		onnx.Attr{Name: "qk_norm_epsilon", Value: float32(c.NormEps)})
}

// rotaryTables adds the cosines and sines of every position. Angles are rounded to 32 bits before
// the cosine, as in training: at position 100,000 the rounding decides the third digit.
func (b *builder) rotaryTables() {
	c := b.cfg
	frequencies := c.Rope.Frequencies(c.HeadDim)
	for _, table := range []struct {
		name string
		of   func(float64) float64
	}{{"cos_cache", math.Cos}, {"sin_cache", math.Sin}} {
		b.data.Begin()
		row := make([]byte, 0, 2*c.HeadDim)
		for pos := range c.MaxPositions {
			row = row[:0]
			for _, f := range frequencies {
				angle := float32(pos) * float32(f)
				x := float32(table.of(float64(angle))) * float32(c.Rope.Attention)
				row = binary.LittleEndian.AppendUint32(row, math.Float32bits(x))
			}
			b.data.Write(row)
		}
		b.g.External(table.name, onnx.Float, []int64{int64(c.MaxPositions), int64(len(frequencies))}, b.data.End())
	}
}
