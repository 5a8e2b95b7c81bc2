package decoder

import (
	"tgi/models"
	"tgi/models/hf"
	"tgi/models/onnx"
	"tgi/models/quant"
	"tgi/models/tensors"
)

// correctionInput is the index of tgi:Experts' input of what is added to shares for the choice of experts.
const correctionInput = 6

// ownExperts is tgi:Experts.
func (b *builder) ownExperts(i int, x, scores string) string {
	c, p, e := &b.cfg, graphPrefix(i), b.cfg.Experts
	first, second := named(c.ExpertGateUp(i), weightOf), named(c.ExpertDown(i), weightOf)
	var f, down quant.Format
	if b.opt.Weights.Quantised() {
		f, down = b.widest(first), b.widest(second)
	}
	inputs := []string{x, scores,
		b.expertMatrices(p+"experts.gate_up", f, first, c.Hidden),
		b.expertMatrices(p+"experts.down", down, second, e.Intermediate)}
	if e.Bias {
		inputs = append(inputs, b.bias(p+"experts.gate_up.bias", c.ExpertGateUp(i)),
			b.bias(p+"experts.down.bias", c.ExpertDown(i)))
	}
	if e.Corrected {
		for len(inputs) < correctionInput {
			inputs = append(inputs, "")
		}
		inputs = append(inputs, b.vector(p+"router.correction", 0, c.Tensors.InLayer(i, c.Tensors.RouterCorrection)))
	}
	attrs := []onnx.Attr{
		{Name: "experts", Value: e.N}, {Name: "per_token", Value: e.PerToken}, {Name: "hidden", Value: c.Hidden},
		{Name: "inner", Value: e.Intermediate}, {Name: "normalise", Value: map[bool]int{true: 1}[e.Normalise]},
		{Name: "bits", Value: f.Bits}, {Name: "block_size", Value: f.Block},
		{Name: "activation", Value: gluActivations[c.Activation]},
		{Name: "alpha", Value: float32(e.Clamp.Alpha)}, {Name: "limit", Value: float32(e.Clamp.Limit)},
	}
	add := func(on bool, attr string, value any) {
		if on {
			attrs = append(attrs, onnx.Attr{Name: attr, Value: value})
		}
	}
	add(f.Offsets, "offsets", offsetsAttr(f))
	add(down.Bits != f.Bits, "down_bits", down.Bits)
	add(f.Table != tensors.NoTable, "table", int(f.Table))
	add(down.Table != f.Table, "down_table", int(down.Table))
	add(offsetsAttr(down) != offsetsAttr(f), "down_offsets", offsetsAttr(down))
	add(e.Sigmoid, "sigmoid", 1)
	add(e.Groups > 1, "groups", e.Groups)
	add(e.Groups > 1, "groups_per_token", e.GroupsPerToken)
	add(e.Groups > 1, "group_best", e.GroupBest)
	add(e.Scale != 0, "scale", float32(e.Scale))
	add(e.Least != 0, "least", float32(e.Least))
	return b.node("Experts", tgiDomain, p+"experts", inputs, attrs...)
}

// microsoftExperts is com.microsoft:MoE, or QMoE for integers, with the activation that they name swiglu: gate *
// sigmoid(alpha * gate) * (up + beta), both bounded by a limit if there is one. QMoE's rows of gates come before those
// of ups (swiglu_fusion 2). It lays the codes out for its kernels when the model opens (weights_prepacked 0), and takes
// the middle of their range for weight 0 where no zero points are named. MoE's rows of gates and ups take turns
// (swiglu_fusion 1), and it has fp16 in all formats: see docs/rationale/gpu.md.
func (b *builder) microsoftExperts(i int, x, scores string) string {
	c, p, e, own := &b.cfg, graphPrefix(i), b.cfg.Experts, b.element
	b.element = expertElement
	defer func() { b.element = own }()
	if own != b.element {
		x = b.cast(p+"experts.narrow", x, b.element.graph)
		if bySoftmax(e) {
			scores = b.cast(p+"router.narrow", scores, b.element.graph)
		}
	}
	inner, fusion := upTo(e.Intermediate, expertStep(b.opt.Weights)), 1
	if b.opt.Weights.Quantised() {
		fusion = 2
	}
	inputs := []string{x, scores}
	add := func(name string, parts []hf.Slice, k, each, rows, columns int, turns bool) {
		weights, done := b.arranged(named(parts, weightOf), k, each, rows, columns, turns)
		inputs = append(inputs, b.matricesOf(name, weights, height(weights)/e.N, columns)...)
		done()
		if !e.Bias {
			inputs = append(inputs, "")
			return
		}
		biases, done := b.arranged(biasesOf(parts), 1, each, rows, 1, turns)
		m := b.floats(biases, 1)
		done()
		dims := []int64{int64(e.N), int64(m.n / e.N)}
		inputs = append(inputs, b.g.External(name+".bias", b.element.graph, dims, m.codes))
	}
	add(p+"experts.gate_up", c.ExpertGateUp(i), c.Hidden, e.Intermediate, inner, c.Hidden, fusion == 1)
	add(p+"experts.down", c.ExpertDown(i), e.Intermediate, c.Hidden, c.Hidden, inner, false)
	attrs := []onnx.Attr{
		{Name: "k", Value: e.PerToken}, {Name: "normalize_routing_weights", Value: map[bool]int{true: 1}[e.Normalise]},
		{Name: "activation_type", Value: "swiglu"}, {Name: "swiglu_fusion", Value: fusion},
	}
	alpha, beta := float32(1), float32(0)
	if e.Clamp.Limit != 0 {
		alpha, beta = float32(e.Clamp.Alpha), 1
		attrs = append(attrs, onnx.Attr{Name: "swiglu_limit", Value: float32(e.Clamp.Limit)})
	}
	attrs = append(attrs, onnx.Attr{Name: "activation_alpha", Value: alpha},
		onnx.Attr{Name: "activation_beta", Value: beta})
	op := "MoE"
	if b.opt.Weights.Quantised() {
		op = "QMoE"
		attrs = append(attrs, onnx.Attr{Name: "expert_weight_bits", Value: b.format.Bits},
			onnx.Attr{Name: "block_size", Value: b.format.Block}, onnx.Attr{Name: "weights_prepacked", Value: 0})
	}
	if own == b.element {
		return b.node(op, microsoftDomain, p+"experts", inputs, attrs...)
	}
	return b.cast(p+"experts", b.node(op, microsoftDomain, p+"experts.mixed", inputs, attrs...), own.graph)
}

// expertElement is the type of all numbers of CUDA's experts.
var expertElement = elements[models.Float16]

// matricesOf adds a matrix of each expert, of so many rows of k: its numbers, or codes and scales.
func (b *builder) matricesOf(name string, parts []hf.Slice, rows, k int) []string {
	n, each := int64(b.cfg.Experts.N), int64(rows)
	if !b.opt.Weights.Quantised() {
		m := b.floats(parts, k)
		return []string{b.g.External(name+".weight", b.element.graph, []int64{n, each, int64(k)}, m.codes)}
	}
	m := b.blocks(b.format, parts, k)
	return []string{
		b.g.External(name+".codes", onnx.Uint8, []int64{n, each, int64(b.format.RowBytes(k))}, m.codes),
		b.g.External(name+".scales", b.element.graph, []int64{n, each, int64(b.format.Blocks(k))}, m.scales),
	}
}

// stackedShared is one product and tgi:GLU.
func (b *builder) stackedShared(i int, x string) string {
	c, p := &b.cfg, graphPrefix(i)
	gate, up, _ := c.SharedExpert(i)
	b.adaptable(p+"shared.gate_up", p+"shared.gate_up", x, i == c.Layers-1)
	x = b.linear(p+"shared.gate_up", x, c.Hidden, false, gate, up)
	return b.node("GLU", tgiDomain, p+"shared.gated", []string{x},
		onnx.Attr{Name: "activation", Value: gluActivations[c.Activation]})
}

// separateShared is made of operators that all devices have, as separateGate is.
func (b *builder) separateShared(i int, x string) string {
	c, p := &b.cfg, graphPrefix(i)
	gate, up, _ := c.SharedExpert(i)
	product := func(name string, part hf.Slice) string {
		b.adaptable(p+name, p+name, x, i == c.Layers-1)
		return b.linear(p+name, x, c.Hidden, false, part)
	}
	gated := b.activation(i, p+"shared.", product("shared.gate", gate))
	return b.node("Mul", "", p+"shared.gated", []string{gated, product("shared.up", up)})
}
