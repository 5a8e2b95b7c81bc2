package decoder

import (
	"fmt"

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
}

// matricesPerLayer counts those of a layer.
func matricesPerLayer(c *hf.Config) int { return 5 + c.Projections() }

// Matrices lists the matrices of a model, in the order in which the graph's nodes count them: those of layer 0 first,
// and the head last. Parts of a tensor that stacks several matrices have its name.
func Matrices(c hf.Config) []Matrix {
	var list []Matrix
	stack := func(in int, parts ...hf.Slice) {
		offset := 0
		for _, p := range parts {
			list = append(list, Matrix{p.Tensor, in, p.Height(), offset})
			offset += p.Height()
		}
	}
	for i := range c.Layers {
		stack(c.Hidden, c.QKV(i)...)
		stack(c.Heads*c.HeadDim, c.Out(i))
		stack(c.Hidden, c.GateUp(i)...)
		stack(c.Intermediate, c.Down(i))
	}
	return append(list, Matrix{HeadModule, c.Hidden, c.Vocab, 0})
}

// HeadModule is the name of the matrix that computes logits.
const HeadModule = "lm_head"

// Head returns the matrix that computes logits, which may be the embedding's.
func Head(ck *hf.Checkpoint) (*tensors.Tensor, error) {
	t := ck.Config.Tensors
	if ck.Config.Tied {
		return ck.Tensors.Tensor(weightOf(t.Whole(t.Embed)))
	}
	return ck.Tensors.Tensor(weightOf(t.Head))
}

// linearNode is a node of the graph that multiplies by matrices.
type linearNode struct {
	name, x      string
	first, count int // of Matrices
	// selected says that it has only the tokens whose logits are wanted.
	selected bool
}

// adaptable notes that the node name multiplies x by matrices, the first of which is number first in its layer.
func (b *builder) adaptable(layer int, name, x string, first, count int, selected bool) {
	b.products = append(b.products, linearNode{name, x, layer*matricesPerLayer(&b.cfg) + first, count, selected})
}

// adapted returns the graph with a tgi:LoRA behind each product.
func (b *builder) adapted() *onnx.Graph {
	g := b.g.Clone()
	g.Input(adaptersInput, onnx.Int64, onnx.Symbolic("tokens"))
	const selected = "adapters_rows"
	g.Prepend(onnx.Node{Op: "Gather", Name: selected, Inputs: []string{adaptersInput, logitRowsInput},
		Outputs: []string{selected}, Attrs: []onnx.Attr{{Name: "axis", Value: 0}}})
	for _, p := range b.products {
		ids, base := adaptersInput, p.name+".base"
		if p.selected {
			ids = selected
		}
		g.Interpose(p.name, base, onnx.Node{Op: "LoRA", Domain: tgiDomain, Name: fmt.Sprintf("%s.adapters", p.name),
			Inputs: []string{base, p.x, ids}, Outputs: []string{p.name},
			Attrs: []onnx.Attr{{Name: "first", Value: p.first}, {Name: "count", Value: p.count}}})
	}
	return g
}
