package decoder

import (
	"fmt"
	"slices"

	"tgi/models"
	"tgi/models/hf"
	"tgi/models/onnx"
	"tgi/models/tensors"
)

// AdaptedFile is the name of a built model's second graph, over the same data file, in which low-rank adapters add to
// the products of its linear layers.
const AdaptedFile = "model-adapters.onnx"

// adaptersInput is the graph input [tokens] with the address of each token's adapter.
const adaptersInput = "adapters"

// Matrix is a matrix of a linear layer, to which an adapter may add.
type Matrix struct {
	// Module is its name in the checkpoint, such as model.layers.0.self_attn.q_proj.
	Module string
	// In and Out are its sizes. Its results are columns Offset to Offset+Out of the product that computes it.
	In, Out, Offset int
	// Parts are the pieces of the module's own rows that these results are, one after another, where they are not
	// simply all of them in their order: matrices of queries, keys and values that the checkpoint stacks, for instance.
	Parts []hf.Slice
}

// ModuleRows returns how many rows the module has.
func (m Matrix) ModuleRows() int {
	if m.Parts == nil {
		return m.Out
	}
	return m.Parts[0].Groups * m.Parts[0].Stride
}

// Order returns which of the module's rows each result is; nil if they are all of them in their order.
func (m Matrix) Order() []int {
	var order []int
	for _, p := range m.Parts {
		for g := range p.Groups {
			for r := range p.Rows {
				order = append(order, g*p.Stride+p.Offset+r)
			}
		}
	}
	return order
}

// adaptedProduct is a product of the graph that adapters may add to.
type adaptedProduct struct {
	name  string // of the node
	in    int
	parts []hf.Slice
}

// logitsProduct is the name of the product outside the layers.
const logitsProduct = "logits"

// adaptedProducts lists the products that adapters may add to, those of layer 0 first, and the head last. separate
// says that gate and up are products of their own.
func adaptedProducts(c *hf.Config, separate bool) (list []adaptedProduct) {
	add := func(name string, in int, parts ...hf.Slice) { list = append(list, adaptedProduct{name, in, parts}) }
	gated := func(p string, in int, parts []hf.Slice) {
		if len(parts) == 1 {
			add(p+"up", in, parts...)
		} else if separate {
			add(p+"gate", in, parts[0])
			add(p+"up", in, parts[1])
		} else {
			add(p+"gate_up", in, parts...)
		}
	}
	for i := range c.Layers {
		p := graphPrefix(i)
		add(p+"qkv", c.Hidden, c.QKV(i)...)
		add(p+"out", c.OutWidth(), c.Out(i))
		if !c.HasExperts(i) {
			gated(p, c.Hidden, c.GateUp(i))
			add(p+"down", c.Intermediate, c.Down(i))
			continue
		}
		if c.Experts.Shared == 0 {
			continue
		}
		gate, up, down := c.SharedExpert(i)
		gated(p+"shared.", c.Hidden, []hf.Slice{gate, up})
		add(p+"shared.down", c.Experts.Shared, down)
		if c.Experts.SharedGate {
			add(p+"shared.router", c.Hidden, c.SharedRouter(i))
		}
	}
	add(logitsProduct, c.Hidden, hf.Slice{Tensor: c.Tensors.Head, Groups: 1, Stride: c.Vocab, Rows: c.Vocab})
	return list
}

// matrices lists the matrices of a product. Neighbours that are parts of one tensor are one.
func (p adaptedProduct) matrices() (list []Matrix) {
	offset := 0
	for i, part := range p.parts {
		if i > 0 && part.Tensor == p.parts[i-1].Tensor {
			last := &list[len(list)-1]
			last.Out += part.Height()
			last.Parts = append(last.Parts, part)
		} else {
			list = append(list, Matrix{part.Tensor, p.in, part.Height(), offset, []hf.Slice{part}})
		}
		offset += part.Height()
	}
	for i := range list {
		m := &list[i]
		at := 0
		inOrder := !slices.ContainsFunc(m.Parts, func(s hf.Slice) bool {
			is := s.Offset == at && s.Groups == 1
			at += s.Rows
			return !is
		})
		if inOrder && m.ModuleRows() == m.Out {
			m.Parts = nil
		}
	}
	return list
}

// Matrices lists the matrices of a model to which adapters may add on a device, in the order in which the graph's nodes
// count them.
func Matrices(d models.Device, c hf.Config) (list []Matrix) {
	for _, p := range adaptedProducts(&c, d != models.CPU || !stacksGate(&c)) {
		list = append(list, p.matrices()...)
	}
	return list
}

// Head returns the matrix that computes logits, which may be the embedding's, or its bias.
func Head(ck *hf.Checkpoint, bias bool) (*tensors.Tensor, error) {
	t := ck.Config.Tensors
	if bias {
		return ck.Tensors.Tensor(biasOf(t.Head))
	}
	if ck.Config.Tied {
		return ck.Tensors.Tensor(weightOf(t.Whole(t.Embed)))
	}
	return ck.Tensors.Tensor(weightOf(t.Head))
}

// linearNode is a node of the graph that multiplies by matrices.
type linearNode struct {
	product, name, x string
	// selected says that it has only the tokens whose logits are wanted.
	selected bool
}

// adaptable notes that the node name, which is a product of adaptedProducts, multiplies x.
func (b *builder) adaptable(product, name, x string, selected bool) {
	b.products = append(b.products, linearNode{product, name, x, selected})
}

// kernelsInput is the graph input [1] with the address of what a device's operator for adapters needs.
const kernelsInput = "adapter_kernels"

// adapted returns the graph with a tgi:LoRA behind each product.
func (b *builder) adapted() *onnx.Graph {
	g := b.g.Clone()
	g.Input(adaptersInput, onnx.Int64, onnx.Symbolic("tokens"))
	if b.kernels {
		g.Input(kernelsInput, onnx.Int64, onnx.Fixed(1))
	}
	const selected = "adapters_rows"
	g.Prepend(onnx.Node{Op: "Gather", Name: selected, Inputs: []string{adaptersInput, logitRowsInput},
		Outputs: []string{selected}, Attrs: []onnx.Attr{{Name: "axis", Value: 0}}})
	first, counts, n := map[string]int{}, map[string]int{}, 0
	for _, p := range adaptedProducts(&b.cfg, b.kernels || !stacksGate(&b.cfg)) {
		first[p.name], counts[p.name] = n, len(p.matrices())
		n += counts[p.name]
	}
	for _, p := range b.products {
		ids, base := adaptersInput, p.name+".base"
		if p.selected {
			ids = selected
		}
		if counts[p.product] == 0 {
			b.fail(fmt.Errorf("BUG: decoder: %s is no product that adapters know", p.product))
		}
		inputs := []string{base, p.x, ids}
		if b.kernels {
			inputs = append(inputs, kernelsInput)
		}
		g.Interpose(p.name, base, onnx.Node{Op: "LoRA", Domain: tgiDomain, Name: fmt.Sprintf("%s.adapters", p.name),
			Inputs: inputs, Outputs: []string{p.name},
			Attrs: []onnx.Attr{{Name: "first", Value: first[p.product]}, {Name: "count", Value: counts[p.product]}}})
	}
	return g
}

// adaptedOpsets are the domains of its operators.
func (b *builder) adaptedOpsets() []onnx.Opset {
	own := onnx.Opset{Domain: tgiDomain, Version: 1}
	if slices.Contains(b.opsets, own) {
		return b.opsets
	}
	return append(b.opsets, own)
}
