package hf

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strings"

	"tgi/models/tensors"
)

// Packing describes how the linear layers of a checkpoint are quantised, as quantization_config says; the zero value is
// not at all. Layers that it leaves out are told by their tensors.
type Packing struct {
	// Method is gptq, awq, compressed-tensors, fp8 or bitsandbytes.
	Method string
	// Bits of a code, for gptq and awq.
	Bits int
	// ZerosAreLess says that stored zero points are one less than they are (the first version of gptq's format).
	ZerosAreLess bool
}

// DType is the type that tensors of packed layers have in lists.
func (p Packing) DType() tensors.DType { return tensors.DType(strings.ToUpper(p.Method)) }

// packers make a weight of the tensors of a layer, by the method. Each names the tensor by which it knows a layer.
var packers = map[string]struct {
	mark string
	make func(p Packing, l layerTensors) (tensors.Computed, []int64, error)
}{
	"gptq":         {".qweight", packedGPTQ},
	"awq":          {".qweight", packedAWQ},
	"fp8":          {".weight_scale_inv", packedFP8},
	"bitsandbytes": {".weight.absmax", packedNF4},
}

// compressed are those of compressed-tensors, which has several formats.
var compressedPackers = []struct {
	mark string
	make func(p Packing, l layerTensors) (tensors.Computed, []int64, error)
}{
	{".weight_packed", packedCompressed},
	{".weight_scale", packedScaled},
}

// readPacking reads quantization_config.
func readPacking(o *object) (p Packing) {
	key := "quantization_config"
	if !o.has(key) {
		key = "compression_config" // an older name
	}
	q := o.object(key)
	if q == nil {
		return p
	}
	p.Method = q.string("quant_method", "")
	bad := func(format string, a ...any) { o.fail(key, format, a...) }
	switch p.Method {
	case "gptq", "awq":
		if p.Bits = q.int("bits", 4, 1, 8); p.Bits != 4 && (p.Bits != 8 || p.Method == "awq") {
			bad("%d bits are not supported for %s", p.Bits, p.Method)
		}
		if p.Method == "awq" {
			if version := strings.ToLower(q.string("version", "gemm")); version != "gemm" {
				bad("version is %q, want gemm", version)
			}
			break
		}
		p.ZerosAreLess = q.string("checkpoint_format", "gptq") != "gptq_v2"
	case "compressed-tensors":
		if format := q.string("format", ""); !slices.Contains([]string{"pack-quantized", "int-quantized",
			"float-quantized",
			"naive-quantized", "dense"}, format) {
			bad("format is %q, want pack-quantized, int-quantized, float-quantized or naive-quantized", format)
		}
	case "fp8":
	case "bitsandbytes":
		if !q.bool("load_in_4bit", q.bool("_load_in_4bit", false)) {
			bad("only bitsandbytes' 4 bits are supported")
		}
	default:
		bad("quant_method is %q, want gptq, awq, compressed-tensors, fp8 or bitsandbytes", p.Method)
	}
	if q.err != nil && o.err == nil {
		o.err = q.err
	}
	return p
}

// layerTensors are those of one layer.
type layerTensors struct {
	set  *tensors.Set
	name string // without the ends
}

// get returns a tensor by its end, of one of the types; nil if there is none and it is optional.
func (l layerTensors) get(end string, optional bool, types ...tensors.DType) (*tensors.Tensor, error) {
	if !l.set.Has(l.name + end) {
		if optional {
			return nil, nil
		}
		return nil, fmt.Errorf("tensor %q has no %q beside it: %w", l.name, l.name+end, tensors.ErrMissing)
	}
	t, err := l.set.Tensor(l.name + end)
	if err != nil {
		return nil, err
	}
	if !slices.Contains(types, t.DType) {
		return nil, fmt.Errorf("%s: %w: tensor %q has dtype %s, want %v", t.File, tensors.ErrFormat, t.Name, t.DType, types)
	}
	return t, nil
}

// wrong is an error about a tensor's shape.
func wrong(t *tensors.Tensor, want ...any) error {
	return fmt.Errorf("%s: %w: tensor %q has shape %v, want %v", t.File, tensors.ErrFormat, t.Name, t.Shape, want)
}

// floatTypes are those that scales have.
var floatTypes = []tensors.DType{tensors.F32, tensors.F16, tensors.BF16}

// unpack makes weights of packed layers.
func (p Packing) unpack(set *tensors.Set) error {
	list := compressedPackers
	if one, ok := packers[p.Method]; ok {
		list = list[:0:0]
		list = append(list, one)
	}
	for _, kind := range list {
		for _, name := range slices.Clone(set.Names()) {
			layer, ok := strings.CutSuffix(name, kind.mark)
			if !ok {
				continue
			}
			mark, err := set.Tensor(name)
			if err != nil {
				return err
			}
			computed, shape, err := kind.make(p, layerTensors{set, layer})
			if err != nil {
				return err
			}
			if computed == nil { // a scale of something else
				continue
			}
			for _, end := range layerParts {
				set.Remove(layer + end)
			}
			weight := layer + ".weight"
			set.Put(weight, tensors.NewComputed(weight, p.DType(), shape, mark.File, computed))
		}
	}
	return nil
}

// layerParts are the ends of the names of what layers are stored in. Scales of activations are not needed: those are
// rounded by their own size.
var layerParts = []string{".qweight", ".qzeros", ".scales", ".g_idx", ".weight_packed", ".weight_scale",
	".weight_shape",
	".weight_zero_point", ".weight_g_idx", ".weight_scale_inv", ".input_scale", ".input_zero_point", ".weight.absmax",
	".weight.quant_map", ".weight.nested_absmax", ".weight.nested_quant_map", ".weight.quant_state.bitsandbytes__nf4",
	".weight.quant_state.bitsandbytes__fp4"}

// grouped is a matrix of n rows and k columns of unsigned codes, of which group a row's neighbours share a scale and a
// zero point.
type grouped struct {
	n, k, group, bits int
	code              func(row, column int) int
	zero              func(row, group int) int
	scale             func(row, group int) float32
	groups            []int32 // of columns, if they are not in order; else nil
	symmetric         bool    // all zero points are in the middle
}

// Row implements tensors.Computed.
func (g *grouped) Row(dst []float32, i int) {
	for c := range dst {
		in := c / g.group
		if g.groups != nil {
			in = int(g.groups[c])
		}
		dst[c] = g.scale(i, in) * float32(g.code(i, c)-g.zero(i, in))
	}
}

// Form implements tensors.Computed.
func (g *grouped) Form() tensors.Form {
	if g.groups != nil || g.group%tensors.IntegerBlock != 0 {
		return tensors.Form{}
	}
	return tensors.Form{Bits: g.bits, Offsets: !g.symmetric}
}

// Integers implements tensors.Computed.
func (g *grouped) Integers(codes []int8, i, b int) (scale, offset float32) {
	at := b * tensors.IntegerBlock
	middle, in := 1<<(g.bits-1), at/g.group
	if g.bits == 4 && !g.symmetric {
		middle = 0 // as blocks with offsets have them
	}
	for c := range codes {
		codes[c] = int8(g.code(i, at+c) - middle)
	}
	scale = g.scale(i, in)
	return scale, scale * float32(middle-g.zero(i, in))
}

// isSymmetric looks at all zero points.
func (g *grouped) isSymmetric(groups int) bool {
	for i := range g.n {
		for b := range groups {
			if g.zero(i, b) != 1<<(g.bits-1) {
				return false
			}
		}
	}
	return true
}

// word returns number i of a tensor of 32-bit integers.
func word(t *tensors.Tensor, i int) uint32 { return binary.LittleEndian.Uint32(t.Bytes()[4*i:]) }

// scalesOf widens a tensor.
func scalesOf(t *tensors.Tensor) ([]float32, error) {
	x := make([]float32, t.Len())
	return x, t.Floats(x, 0)
}

// matrixOf returns the sizes of a matrix.
func matrixOf(t *tensors.Tensor) (rows, columns int, err error) {
	if len(t.Shape) != 2 || t.Shape[0] < 1 || t.Shape[1] < 1 {
		return 0, 0, wrong(t, "two dimensions")
	}
	return int(t.Shape[0]), int(t.Shape[1]), nil
}
