package decoder

import (
	"tgi/models/hf"
	"tgi/models/onnx"
	"tgi/models/quant"
)

// correctionInput is the index of tgi:Experts' input of what is added to shares for the choice of experts.
const correctionInput = 6

// ownExperts is tgi:Experts.
func (b *builder) ownExperts(i int, x, scores string) string {
	c, p, e := &b.cfg, graphPrefix(i), b.cfg.Experts
	first, second := named(c.ExpertGateUp(i), weightOf), named(c.ExpertDown(i), weightOf)
	var f quant.Format
	if b.opt.Weights.Quantised() {
		f = b.widest(first, second)
	}
	inputs := []string{x, scores,
		b.expertMatrices(p+"experts.gate_up", f, first, c.Hidden),
		b.expertMatrices(p+"experts.down", f, second, e.Intermediate)}
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
	add(f.Offsets, "offsets", 1)
	add(e.Sigmoid, "sigmoid", 1)
	add(e.Groups > 1, "groups", e.Groups)
	add(e.Groups > 1, "groups_per_token", e.GroupsPerToken)
	add(e.Groups > 1, "group_best", e.GroupBest)
	add(e.Scale != 0, "scale", float32(e.Scale))
	add(e.Least != 0, "least", float32(e.Least))
	return b.node("Experts", tgiDomain, p+"experts", inputs, attrs...)
}

// microsoftExperts is com.microsoft:MoE with the activation that it names swiglu: gate * sigmoid(alpha * gate) *
// (up + beta), both bounded by a limit if there is one. The rows of gates come before those of ups (swiglu_fusion 2).
func (b *builder) microsoftExperts(i int, x, scores string) string {
	c, p, e := &b.cfg, graphPrefix(i), b.cfg.Experts
	matrices := func(name string, parts []hf.Slice, rows, k int) string {
		m := b.floats(named(parts, weightOf), k)
		return b.g.External(name+".weight", b.element.graph, []int64{int64(e.N), int64(rows), int64(k)}, m.codes)
	}
	biases := func(name string, parts []hf.Slice, rows int) string {
		if !e.Bias {
			return ""
		}
		m := b.floats(biasesOf(parts), 1)
		return b.g.External(name+".bias", b.element.graph, []int64{int64(e.N), int64(rows)}, m.codes)
	}
	up, down := c.ExpertGateUp(i), c.ExpertDown(i)
	inner := e.Intermediate
	inputs := []string{x, scores,
		matrices(p+"experts.gate_up", up, 2*inner, c.Hidden), biases(p+"experts.gate_up", up, 2*inner),
		matrices(p+"experts.down", down, c.Hidden, inner), biases(p+"experts.down", down, c.Hidden)}
	attrs := []onnx.Attr{
		{Name: "k", Value: e.PerToken}, {Name: "normalize_routing_weights", Value: map[bool]int{true: 1}[e.Normalise]},
		{Name: "activation_type", Value: "swiglu"}, {Name: "swiglu_fusion", Value: 2},
	}
	alpha, beta := float32(1), float32(0)
	if e.Clamp.Limit != 0 {
		alpha, beta = float32(e.Clamp.Alpha), 1
		attrs = append(attrs, onnx.Attr{Name: "swiglu_limit", Value: float32(e.Clamp.Limit)})
	}
	attrs = append(attrs, onnx.Attr{Name: "activation_alpha", Value: alpha},
		onnx.Attr{Name: "activation_beta", Value: beta})
	return b.node("MoE", microsoftDomain, p+"experts", inputs, attrs...)
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
