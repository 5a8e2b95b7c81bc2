package decoder

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"math"
	"math/bits"
	"slices"

	"tgi/models"
	"tgi/models/hf"
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

// rotaryRowsInput is the input of a graph whose rotary frequencies depend on the length of a sequence: the row of the
// rotary tables for each token. Behind those of sequences up to OriginalPositions, so many, are those of longer ones.
const rotaryRowsInput = "rotary_rows"

// placesInput is the input of a graph whose tokens have positions in time, height and width, [tokens, 3].
const placesInput = "places"

// cacheFormInput says what the bytes of the CPU's cache are.
const cacheFormInput = "cache_form"

// keyEndsInput is the input of a graph whose tokens may see tokens behind them, [tokens]: the position behind the last
// key that each sees.
const keyEndsInput = "key_ends"

// attentionKernelsInput is the graph input [1] with the address of what a device's attention launches its kernels by.
const attentionKernelsInput = "attention_kernels"

// Indices of PagedAttention's inputs head_sink, alibi_slopes and key_ends, which are ours, attention_metadata, and
// attention_kernels, which is ours.
const (
	sinksInput        = 11
	slopesInput       = 14
	keyEndsPosition   = 15
	cacheFormPosition = 16
	metadataInput     = 16
	kernelsPosition   = 17
)

// graph adds the whole model, from ids to logits.
func (b *builder) graph() {
	c := b.cfg
	if c.Encoder != nil {
		b.encoder()
		return
	}
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
	if b.attention.kernels {
		b.g.Input(attentionKernelsInput, onnx.Int64, onnx.Fixed(1))
	}
	cache := elements[b.Cache].graph
	if b.attention.anyForm {
		cache = onnx.Uint8
		b.g.Input(cacheFormInput, onnx.Int32, onnx.Fixed(1))
	}
	for i := range c.Layers {
		kinds := []string{"k_cache", "v_cache"}
		if c.Latent.Rank != 0 { // values are in the keys
			kinds = kinds[:1]
		}
		for _, kind := range kinds {
			b.g.Input(fmt.Sprintf("%s.%d", kind, i), cache, b.attention.cache(c, b.BlockSize)...)
		}
	}
	if b.places() {
		b.g.Input(placesInput, onnx.Int64, tokens, onnx.Fixed(placesPerToken))
	}
	if b.keyEnds() {
		b.g.Input(keyEndsInput, onnx.Int32, tokens)
	}
	b.rotaryTables()
	switch {
	case b.sections():
		b.turns()
	case b.byLength():
		b.g.Input(rotaryRowsInput, onnx.Int64, tokens)
		for _, name := range []string{"cos", "sin"} {
			table := []string{name + "_cache", rotaryRowsInput}
			b.node("Gather", "", name+"_rows", table, onnx.Attr{Name: "axis", Value: 0})
		}
	}
	if b.stretches() {
		b.stretch()
	}
	if b.rotatesFirst() {
		b.node("Gather", "", rotaryPlaces, []string{placesInput, b.ints(rotaryPlaces+".first", 0)},
			onnx.Attr{Name: "axis", Value: 1})
	}
	residual := b.scaled("embed.scaled", b.embed("input_ids"), c.Scales.Embed)
	if b.opt.embeddings {
		residual = b.replace(residual)
	}
	residual = b.positions(residual)
	residual = b.after("embed_norm", c.Tensors.Whole, c.Tensors.EmbedNorm, residual)
	update := "" // what the next norm adds to the residual first
	for i := range c.Layers {
		if b.err != nil {
			return
		}
		residual, update = b.layer(i, residual, update)
	}
	x, _ := b.norm("norm", c.Tensors.Whole, c.Tensors.Norm, residual, update)
	b.head(x)
	b.g.Output("logits", onnx.Float, onnx.Symbolic("logit_rows"), onnx.Fixed(c.Vocab))
	if b.attention.returnsCache {
		for i := range c.Layers {
			kinds := []string{"k_cache_out", "v_cache_out"}
			if c.Latent.Rank != 0 {
				kinds = kinds[:1]
			}
			for _, kind := range kinds {
				b.g.Output(fmt.Sprintf("%s.%d", kind, i), cache, b.attention.cache(c, b.BlockSize)...)
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

// layer adds one block and returns its residual and what the next norm adds to it.
func (b *builder) layer(i int, residual, update string) (string, string) {
	c, p, t := &b.cfg, graphPrefix(i), b.cfg.Tensors
	inLayer := func(part string) string { return t.InLayer(i, part) }
	last := i == c.Layers-1
	read, residual := b.norm(p+"attn_norm", inLayer, attnNorm(c, i), residual, update)
	x := ""
	if c.Latent.Rank != 0 {
		x = b.latent(i, p, read)
	} else {
		b.adaptable(p+"qkv", p+"qkv", read, false)
		x = b.attend(i, p, b.linear(p+"qkv", read, c.Hidden, c.QKVBias, c.QKV(i)...), "")
	}
	if last {
		// The rest works on each token separately, so only the tokens whose logits are
		// wanted are needed.
		x = b.rows(p+"attn_rows", x)
		residual = b.rows(p+"residual_rows", residual)
		if c.Parallel && t.MLPNorm == "" {
			read = b.rows(p+"read_rows", read)
		}
	}
	b.adaptable(p+"out", p+"out", x, last)
	x = b.linear(p+"out", x, c.OutWidth(), c.OutBias, c.Out(i))
	x = b.scaled(p+"out_scaled", b.after(p+"attn_post", inLayer, t.AttnPost, x), c.Scales.Residual)
	attended := x
	switch {
	case !c.Parallel:
		read, residual = b.norm(p+"mlp_norm", inLayer, t.MLPNorm, residual, x)
	case t.MLPNorm != "":
		read, _ = b.norm(p+"mlp_norm", inLayer, t.MLPNorm, residual, "")
	}
	x = b.mlp(i, read, last)
	x = b.scaled(p+"down_scaled", b.after(p+"mlp_post", inLayer, t.MLPPost, x), c.Scales.Residual)
	if c.Parallel {
		x = b.node("Add", "", p+"both", []string{attended, x})
	}
	return residual, x
}

// mlp adds layer i's MLP, or its mixture of them.
func (b *builder) mlp(i int, x string, last bool) string {
	c, p := &b.cfg, graphPrefix(i)
	if c.HasExperts(i) {
		return b.experts(i, x, last)
	}
	x = b.gate(b, i, x)
	b.adaptable(p+"down", p+"down", x, last)
	return b.linear(p+"down", x, c.Intermediate, c.MLPBias, c.Down(i))
}

// experts adds layer i's mixture. The router is never quantised: it chooses.
func (b *builder) experts(i int, x string, last bool) string {
	c, p, e := &b.cfg, graphPrefix(i), b.cfg.Experts
	score := func(name, x string) string {
		router := b.floats(named([]hf.Slice{c.Router(i)}, weightOf), c.Hidden)
		weight := b.g.External(p+"router.weight", b.element.graph, []int64{int64(e.N), int64(c.Hidden)}, router.codes)
		routed := []string{x, weight}
		if e.Bias {
			routed = append(routed, b.bias(p+"router.bias", []hf.Slice{c.Router(i)}))
		}
		return b.gemm(name, routed)
	}
	var out string
	if b.routes && !bySoftmax(e) {
		out = b.routed(i, x, score)
	} else {
		out = b.mixture(b, i, x, score(p+"router", x))
	}
	if e.Shared == 0 {
		return out
	}
	shared := b.shared(b, i, x)
	_, _, down := c.SharedExpert(i)
	b.adaptable(p+"shared.down", p+"shared.down", shared, last)
	shared = b.linear(p+"shared.down", shared, e.Shared, false, down)
	if e.SharedGate {
		m := b.floats(named([]hf.Slice{c.SharedRouter(i)}, weightOf), c.Hidden)
		weight := b.g.External(p+"shared.router.weight", b.element.graph, []int64{1, int64(c.Hidden)}, m.codes)
		b.adaptable(p+"shared.router", p+"shared.router", x, last)
		routed := b.gemm(p+"shared.router", []string{x, weight})
		share := b.inFloats(p+"shared.share", routed, func(name, x string) string {
			return b.node("Sigmoid", "", name, []string{x})
		})
		shared = b.node("Mul", "", p+"shared.weighted", []string{shared, share})
	}
	return b.node("Add", "", p+"experts.both", []string{out, shared})
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

// after normalises x, if there is such a norm.
func (b *builder) after(name string, full func(string) string, part, x string) string {
	if part != "" {
		x, _ = b.norm(name, full, part, x, "")
	}
	return x
}

// scaled multiplies x, unless by 1.
func (b *builder) scaled(name, x string, by float64) string {
	if by == 1 {
		return x
	}
	product := func(name, x string) string { return b.node("Mul", "", name, []string{x, b.constant(name+".by", by)}) }
	if fraction, _ := math.Frexp(by); fraction == 0.5 { // a power of two
		return product(name, x)
	}
	return b.inFloats(name, x, product)
}

// inFloats adds what compute does, in 32 bits: for numbers that 16 bits would round, for all tokens in the same
// direction.
func (b *builder) inFloats(name, x string, compute func(name, x string) string) string {
	if b.DType == models.Float32 {
		return compute(name, x)
	}
	own := b.element
	x = b.cast(name+".widened", x, onnx.Float)
	b.element = elements[models.Float32]
	x = compute(name+".wide", x)
	b.element = own
	return b.cast(name, x, own.graph)
}

// cast converts x to another type.
func (b *builder) cast(name, x string, to onnx.DType) string {
	return b.node("Cast", "", name, []string{x}, onnx.Attr{Name: "to", Value: int(to)})
}

// norm adds update, if there is one, to the residual and normalises the sum. It returns the
// normalised stream and the sum; without a norm both are the sum.
func (b *builder) norm(name string, full func(string) string, part, residual, update string) (normed, sum string) {
	if part == "" {
		if update == "" {
			return residual, residual
		}
		sum = b.node("Add", "", name+".sum", []string{residual, update})
		return sum, sum
	}
	kind := b.cfg.Norm
	weights := b.normWeights(func() (list []string) {
		if kind.Plain {
			list = append(list, b.repeated(name+".weight", 1, b.cfg.Hidden))
		} else {
			list = append(list, b.vector(name+".weight", kind.Offset, weightOf(full(part))))
		}
		if kind.Bias {
			list = append(list, b.vector(name+".bias", 0, biasOf(full(part))))
		}
		return list
	})
	if update != "" && b.widensNorms() {
		residual, update = b.node("Add", "", name+".sum", []string{residual, update}), ""
	}
	if update == "" {
		return b.normNode(name, kind.Layer, residual, weights), residual
	}
	inputs := append([]string{residual, update}, weights...)
	op := "SkipSimplifiedLayerNormalization"
	if kind.Layer {
		op = "SkipLayerNormalization"
	}
	sum = name + ".sum"
	b.g.Add(onnx.Node{Op: op, Domain: microsoftDomain, Name: name, Inputs: inputs, Outputs: []string{name, "", "", sum},
		Attrs: []onnx.Attr{b.epsilon()}})
	return name, sum
}

// widensNorms reports whether norms are computed in 32 bits. Their weights are sums then, which the checkpoint's type
// does not hold.
func (b *builder) widensNorms() bool { return b.cfg.Norm.Offset != 0 && b.DType != models.Float32 }

// normWeights adds the weights of a norm, in 32 bits where it is computed in those.
func (b *builder) normWeights(add func() []string) []string {
	if b.widensNorms() {
		own := b.element
		b.element = elements[models.Float32]
		defer func() { b.element = own }()
	}
	return add()
}

// normNode adds a norm of x's rows.
func (b *builder) normNode(name string, layer bool, x string, weights []string) string {
	compute := func(name, x string) string {
		op := "SimplifiedLayerNormalization"
		if layer {
			op = "LayerNormalization"
		}
		return b.node(op, "", name, append([]string{x}, weights...), onnx.Attr{Name: "axis", Value: -1}, b.epsilon(),
			onnx.Attr{Name: "stash_type", Value: 1})
	}
	if b.widensNorms() {
		return b.inFloats(name, x, compute)
	}
	return compute(name, x)
}

// epsilon is the attribute of the residual stream's norms.
func (b *builder) epsilon() onnx.Attr {
	return onnx.Attr{Name: "epsilon", Value: float32(b.cfg.Norm.Eps)}
}

// positions adds the vectors of the tokens' positions, if the model has a table of them.
func (b *builder) positions(x string) string {
	c := b.cfg
	if c.Tensors.Positions == "" {
		return x
	}
	table := all(weightOf(c.Tensors.Whole(c.Tensors.Positions)), c.MaxPositions+c.Learned)
	table[0].Offset, table[0].Rows = c.Learned, c.MaxPositions
	m := b.floats(table, c.Hidden)
	weight := b.g.External("positions.weight", b.element.graph, []int64{int64(m.n), int64(m.k)}, m.codes)
	return b.node("Add", "", "embed.placed", []string{x, b.byPlace("positions", weight)})
}

// attend adds layer i's attention to the packed queries, keys and values, or to queries and the keys of latent
// attention.
func (b *builder) attend(i int, p, qkv, key string) string {
	c, op, name := &b.cfg, b.attention, p+"attention"
	if c.Encoder != nil {
		return b.attendAll(i, p, qkv)
	}
	inputs := []string{qkv, key, "", fmt.Sprintf("k_cache.%d", i), fmt.Sprintf("v_cache.%d", i),
		"cu_seqlens", "past_lens", "block_table", "", "", "slot_mapping"}
	if c.Latent.Rank != 0 {
		inputs[4] = ""
	}
	rotates := c.Rotates(i) && !b.rotatesFirst()
	if rotates {
		inputs[8], inputs[9] = b.rotary("cos", i), b.rotary("sin", i)
	}
	weights := func(name, tensor string) string {
		if c.Norm.Plain {
			return b.repeated(name, 1, c.HeadDim)
		}
		return b.vector(name, c.Norm.Offset, weightOf(c.Tensors.InLayer(i, tensor)))
	}
	fused := c.QKNorm.Over == hf.QKNormHead && !c.QKNorm.Layer && !b.widensNorms() && !b.rotatesFirst() &&
		!b.stretches() // by the operator itself
	if fused {
		inputs = append(inputs, "", weights(p+"q_norm.weight", c.Tensors.QNorm),
			weights(p+"k_norm.weight", c.Tensors.KNorm))
	} else if c.QKNorm.Over != hf.QKNormNone {
		copy(inputs, b.normedHeads(i, p, qkv))
	} else if b.stretches() {
		copy(inputs, b.apart(p, qkv))
	}
	if b.stretches() {
		inputs[0] = b.inFloats(p+"q_stretched", inputs[0], func(name, x string) string {
			return b.node("Mul", "", name, []string{x, stretchRows})
		})
	}
	if c.ClipQKV != 0 {
		for k, x := range inputs[:3] {
			if x != "" {
				inputs[k] = b.clipped(fmt.Sprintf("%sclipped%d", p, k), x, c.ClipQKV)
			}
		}
	}
	at := func(index int, input string) {
		if len(inputs) <= index {
			inputs = append(slices.Grow(inputs, index+1), make([]string, index+1-len(inputs))...)
		}
		inputs[index] = input
	}
	if c.Tensors.Sinks != "" {
		at(sinksInput, b.vector(p+"sinks", 0, c.Tensors.InLayer(i, c.Tensors.Sinks)))
	}
	if c.ALiBi {
		at(slopesInput, b.slopes(p+"slopes"))
	}
	if b.keyEnds() {
		at(keyEndsPosition, keyEndsInput)
	}
	if op.anyForm {
		at(cacheFormPosition, cacheFormInput)
	}
	if op.metadata {
		at(metadataInput, "attention_metadata")
	}
	if op.kernels {
		at(kernelsPosition, attentionKernelsInput)
	}
	outputs := []string{name}
	if op.returnsCache {
		outputs = append(outputs, fmt.Sprintf("k_cache_out.%d", i), fmt.Sprintf("v_cache_out.%d", i))
		if c.Latent.Rank != 0 {
			outputs = outputs[:2]
		}
	}
	attrs := []onnx.Attr{{Name: "num_heads", Value: c.Heads}, {Name: "kv_num_heads", Value: c.KVHeads}}
	add := func(on bool, attr string, value any) {
		if on {
			attrs = append(attrs, onnx.Attr{Name: attr, Value: value})
		}
	}
	flag := map[bool]int{true: 1}
	add(op.headSize, "head_size", c.HeadDim)
	add(c.Latent.Rank != 0 && !op.rotatesEnd, "latent_size", c.Latent.Rank)
	add(c.Latent.Rank != 0 && op.rotatesEnd, "kv_cache_layout", "LATENT")
	add(c.Latent.Rank != 0 && op.rotatesEnd, "v_head_size", c.Latent.Rank)
	add(c.Latent.Rank != 0 && op.rotatesEnd, "rotary_offset", c.Latent.Rank)
	add(b.sections() || b.byLength(), "rotary_by_token", 1)
	add(true, "scale", float32(c.Scales.Attention))
	add(true, "local_window_size", cmp.Or(c.Windows[i], op.noWindow))
	add(true, "do_rotary", flag[rotates])
	add(true, "rotary_interleaved", flag[rotates && c.RopeOf(i).Interleaved])
	add(true, "qk_norm_epsilon", float32(c.Norm.Eps))
	add(c.AttentionCap != 0, "softcap", float32(c.AttentionCap))
	add(fused && c.QKNorm.AfterRotary && op.complete, "qk_norm_after_rotary", 1)
	add(c.Stretch.From != 0 && op.complete, "query_stretch_from", c.Stretch.From)
	add(c.Stretch.From != 0 && op.complete, "query_stretch", float32(c.Stretch.Factor))
	b.g.Add(onnx.Node{Op: "PagedAttention", Domain: op.domain, Name: name, Inputs: inputs, Outputs: outputs,
		Attrs: attrs})
	return name
}

// slopes adds what scores lose with each position, for each head: powers of 2^(-8/n) for n heads, where n is a power of
// two; heads beyond the largest such n have the odd powers for 2n (Press et al. 2022).
func (b *builder) slopes(name string) string {
	heads := b.cfg.Heads
	n := 1 << (bits.Len(uint(heads)) - 1)
	out := make([]float32, heads)
	for h := range out {
		if h < n {
			out[h] = float32(math.Exp2(-8 * float64(h+1) / float64(n)))
		} else {
			out[h] = float32(math.Exp2(-8 * float64(2*(h-n)+1) / float64(2*n)))
		}
	}
	b.data.Begin()
	b.write(name, out)
	return b.g.External(name, b.element.graph, []int64{int64(heads)}, b.data.End())
}

// constant adds a number of the element type.
func (b *builder) constant(name string, x float64) string {
	raw, err := b.element.stored.AppendFloats(nil, []float32{float32(x)})
	if err != nil {
		b.fail(fmt.Errorf("%s: %w", name, err))
	}
	return b.g.Constant(name, b.element.graph, nil, raw)
}

// rotary names the cosines, or sines, of layer i.
func (b *builder) rotary(function string, i int) string {
	switch {
	case b.sections(), b.byLength():
		return function + "_rows"
	case b.cfg.WindowRope != nil && b.cfg.RopeOf(i) == b.cfg.WindowRope:
		return function + "_cache_window"
	default:
		return function + "_cache"
	}
}

// rotaryTables adds the cosines and sines of every position. Angles are rounded to 32 bits before
// the cosine, as in training: at position 100,000 the rounding decides the third digit. Only the
// results are rounded to the element type.
func (b *builder) rotaryTables() {
	c := &b.cfg
	for _, variant := range []struct {
		rope   *hf.Rope
		suffix string
	}{{&c.Rope, ""}, {c.WindowRope, "_window"}} {
		used := func(i int) bool { return c.Rotates(i) && c.RopeOf(i) == variant.rope }
		if variant.rope == nil || !anyLayer(c.Layers, used) {
			continue
		}
		b.rotaryTable("cos_cache"+variant.suffix, variant.rope, math.Cos)
		sine := math.Sin
		if variant.rope.Backwards {
			sine = func(x float64) float64 { return -math.Sin(x) }
		}
		b.rotaryTable("sin_cache"+variant.suffix, variant.rope, sine)
	}
}

func anyLayer(layers int, is func(i int) bool) bool {
	for i := range layers {
		if is(i) {
			return true
		}
	}
	return false
}

// rotaryTable adds a function of the angles of a rotary embedding.
func (b *builder) rotaryTable(name string, rope *hf.Rope, of func(float64) float64) {
	b.data.Begin()
	rows, pairs := 0, 0
	add := func(rope hf.Rope, positions int) {
		frequencies := rope.Frequencies(b.cfg.HeadDim)
		row := make([]float32, len(frequencies))
		for pos := range positions {
			for i, f := range frequencies {
				angle := float32(pos) * float32(f)
				row[i] = float32(of(float64(angle))) * float32(rope.Attention)
			}
			b.write(name, row)
		}
		rows, pairs = rows+positions, len(frequencies)
	}
	if b.byLength() {
		add(*rope, b.cfg.OriginalPositions)
		add(rope.OfLong(), b.cfg.MaxPositions)
	} else {
		add(*rope, b.cfg.MaxPositions)
	}
	b.g.External(name, b.element.graph, []int64{int64(rows), int64(pairs)}, b.data.End())
}

// byLength reports whether rotary frequencies depend on the length of a sequence.
func (b *builder) byLength() bool { return b.cfg.OriginalPositions != 0 }

// reshape gives x other dimensions.
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
