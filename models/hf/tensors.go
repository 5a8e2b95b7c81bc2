package hf

import (
	"fmt"
	"strings"
)

// Tensors names the parts of a decoder in a checkpoint, without ".weight" and ".bias". An empty name is a part that the
// family does not have: where the norms' names are, there the norms are.
type Tensors struct {
	// Base comes before the names of everything but Head. Checkpoints without the head may lack it.
	Base string
	// Embed is the table of tokens, Positions that of positions, EmbedNorm the norm behind them, Norm the one before
	// the head.
	Embed, Positions, EmbedNorm, Norm, Head string
	// Types is the table of kinds of tokens, Relative that of biases for classes of distances, [classes, heads].
	Types, Relative string
	// Layer is the format of what comes before the names of a layer's parts.
	Layer string
	// AttnNorm and MLPNorm come before, AttnPost and MLPPost after.
	AttnNorm, AttnPost, MLPNorm, MLPPost string
	// Q, K and V are matrices of their own, or QKV stacks them: all queries, all keys, all values; or, with QKVByHead,
	// for each key head its queries, its key and its value.
	Q, K, V, QKV string
	// With QVKGroups the heads are divided into so many groups, each with its queries, values and keys, in that order.
	QKVByHead    bool
	QVKGroups    int
	QNorm, KNorm string
	// QDown, QUp, KVDown and KVUp are the matrices of latent attention, QDownNorm and KVDownNorm the norms between; Q
	// is in place of the first two where queries are made of the residual stream.
	QDown, QUp, KVDown, KVUp, QDownNorm, KVDownNorm string
	Out                                             string
	// Act begins the names of the numbers of an activation that has some.
	Act string
	// Gate and Up are matrices of their own, or GateUp stacks them.
	Gate, Up, GateUp, Down string
	// Router scores experts. ExpertGate, ExpertUp and ExpertDown are formats with an expert's number, or without one
	// and stack those of all; or ExpertGateUp and ExpertDown do.
	Router, ExpertGate, ExpertUp, ExpertGateUp, ExpertDown string
	// ExpertsBare says that the stacked ones are [experts, in, out], without ".weight".
	ExpertsBare bool
	// Sinks are scores of attention that take weight and have no value.
	Sinks string
	// SharedGate, SharedUp and SharedDown are the MLP beside the experts, SharedRouter what it is multiplied by.
	// SharedGateUp stacks two of them.
	SharedGate, SharedUp, SharedGateUp, SharedDown, SharedRouter string
	// RouterCorrection is the whole name of what is added to shares for the choice of experts.
	RouterCorrection string
	// Transposed says that a layer's matrices are [in, out].
	Transposed bool
}

// llama names the tensors of LlamaForCausalLM and most that came after it.
var llama = Tensors{
	Base: "model.", Embed: "embed_tokens", Norm: "norm", Head: "lm_head", Layer: "layers.%d.",
	AttnNorm: "input_layernorm", MLPNorm: "post_attention_layernorm",
	Q: "self_attn.q_proj", K: "self_attn.k_proj", V: "self_attn.v_proj", Out: "self_attn.o_proj",
	Gate: "mlp.gate_proj", Up: "mlp.up_proj", Down: "mlp.down_proj",
	QNorm: "self_attn.q_norm", KNorm: "self_attn.k_norm",
}

// with returns the tensors after some changes.
func (t Tensors) with(change func(t *Tensors)) Tensors {
	change(&t)
	return t
}

// InLayer returns the full name of a part of layer i.
func (t Tensors) InLayer(i int, part string) string { return t.Base + fmt.Sprintf(t.Layer, i) + part }

// Whole returns the full name of a part outside the layers.
func (t Tensors) Whole(part string) string {
	if part == t.Head {
		return part
	}
	return t.Base + part
}

// Slice is a matrix that is a part of a tensor: of each of Groups groups of Stride rows, Rows rows from Offset on.
type Slice struct {
	// Tensor is the tensor's name without ".weight".
	Tensor                       string
	Groups, Stride, Offset, Rows int
	// Transposed says that the tensor's rows are its columns.
	Transposed bool
	// Outer, if not 0, is the size of a dimension before the tensor's rows, that of experts, and Part the number in it.
	Outer, Part int
	// Bare says that the tensor's name has no ".weight", and that of its bias "_bias" in place of ".bias".
	Bare bool
}

// Height returns the number of the matrix's rows.
func (s Slice) Height() int { return s.Groups * s.Rows }

// whole is all of a tensor.
func whole(tensor string, rows int) Slice {
	return Slice{Tensor: tensor, Groups: 1, Stride: rows, Rows: rows}
}

// matrix is all of a tensor of layer i.
func (c *Config) matrix(i int, part string, rows int) Slice {
	s := whole(c.Tensors.InLayer(i, part), rows)
	s.Transposed = c.Tensors.Transposed
	return s
}

// cut divides groups of rows of a tensor of layer i into matrices of the given heights in each group.
func (c *Config) cut(i int, part string, groups int, heights ...int) []Slice {
	var out []Slice
	stride := 0
	for _, h := range heights {
		out = append(out, Slice{Tensor: c.Tensors.InLayer(i, part), Groups: groups, Offset: stride, Rows: h,
			Transposed: c.Tensors.Transposed})
		stride += h
	}
	for k := range out {
		out[k].Stride = stride
	}
	return out
}

// QKV returns layer i's matrices of queries, keys and values.
func (c *Config) QKV(i int) []Slice {
	t, q, kv := c.Tensors, c.Heads*c.HeadDim, c.KVHeads*c.HeadDim
	switch {
	case t.QKV == "":
		return []Slice{c.matrix(i, t.Q, q), c.matrix(i, t.K, kv), c.matrix(i, t.V, kv)}
	case t.QKVByHead:
		return c.cut(i, t.QKV, c.KVHeads, q/c.KVHeads, c.HeadDim, c.HeadDim)
	case t.QVKGroups > 0:
		n := t.QVKGroups
		parts := c.cut(i, t.QKV, n, q/n, kv/n, kv/n)
		return []Slice{parts[0], parts[2], parts[1]}
	default:
		return c.cut(i, t.QKV, 1, q, kv, kv)
	}
}

// GateUp returns layer i's matrices of the gate, if the MLP has one, and of what it multiplies.
func (c *Config) GateUp(i int) []Slice {
	t, n := c.Tensors, c.Intermediate
	switch {
	case !c.Gated:
		return []Slice{c.matrix(i, t.Up, n)}
	case t.GateUp != "":
		return c.cut(i, t.GateUp, 1, n, n)
	default:
		return []Slice{c.matrix(i, t.Gate, n), c.matrix(i, t.Up, n)}
	}
}

// Out returns layer i's matrix behind the attention.
func (c *Config) Out(i int) Slice { return c.matrix(i, c.Tensors.Out, c.Hidden) }

// Down returns layer i's matrix behind the MLP's activation.
func (c *Config) Down(i int) Slice { return c.matrix(i, c.Tensors.Down, c.Hidden) }

// ExpertGateUp returns the matrices of gate and up of all experts of layer i, and ExpertDown those of down, one expert
// after another: equally many for each.
func (c *Config) ExpertGateUp(i int) []Slice {
	t, e := c.Tensors, c.Experts
	if t.ExpertGateUp != "" {
		all := c.stacked(i, t.ExpertGateUp, 2*e.Intermediate)
		if !c.Experts.Alternate {
			return all
		}
		var out []Slice
		for _, one := range all {
			one.Groups, one.Stride, one.Rows = e.Intermediate, 2, 1
			up := one
			up.Offset = 1
			out = append(out, one, up)
		}
		return out
	}
	gate, up := c.each(i, t.ExpertGate, e.Intermediate), c.each(i, t.ExpertUp, e.Intermediate)
	var out []Slice
	for k := range e.N {
		out = append(out, gate[k], up[k])
	}
	return out
}

// each returns the matrices of one part of all experts of layer i.
func (c *Config) each(i int, part string, rows int) []Slice {
	if !strings.Contains(part, "%d") {
		return c.stacked(i, part, rows)
	}
	out := make([]Slice, c.Experts.N)
	for k := range out {
		out[k] = c.matrix(i, fmt.Sprintf(part, k), rows)
	}
	return out
}

// ExpertDown is described at ExpertGateUp.
func (c *Config) ExpertDown(i int) []Slice {
	return c.each(i, c.Tensors.ExpertDown, c.Hidden)
}

// stacked cuts a tensor of layer i with the matrices of all experts.
func (c *Config) stacked(i int, part string, rows int) []Slice {
	out := make([]Slice, c.Experts.N)
	for k := range out {
		out[k] = whole(c.Tensors.InLayer(i, part), rows)
		out[k].Outer, out[k].Part = len(out), k
		out[k].Bare, out[k].Transposed = c.Tensors.ExpertsBare, c.Tensors.ExpertsBare && !c.Experts.Packed
	}
	return out
}

// Router returns layer i's matrix of the experts' scores.
func (c *Config) Router(i int) Slice { return c.matrix(i, c.Tensors.Router, c.Experts.N) }

// SharedExpert returns the matrices of the MLP beside the experts of layer i: gate, up and down.
func (c *Config) SharedExpert(i int) (gate, up, down Slice) {
	t, n := c.Tensors, c.Experts.Shared
	if t.SharedGateUp != "" {
		both := c.cut(i, t.SharedGateUp, 1, n, n)
		return both[0], both[1], c.matrix(i, t.SharedDown, c.Hidden)
	}
	return c.matrix(i, t.SharedGate, n), c.matrix(i, t.SharedUp, n), c.matrix(i, t.SharedDown, c.Hidden)
}

// SharedRouter returns layer i's matrix of what that MLP is multiplied by.
func (c *Config) SharedRouter(i int) Slice { return c.matrix(i, c.Tensors.SharedRouter, 1) }

// Projections returns how many matrices the MLP's activation reads: two with a gate.
func (c *Config) Projections() int {
	if c.Gated {
		return 2
	}
	return 1
}

// Size is that of some equal matrices.
type Size struct{ Rows, Cols, Count int }

// Sizes returns the sizes of the products' matrices of layer i, as they are computed: stacked where they read the same.
func (c *Config) Sizes(i int) []Size {
	q, kv, h, e := c.Heads*c.HeadDim, c.KVHeads*c.HeadDim, c.Hidden, c.Experts
	out := []Size{{q + 2*kv, h, 1}, {h, q, 1}}
	if l := c.Latent; l.Rank != 0 {
		out = []Size{{l.Rank + l.Rope, h, 1}, {l.Rank, l.Nope, c.Heads}, {l.Value, l.Rank, c.Heads},
			{h, c.OutWidth(), 1}}
		if queries := c.Heads * (l.Nope + l.Rope); l.QRank == 0 {
			out = append(out, Size{queries, h, 1})
		} else {
			out = append(out, Size{l.QRank, h, 1}, Size{queries, l.QRank, 1})
		}
	}
	if !c.HasExperts(i) {
		return append(out, Size{c.Projections() * c.Intermediate, h, 1}, Size{h, c.Intermediate, 1})
	}
	out = append(out, Size{2 * e.Intermediate, h, e.N}, Size{h, e.Intermediate, e.N})
	if e.Shared > 0 {
		out = append(out, Size{2 * e.Shared, h, 1}, Size{h, e.Shared, 1})
	}
	return out
}
