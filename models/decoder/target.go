package decoder

import (
	"fmt"
	"math"
	"slices"

	"tgi/models"
	"tgi/models/hf"
	"tgi/models/onnx"
	"tgi/models/quant"
	"tgi/models/tensors"
)

// target is all that differs between devices. The graph is written once and asks its target, so that
// every architecture runs on all devices.
type target struct {
	models.Layout
	element element
	// format of the quantised linear layers and of an embedding that is tied to the head.
	format quant.Format
	// packed says that quantised matrices are in the form of our own operators, not in MatMulNBits'.
	packed    bool
	attention attentionOp
	// adapters says that there is an operator for low-rank adapters. kernels says that it reads where its kernels are.
	adapters, kernels bool
	// images says that the model reads images, if it has a vision tower; else it reads text only.
	images bool
	// opsets are the domains of the graph's operators.
	opsets []onnx.Opset
	// gate returns what the MLP's last matrix of layer i multiplies.
	gate func(b *builder, i int, x string) string
	// mixture returns what the experts of layer i make of x, by the router's scores; shared returns what the last
	// matrix of the MLP beside them multiplies.
	mixture func(b *builder, i int, x, scores string) string
	shared  func(b *builder, i int, x string) string
	// routes says that mixture knows the softmax of scores only: other ways to choose experts are made of nodes.
	routes bool
	// perHead multiplies k numbers of each head of x by a matrix of its own, [n, k], which part makes of the head's
	// rows of latent attention's keys and values. The tail numbers behind them stay, at the end that is rotated.
	perHead func(b *builder, i int, name, x string, k, n, tail int, part func(x []float32) []float32) string
}

// element is the number type of activations, and of everything that meets them: norms, biases,
// scales, rotary tables and unquantised matrices.
type element struct {
	graph onnx.DType
	// stored is the type in the data file. Tensors that the checkpoint has in this type are copied
	// as they are.
	stored tensors.DType
}

var elements = map[models.DType]element{
	models.Float32:  {onnx.Float, tensors.F32},
	models.BFloat16: {onnx.BFloat16, tensors.BF16},
	models.Float16:  {onnx.Float16, tensors.F16},
}

// attentionOp is a device's PagedAttention. Inputs 0 to 13 have the same meaning on all devices.
type attentionOp struct {
	domain string
	// cache returns the dimensions of one layer's keys, or values.
	cache func(c hf.Config, blockSize int) []onnx.Dim
	// anyForm says that the cache is bytes, and that an input says what they are; else it is of Layout.Cache.
	anyForm bool
	// noWindow is the local_window_size that lets a query see all keys.
	noWindow int
	// headSize says that the operator has an attribute head_size.
	headSize bool
	// metadata says that input 16 holds the bounds of the step's lengths.
	metadata bool
	// kernels says that input 17 holds the address of what the operator needs to launch its kernels.
	kernels bool
	// returnsCache says that the caches are outputs too, at the same addresses.
	returnsCache bool
	// byToken says that the operator takes cosines and sines of each token.
	byToken bool
	// complete says that the operator stretches queries and normalises heads that it has rotated; else nodes in front
	// of it do.
	complete bool
	// rotatesEnd says that the last numbers of latent attention's heads are rotated, where else the first ones are.
	rotatesEnd bool
}

// Check returns why a model of this configuration cannot be built for a device in a format.
func Check(d models.Device, w models.Weights, c hf.Config) error {
	if _, err := newTarget(d, w, c); err != nil {
		return err
	}
	return checkSizes(d, w, &c)
}

// checkSizes returns why a device's operators cannot have heads or experts of these sizes.
func checkSizes(d models.Device, w models.Weights, c *hf.Config) error {
	step, most, on := cpuHeadDimStep, cpuMaxHeadDim, ""
	if d == models.CUDA {
		step, most, on = cudaHeadDimStep, cudaMaxHeadDim, fmt.Sprintf("on %s ", d)
		if c.Latent.Rank != 0 { // which another kernel computes
			most = cpuMaxHeadDim
		}
	}
	if c.HeadDim%step != 0 || c.HeadDim > most {
		return fmt.Errorf("%s: head_dim is %d: %sit must be a multiple of %d up to %d", hf.ConfigFile, c.HeadDim, on, step,
			most)
	}
	if d != models.CUDA {
		return nil
	}
	for i := range c.Layers {
		if n := 2 * len(c.RopeOf(i).Frequencies(c.HeadDim)); c.Rotates(i) && n%cudaHeadDimStep != 0 {
			return fmt.Errorf("%s: the rotary embedding turns %d dimensions: on %s it must be a multiple of %d", hf.ConfigFile,
				n, d, cudaHeadDimStep)
		}
	}
	if c.Experts.N == 0 {
		return nil
	}
	if step = expertStep(w); c.Hidden%step != 0 { // what is within an expert is padded
		return fmt.Errorf("%s: hidden_size is %d: experts in %s on %s need a multiple of %d", hf.ConfigFile, c.Hidden, w, d,
			step)
	}
	return nil
}

// newTarget returns the target of a checkpoint's shape, or why it cannot be built for.
func newTarget(d models.Device, w models.Weights, c hf.Config) (target, error) {
	if err := d.Check(w); err != nil {
		return target{}, err
	}
	t := target{
		Layout: models.LayoutOf(d, w, c.HeadDim),
		format: quant.Format{Form: tensors.Form{Bits: 4}, Block: models.QuantBlock, RoundScale: tensors.RoundHalf},
		packed: true, attention: cpuAttention, adapters: true, images: true,
		gate: (*builder).stackedGate, mixture: (*builder).ownExperts, shared: (*builder).stackedShared,
		perHead: (*builder).ownPerHead,
		opsets:  []onnx.Opset{{Version: 21}, {Domain: microsoftDomain, Version: 1}, {Domain: tgiDomain, Version: 1}},
	}
	if _, known := gluActivations[c.Activation]; c.Experts.N > 0 && !known {
		return target{}, fmt.Errorf("%s: experts with the activation %s are not supported", hf.ConfigFile, c.Activation)
	}
	t.adapters = c.Latent.Rank == 0 // matrices of keys and values are in two products
	if c.Encoder != nil {
		t.adapters, t.images = false, false
	}
	if d == models.CUDA {
		if feature := cpuOnly(&c); feature != "" {
			return target{}, fmt.Errorf("%s: %s has %s, which runs on the CPU only", hf.ConfigFile, c.Architecture, feature)
		}
		t.packed, t.kernels, t.images, t.routes = false, true, false, true
		t.attention, t.gate, t.perHead = cudaAttention, (*builder).separateGate, (*builder).plainPerHead
		t.mixture, t.shared = (*builder).microsoftExperts, (*builder).separateShared
		if c.Latent.Rank != 0 { // no operator of our own
			t.attention.domain, t.attention.kernels = microsoftDomain, false
			t.opsets = t.opsets[:2:2]
		}
	}
	if w == models.Int8 {
		t.format.Bits = 8
	}
	t.element = elements[t.DType]
	return t, nil
}

// setBlock takes blocks of another size than the usual one.
func (t *target) setBlock(d models.Device, opt Options) error {
	switch {
	case opt.Block == 0:
		return nil
	case d != models.CPU || opt.Weights != models.Int8 && opt.Weights != models.Int4:
		return fmt.Errorf("blocks of %d: %s and %s on %s have such, not %s on %s", opt.Block, models.Int8, models.Int4,
			models.CPU, opt.Weights, d)
	case opt.Block != 64 && opt.Block != 128:
		return fmt.Errorf("blocks of %d: want 64 or 128", opt.Block)
	}
	t.format.Block = opt.Block
	return nil
}

// within returns the configuration that the graph is built of. Where rotary frequencies cannot depend on the length of
// a sequence, sequences end where they would change.
func (t target) within(c hf.Config) hf.Config {
	if c.OriginalPositions != 0 && !t.attention.byToken {
		c.MaxPositions, c.OriginalPositions = c.OriginalPositions, 0
	}
	return c
}

// cpuOnly names what a model needs that only our own operators, or no tested graph for other devices, has.
func cpuOnly(c *hf.Config) string {
	for _, f := range []struct {
		needed bool
		name   string
	}{
		{c.Encoder != nil, "no graph of a model that turns texts into vectors"},
		{c.ALiBi, "scores that fall with the distance (ALiBi)"},
		{c.Latent.Rank != 0 && c.Stretch.From != 0, "stretched queries of latent attention"},
		{c.Experts.N > 0 && c.Activation != hf.SiLU, "experts with another activation than silu"},
	} {
		if f.needed {
			return f.name
		}
	}
	return ""
}

// cudaFusedStep is what the rows of a quantised product must be a multiple of for CUDA's fused kernels.
const cudaFusedStep = 64

// cpuAttention is tgi:PagedAttention, of package runtime/ort.
var cpuAttention = attentionOp{
	domain: tgiDomain, headSize: true, byToken: true, anyForm: true, complete: true,
	cache: func(hf.Config, int) []onnx.Dim {
		return []onnx.Dim{onnx.Symbolic("blocks"), onnx.Symbolic("block_bytes")}
	},
}

// Bounds of head_dim of tgi:PagedAttention.
const (
	cpuHeadDimStep = 8
	cpuMaxHeadDim  = 576
)

// Bounds of head_dim: what com.microsoft:PagedAttention takes with a rotary embedding, and what
// FlashAttention does.
const (
	cudaHeadDimStep = 16
	cudaMaxHeadDim  = 256
)

// What com.microsoft:MoE aligns the experts' rows of 16-bit numbers to, and com.microsoft:QMoE those of integers.
const (
	cudaExpertStep      = 8
	cudaQuantExpertStep = 64
)

// expertStep is what CUDA's experts need the sizes of their matrices to be multiples of.
func expertStep(w models.Weights) int {
	if w.Quantised() {
		return cudaQuantExpertStep
	}
	return cudaExpertStep
}

// cudaAttention is tgi:PagedAttention for CUDA, of package runtime/ort, which is com.microsoft:PagedAttention, of ONNX
// Runtime, but for steps that decode; latent attention is that alone. Without the metadata some of its kernels copy
// lengths to the host and wait for them in every layer.
var cudaAttention = attentionOp{
	domain: tgiDomain, noWindow: -1, metadata: true, kernels: true, returnsCache: true, rotatesEnd: true,
	cache: func(c hf.Config, blockSize int) []onnx.Dim {
		return []onnx.Dim{onnx.Symbolic("blocks"), onnx.Fixed(blockSize), onnx.Fixed(c.KVHeads), onnx.Fixed(c.HeadDim)}
	},
}

// gluActivations are the numbers of the activations that tgi:GLU has.
var gluActivations = map[hf.Activation]int{hf.SiLU: 0, hf.GELUTanh: 1, hf.GELU: 2, hf.ReLU: 3}

// stacksGate reports whether tgi:GLU computes the MLP's activation, so that gate and up are one product.
func stacksGate(c *hf.Config) bool {
	_, glu := gluActivations[c.Activation]
	return c.Gated && glu
}

// stackedGate is one product and tgi:GLU, which reads both halves of its rows.
func (b *builder) stackedGate(i int, x string) string {
	c, p := &b.cfg, graphPrefix(i)
	if !stacksGate(c) {
		return b.separateGate(i, x)
	}
	number := gluActivations[c.Activation]
	b.adaptable(p+"gate_up", p+"gate_up", x, i == c.Layers-1)
	x = b.linear(p+"gate_up", x, c.Hidden, c.MLPBias, c.GateUp(i)...)
	return b.node("GLU", tgiDomain, p+"gated", []string{x}, onnx.Attr{Name: "activation", Value: number})
}

// gateFused makes one node of a product and the tgi:GLU behind it, if the halves of the product are whole groups of
// columns: the operator then computes both halves of a few columns and the activation together, and what adapters would
// add to is never written to memory.
func gateFused(product, glu onnx.Node) (onnx.Node, bool) {
	if product.Op != "MatMulQ" || glu.Op != "GLU" {
		return product, false
	}
	for _, a := range product.Attrs {
		if n, ok := a.Value.(int); a.Name == "N" && (!ok || n%(2*quant.GroupRows) != 0) {
			return product, false
		}
	}
	product.Attrs = append(slices.Clone(product.Attrs), glu.Attrs...)
	product.Outputs = glu.Outputs
	return product, true
}

// separateGate is made of operators that all devices have. One product for both halves would need a Split,
// which costs as many launches as the second product and copies all of its result.
func (b *builder) separateGate(i int, x string) string {
	c, p, last := &b.cfg, graphPrefix(i), i == b.cfg.Layers-1
	parts := c.GateUp(i)
	if !c.Gated {
		b.adaptable(p+"up", p+"up", x, last)
		return b.activation(i, p, b.linear(p+"up", x, c.Hidden, c.MLPBias, parts...))
	}
	b.adaptable(p+"gate", p+"gate", x, last)
	gate := b.linear(p+"gate", x, c.Hidden, c.MLPBias, parts[0])
	b.adaptable(p+"up", p+"up", x, last)
	up := b.linear(p+"up", x, c.Hidden, c.MLPBias, parts[1])
	return b.node("Mul", "", p+"gated", []string{b.activation(i, p, gate), up})
}

// activation adds the MLP's function.
func (b *builder) activation(i int, p, x string) string {
	switch b.cfg.Activation {
	case hf.GELU:
		return b.node("Gelu", microsoftDomain, p+"gelu", []string{x})
	case hf.GELUTanh:
		return b.node("FastGelu", microsoftDomain, p+"gelu", []string{x})
	case hf.ReLU:
		return b.node("Relu", "", p+"relu", []string{x})
	case hf.XIELU:
		return b.inFloats(p+"xielu", x, func(name, x string) string { return b.xielu(i, name, x) })
	case hf.ReLU2:
		positive := b.node("Relu", "", p+"relu", []string{x})
		return b.node("Mul", "", p+"relu2", []string{positive, positive})
	default:
		return b.node("QuickGelu", microsoftDomain, p+"silu", []string{x}, onnx.Attr{Name: "alpha", Value: float32(1)})
	}
}

// xielu adds Apertus' activation: p*x*x + beta*x above 0, and (n+beta)*(exp(x)-1-x) + beta*x below, with numbers p and
// n of layer i of which the checkpoint has what softplus makes them of, and beta 0.5 if it does not say.
func (b *builder) xielu(i int, name, x string) string {
	beta, act := 0.5, b.cfg.Tensors.InLayer(i, b.cfg.Tensors.Act)
	if own := act + ".beta"; b.src.set.Has(own) {
		if t := b.tensor(own); t != nil && t.Len() == 1 {
			beta = float64(b.widen(t, 0, 1)[0])
		}
	}
	number := func(part string, offset float64) string {
		v := 0.0
		if t := b.tensor(act + "." + part); t != nil {
			v = math.Log1p(math.Exp(float64(b.widen(t, 0, 1)[0])))
			b.progress(1)
		}
		return b.constant(name+"."+part, v+offset)
	}
	node := func(op, part string, inputs ...string) string { return b.node(op, "", name+"."+part, inputs) }
	above := node("Relu", "above", x)
	above = node("Mul", "grown", node("Mul", "square", above, above), number("alpha_p", 0))
	below := node("Min", "below", x, b.constant(name+".zero", 0))
	bent := node("Sub", "bent", node("Sub", "fall", node("Exp", "exp", below), b.constant(name+".one", 1)), below)
	both := node("Add", "both", above, node("Mul", "bent_by", bent, number("alpha_n", beta)))
	return b.node("Add", "", name, []string{both, node("Mul", "straight", x, b.constant(name+".beta", beta))})
}
