package decoder

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	"tgi/models"
	"tgi/models/onnx"
	"tgi/models/quant"
	"tgi/models/safetensors"
)

// chunkFloats limits the weights that are widened at a time.
const chunkFloats = 4 << 20

// part is one matrix of a linear layer that stacks the rows of several.
type part struct {
	prefix string // tensor name without ".weight"
	rows   int
}

// linear multiplies x, of width k, by the packed matrices and adds their
// biases. The result has the given name.
func (b *builder) linear(name, x string, k int, bias bool, parts ...part) string {
	n, weights := 0, make([]string, len(parts))
	for i, p := range parts {
		n += p.rows
		weights[i] = p.prefix + ".weight"
	}
	inputs := []string{x}
	if !b.opt.Weights.Quantised() {
		m := b.floats(weights, n, k)
		inputs = append(inputs, b.g.External(name+".weight", b.element.graph, []int64{int64(n), int64(k)}, m.codes))
		if bias {
			inputs = append(inputs, b.bias(name+".bias", n, parts))
		}
		return b.gemm(name, inputs)
	}
	m := b.blocks(b.format, weights, n, k)
	if !bias {
		return b.quantised(name, x, m, name, "")
	}
	return b.quantised(name, x, m, name, b.bias(name+".bias", n, parts))
}

// gemm multiplies by a matrix in the checkpoint's own layout, [out, in].
func (b *builder) gemm(name string, inputs []string) string {
	return b.node("Gemm", "", name, inputs, onnx.Attr{Name: "transB", Value: 1})
}

// quantised multiplies x by a quantised matrix, whose initializers have the given prefix, and adds a bias if there is
// one.
func (b *builder) quantised(name, x string, m matrix, prefix, bias string) string {
	if b.packed {
		inputs := []string{x, b.packedMatrix(prefix, m)}
		if bias != "" {
			inputs = append(inputs, bias)
		}
		return b.node("MatMulQ", tgiDomain, name, inputs, packedAttrs(m)...)
	}
	product := name
	if bias != "" { // with a bias of their own CUDA's fused kernels are not taken
		product = name + ".product"
	}
	out := b.node("MatMulNBits", microsoftDomain, product, append([]string{x}, b.codes(prefix, m)...),
		onnx.Attr{Name: "K", Value: m.k}, onnx.Attr{Name: "N", Value: m.n},
		onnx.Attr{Name: "bits", Value: m.format.Bits}, onnx.Attr{Name: "block_size", Value: m.format.Block})
	if bias == "" {
		return out
	}
	return b.node("Add", "", name, []string{out, bias})
}

// packedMatrix declares a matrix in the form that tgi:MatMulQ and tgi:GatherQ read, unless it is declared: a look-up
// and the product with a tied head read the same bytes.
func (b *builder) packedMatrix(name string, m matrix) string {
	if m.initializer != "" {
		return m.initializer
	}
	return b.g.External(name+".weight", onnx.Uint8, []int64{m.codes.Length}, m.codes)
}

func packedAttrs(m matrix) []onnx.Attr {
	return []onnx.Attr{{Name: "N", Value: m.n}, {Name: "K", Value: m.k}, {Name: "bits", Value: m.format.Bits},
		{Name: "block_size", Value: m.format.Block}}
}

// matrix is one [n, k] matrix in the data file; scales is empty for floats, and for packed ones, which hold their own.
type matrix struct {
	n, k          int
	format        quant.Format
	codes, scales onnx.Ref
	initializer   string // its name, if it is declared
}

// codes declares a quantised matrix in the shapes that MatMulNBits reads: codes, scales and, where CUDA's fused kernels
// do not take its rows, zero points. They refuse them when they run, but do not take nodes with zero points.
func (b *builder) codes(name string, m matrix) []string {
	n, blocks := int64(m.n), int64(m.format.Blocks(m.k))
	bytes := int64(m.format.Block * m.format.Bits / 8)
	inputs := []string{
		b.g.External(name+".codes", onnx.Uint8, []int64{n, blocks, bytes}, m.codes),
		b.g.External(name+".scales", b.element.graph, []int64{n, blocks}, m.scales),
	}
	if m.k%cudaFusedStep != 0 {
		inputs = append(inputs, b.zeroPoints(name+".zero_points", m))
	}
	return inputs
}

// embed looks up the tokens' vectors.
func (b *builder) embed(ids string) string {
	c := b.cfg
	if !b.opt.Weights.Quantised() {
		m := b.floats([]string{nameEmbed}, c.Vocab, c.Hidden)
		b.g.External("embed.weight", b.element.graph, []int64{int64(c.Vocab), int64(c.Hidden)}, m.codes)
		return b.node("Gather", "", "embed", []string{"embed.weight", ids}, onnx.Attr{Name: "axis", Value: 0})
	}
	// A table that is only used for lookups costs no time, so it gets 8 bits.
	format := b.format
	if !c.Tied {
		format.Bits = 8
	}
	b.table = b.blocks(format, []string{nameEmbed}, c.Vocab, c.Hidden)
	if b.packed {
		b.table.initializer = b.packedMatrix("embed", b.table)
	}
	return b.lookup(ids, b.table)
}

// lookup adds the gather from a quantised table. MatMulNBits' rows are padded to whole blocks; a Slice after the lookup
// removes the padding. Without zero points CUDA takes code 0 for weight 0.
func (b *builder) lookup(ids string, m matrix) string {
	if b.packed {
		return b.node("GatherQ", tgiDomain, "embed", []string{m.initializer, ids}, packedAttrs(m)...)
	}
	codes := b.g.External("embed.codes", onnx.Uint8, []int64{int64(m.n), int64(m.format.RowBytes(m.k))}, m.codes)
	scales := b.g.External("embed.scales", b.element.graph, []int64{int64(m.n), int64(m.format.Blocks(m.k))}, m.scales)
	x := b.node("GatherBlockQuantized", microsoftDomain, "embed",
		[]string{codes, ids, scales, b.zeroPoints("embed.zero_points", m)},
		onnx.Attr{Name: "bits", Value: m.format.Bits}, onnx.Attr{Name: "block_size", Value: m.format.Block},
		onnx.Attr{Name: "gather_axis", Value: 0}, onnx.Attr{Name: "quantize_axis", Value: 1})
	if m.k%m.format.Block == 0 {
		return x
	}
	scalar := func(name string, v int) string {
		return b.g.Constant(name, onnx.Int64, []int64{1}, binary.LittleEndian.AppendUint64(nil, uint64(v)))
	}
	return b.node("Slice", "", "embed.cut", []string{x, scalar("embed.from", 0), scalar("embed.to", m.k),
		scalar("embed.axis", 1)})
}

// zeroPoints adds the code of weight 0 for every block of a matrix.
func (b *builder) zeroPoints(name string, m matrix) string {
	rowBytes := (m.format.Blocks(m.k)*m.format.Bits + 7) / 8
	zero := byte(0x80)
	if m.format.Bits == 4 {
		zero = 0x88
	}
	row := bytes.Repeat([]byte{zero}, rowBytes)
	b.data.Begin()
	for range m.n {
		b.writeBytes(row)
	}
	return b.g.External(name, onnx.Uint8, []int64{int64(m.n), int64(rowBytes)}, b.data.End())
}

// head multiplies by the output matrix. If it is tied to the embedding, the file holds the matrix
// once, and so does memory as far as the runtime shares initializers. Logits are 32-bit floats.
func (b *builder) head(x string) {
	if b.DType == models.Float32 {
		b.headProduct("logits", x)
		return
	}
	b.headProduct("head", x)
	b.node("Cast", "", "logits", []string{"head"}, onnx.Attr{Name: "to", Value: int(onnx.Float)})
}

// headProduct multiplies x by the output matrix.
func (b *builder) headProduct(name, x string) {
	c := b.cfg
	b.adaptable(c.Layers, name, x, 0, 1, true)
	shape := []int64{int64(c.Vocab), int64(c.Hidden)}
	switch {
	case !b.opt.Weights.Quantised() && c.Tied:
		b.gemm(name, []string{x, "embed.weight"})
	case !b.opt.Weights.Quantised():
		m := b.floats([]string{nameHead}, c.Vocab, c.Hidden)
		b.gemm(name, []string{x, b.g.External("head.weight", b.element.graph, shape, m.codes)})
	default:
		m := b.table
		if !c.Tied {
			m = b.blocks(b.format, []string{nameHead}, c.Vocab, c.Hidden)
		}
		b.quantised(name, x, m, "head", "")
	}
}

// vector adds a norm's weight.
func (b *builder) vector(name, tensor string) string {
	t := b.tensor(tensor)
	if t == nil {
		return name
	}
	ref := b.floats([]string{tensor}, 1, t.Len()).codes
	return b.g.External(name, b.element.graph, []int64{int64(t.Len())}, ref)
}

// bias packs the biases of the parts.
func (b *builder) bias(name string, n int, parts []part) string {
	tensors := make([]string, len(parts))
	for i, p := range parts {
		tensors[i] = p.prefix + ".bias"
	}
	return b.g.External(name, b.element.graph, []int64{int64(n)}, b.floats(tensors, 1, n).codes)
}

// tensor returns a tensor; newSource has checked that it exists.
func (b *builder) tensor(name string) *safetensors.Tensor {
	t, err := b.src.set.Tensor(name)
	if err != nil {
		b.fail(err)
		return nil
	}
	return t
}

// chunks calls do for pieces of the tensors, whole rows of k: n elements from number at on.
func (b *builder) chunks(tensors []string, k int, do func(t *safetensors.Tensor, at, n int)) {
	size := max(chunkFloats/k, 1) * k
	for _, name := range tensors {
		t := b.tensor(name)
		if t == nil {
			return
		}
		for at, all := 0, t.Len(); at < all && b.err == nil; {
			n := min(size, all-at)
			do(t, at, n)
			at += n
			b.progress(n)
		}
	}
}

// widen returns elements of a tensor as 32-bit floats, valid until the next call.
func (b *builder) widen(t *safetensors.Tensor, at, n int) []float32 {
	x := grow(&b.wide, n)
	if err := t.Floats(x, at); err != nil {
		b.fail(err)
	}
	return x
}

// write writes numbers of the named tensor to the data file, in the element type.
func (b *builder) write(name string, x []float32) {
	var err error
	if b.bytes, err = b.element.stored.AppendFloats(b.bytes[:0], x); err != nil {
		b.fail(fmt.Errorf("%s: %w: weights %s keep the range of 32-bit floats", name, err, models.BF16))
		return
	}
	b.writeBytes(b.bytes)
}

func (b *builder) writeBytes(p []byte) {
	if _, err := b.data.Write(p); err != nil {
		b.fail(err)
	}
}

// floats writes tensors as one [n, k] matrix of the element type.
func (b *builder) floats(tensors []string, n, k int) matrix {
	b.data.Begin()
	b.chunks(tensors, k, func(t *safetensors.Tensor, at, n int) {
		if t.DType == b.element.stored {
			size := t.DType.Size()
			b.writeBytes(t.Bytes()[at*size : (at+n)*size])
			return
		}
		b.write(fmt.Sprintf("tensor %q", t.Name), b.widen(t, at, n))
	})
	return matrix{n: n, k: k, codes: b.data.End()}
}

// blocks writes tensors as one quantised [n, k] matrix.
func (b *builder) blocks(f quant.Format, tensors []string, n, k int) matrix {
	b.data.Begin()
	var scales []byte
	packer := f.Packer(b.data, k)
	b.chunks(tensors, k, func(t *safetensors.Tensor, at, n int) {
		rows := n / k
		codes, s, x := grow(&b.bytes, rows*f.RowBytes(k)), grow(&b.scales, rows*f.Blocks(k)), b.widen(t, at, n)
		if i := slices.IndexFunc(x, func(v float32) bool { return v-v != 0 }); i >= 0 {
			b.fail(fmt.Errorf("tensor %q: weight %d is %g, which no block of integers can hold", t.Name, at+i, x[i]))
			return
		}
		b.quantError.Merge(f.Rows(codes, s, x, k))
		narrow, err := b.narrowScales(t, s)
		switch {
		case err != nil:
		case b.packed:
			err = packer.Add(codes, narrow)
		default:
			b.writeBytes(codes)
			scales = append(scales, narrow...)
		}
		if err != nil {
			b.fail(err)
		}
	})
	if err := packer.Close(); err != nil {
		b.fail(err)
	}
	m := matrix{n: n, k: k, format: f, codes: b.data.End()}
	if !b.packed {
		m.scales = b.data.Tensor(scales)
	}
	return m
}

// narrowScales returns a tensor's scales as 16-bit floats.
func (b *builder) narrowScales(t *safetensors.Tensor, scales []float32) ([]byte, error) {
	for _, s := range scales {
		if math.IsInf(float64(s), 0) || s != s {
			return nil, fmt.Errorf("tensor %q has weights that no block of integers can hold: their scale would be %g",
				t.Name, s)
		}
	}
	out, err := safetensors.F16.AppendFloats(nil, scales)
	if err != nil {
		return nil, fmt.Errorf("scales of tensor %q: %w", t.Name, err)
	}
	return out, nil
}

// grow returns the first n elements of a buffer that it keeps for the next call.
func grow[T any](buf *[]T, n int) []T {
	if cap(*buf) < n {
		*buf = make([]T, n)
	}
	return (*buf)[:n]
}
