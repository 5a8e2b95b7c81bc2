package decoder

import (
	"fmt"

	"tgi/models"
	"tgi/models/hf"
	"tgi/models/onnx"
	"tgi/models/quant"
	"tgi/models/safetensors"
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
	// adapters says that there is an operator for low-rank adapters.
	adapters bool
	// images says that the model reads images, if it has a vision tower; else it reads text only.
	images bool
	// opsets are the domains of the graph's operators.
	opsets []onnx.Opset
	// gate returns silu(x * gate_proj) * (x * up_proj) of layer i.
	gate func(b *builder, i int, x string) string
}

// element is the number type of activations, and of everything that meets them: norms, biases,
// scales, rotary tables and unquantised matrices.
type element struct {
	graph onnx.DType
	// stored is the type in the data file. Tensors that the checkpoint has in this type are copied
	// as they are.
	stored safetensors.DType
}

var elements = map[models.DType]element{
	models.Float32:  {onnx.Float, safetensors.F32},
	models.BFloat16: {onnx.BFloat16, safetensors.BF16},
	models.Float16:  {onnx.Float16, safetensors.F16},
}

// attentionOp is a device's PagedAttention. Inputs 0 to 13 have the same meaning on all devices.
type attentionOp struct {
	domain string
	// cache returns the dimensions of one layer's keys, or values.
	cache func(c hf.Config, blockSize int) []onnx.Dim
	// noWindow is the local_window_size that lets a query see all keys.
	noWindow int
	// headSize says that the operator has an attribute head_size.
	headSize bool
	// metadata says that input 16 holds the bounds of the step's lengths.
	metadata bool
	// returnsCache says that the caches are outputs too, at the same addresses.
	returnsCache bool
}

// newTarget returns the target of a checkpoint's shape, or why it cannot be built for.
func newTarget(d models.Device, w models.Weights, c hf.Config) (target, error) {
	if err := d.Check(w); err != nil {
		return target{}, err
	}
	t := target{
		Layout: models.LayoutOf(d, w, c.HeadDim),
		format: quant.Format{Bits: 4, Block: models.QuantBlock, RoundScale: safetensors.RoundHalf},
		packed: true, attention: cpuAttention, adapters: true, images: true,
		gate:   (*builder).stackedGate,
		opsets: []onnx.Opset{{Version: 21}, {Domain: microsoftDomain, Version: 1}, {Domain: tgiDomain, Version: 1}},
	}
	if d == models.CUDA {
		t.packed, t.adapters, t.images = false, false, false
		t.attention, t.gate = cudaAttention, (*builder).separateGate
		t.opsets = t.opsets[:2] // no operator of our own
		if c.HeadDim%cudaHeadDimStep != 0 || c.HeadDim > cudaMaxHeadDim {
			return target{}, fmt.Errorf("%s: head_dim is %d: on %s it must be a multiple of %d up to %d",
				hf.ConfigFile, c.HeadDim, d, cudaHeadDimStep, cudaMaxHeadDim)
		}
	}
	if w == models.Int8 {
		t.format.Bits = 8
	}
	t.element = elements[t.DType]
	return t, nil
}

// cudaFusedStep is what the rows of a quantised product must be a multiple of for CUDA's fused kernels.
const cudaFusedStep = 64

// cpuAttention is tgi:PagedAttention, of package runtime/ort.
var cpuAttention = attentionOp{
	domain: tgiDomain, headSize: true,
	cache: func(c hf.Config, blockSize int) []onnx.Dim {
		return []onnx.Dim{onnx.Symbolic("blocks"), onnx.Fixed(c.KVHeads * c.HeadDim * blockSize)}
	},
}

// Bounds of head_dim: what com.microsoft:PagedAttention takes with a rotary embedding, and what
// FlashAttention does.
const (
	cudaHeadDimStep = 16
	cudaMaxHeadDim  = 256
)

// cudaAttention is com.microsoft:PagedAttention, of ONNX Runtime. Without the metadata some of its
// kernels copy lengths to the host and wait for them in every layer.
var cudaAttention = attentionOp{
	domain: microsoftDomain, noWindow: -1, metadata: true, returnsCache: true,
	cache: func(c hf.Config, blockSize int) []onnx.Dim {
		return []onnx.Dim{onnx.Symbolic("blocks"), onnx.Fixed(blockSize), onnx.Fixed(c.KVHeads), onnx.Fixed(c.HeadDim)}
	},
}

// stackedGate is one product and tgi:SwiGLU, which reads both halves of its rows.
func (b *builder) stackedGate(i int, x string) string {
	c, p, w := b.cfg, graphPrefix(i), layerPrefix(i)
	b.adaptable(i, p+"gate_up", x, 4, 2, i == c.Layers-1)
	x = b.linear(p+"gate_up", x, c.Hidden, c.MLPBias,
		part{w + "mlp.gate_proj", c.Intermediate},
		part{w + "mlp.up_proj", c.Intermediate})
	return b.node("SwiGLU", tgiDomain, p+"gated", []string{x})
}

// separateGate is made of operators that CUDA has. One product for both halves would need a Split,
// which costs as many launches as the second product and copies all of its result.
func (b *builder) separateGate(i int, x string) string {
	c, p, w := b.cfg, graphPrefix(i), layerPrefix(i)
	gate := b.linear(p+"gate", x, c.Hidden, c.MLPBias, part{w + "mlp.gate_proj", c.Intermediate})
	up := b.linear(p+"up", x, c.Hidden, c.MLPBias, part{w + "mlp.up_proj", c.Intermediate})
	silu := b.node("QuickGelu", microsoftDomain, p+"silu", []string{gate}, onnx.Attr{Name: "alpha", Value: float32(1)})
	return b.node("Mul", "", p+"gated", []string{silu, up})
}
