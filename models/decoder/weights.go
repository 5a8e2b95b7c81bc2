package decoder

import (
	"encoding/binary"
	"math"

	"tgi/models"
	"tgi/models/onnx"
	"tgi/models/quant"
	"tgi/models/safetensors"
)

// quantBlock is the block size. With 128 the CPU kernels for 8-bit activations batch better than
// with the usual 32, at the same size and little more error.
const quantBlock = 128

// Accuracy levels of MatMulNBits: accuracyInt8 rounds activations to 8 bits per block, which is an
// order of magnitude faster on CPUs.
const (
	accuracyFloat = 1
	accuracyInt8  = 4
)

// chunkFloats limits the weights that are widened at a time.
const chunkFloats = 4 << 20

// part is one matrix of a linear layer that stacks the rows of several.
type part struct {
	prefix string // tensor name without ".weight"
	rows   int
}

// linear multiplies x, of width k, by the packed matrices and adds their
// biases. The result has the node's name.
func (b *builder) linear(name, x string, k int, bias bool, parts ...part) string {
	n, weights := 0, make([]string, len(parts))
	for i, p := range parts {
		n += p.rows
		weights[i] = p.prefix + ".weight"
	}
	inputs := []string{x}
	var m matrix
	if b.opt.Weights == models.FP32 {
		m = b.floats(weights, n, k)
		inputs = append(inputs, b.g.External(name+".weight", onnx.Float, []int64{int64(n), int64(k)}, m.codes))
		if bias {
			inputs = append(inputs, b.bias(name+".bias", n, parts))
		}
		return b.gemm(name, inputs)
	}
	m = b.blocks(b.format(), weights, n, k)
	codes, scales := b.codes(name, m)
	inputs = append(inputs, codes, scales)
	if bias {
		inputs = append(inputs, "", "", b.bias(name+".bias", n, parts))
	}
	return b.matMulNBits(name, m, inputs)
}

// gemm multiplies by a matrix in the checkpoint's own layout, [out, in].
func (b *builder) gemm(name string, inputs []string) string {
	return b.node("Gemm", "", name, inputs, onnx.Attr{Name: "transB", Value: 1})
}

func (b *builder) matMulNBits(name string, m matrix, inputs []string) string {
	accuracy := accuracyInt8
	if b.opt.exact {
		accuracy = accuracyFloat
	}
	return b.node("MatMulNBits", microsoftDomain, name, inputs,
		onnx.Attr{Name: "K", Value: m.k}, onnx.Attr{Name: "N", Value: m.n},
		onnx.Attr{Name: "bits", Value: m.format.Bits}, onnx.Attr{Name: "block_size", Value: m.format.Block},
		onnx.Attr{Name: "accuracy_level", Value: accuracy})
}

// format of the linear layers.
func (b *builder) format() quant.Format {
	if b.opt.Weights == models.Int8 {
		return quant.Format{Bits: 8, Block: quantBlock}
	}
	return quant.Format{Bits: 4, Block: quantBlock}
}

// matrix is one [n, k] matrix in the data file; scales is empty for floats.
type matrix struct {
	n, k          int
	format        quant.Format
	codes, scales onnx.Ref
}

// codes declares a quantised matrix in the shapes that MatMulNBits reads.
func (b *builder) codes(name string, m matrix) (codes, scales string) {
	n, blocks := int64(m.n), int64(m.format.Blocks(m.k))
	bytes := int64(m.format.Block * m.format.Bits / 8)
	return b.g.External(name+".codes", onnx.Uint8, []int64{n, blocks, bytes}, m.codes),
		b.g.External(name+".scales", onnx.Float, []int64{n, blocks}, m.scales)
}

// embed looks up the tokens' vectors.
func (b *builder) embed(ids string) string {
	c := b.cfg
	if b.opt.Weights == models.FP32 {
		m := b.floats([]string{nameEmbed}, c.Vocab, c.Hidden)
		b.g.External("embed.weight", onnx.Float, []int64{int64(c.Vocab), int64(c.Hidden)}, m.codes)
		return b.node("Gather", "", "embed", []string{"embed.weight", ids}, onnx.Attr{Name: "axis", Value: 0})
	}
	// A table that is only used for lookups costs no time, so it gets 8 bits.
	format := quant.Format{Bits: 8, Block: quantBlock}
	if c.Tied {
		format = b.format()
	}
	b.table = b.blocks(format, []string{nameEmbed}, c.Vocab, c.Hidden)
	return b.lookup(ids, b.table)
}

// lookup adds the gather from a quantised table. Rows are padded to whole blocks; a Slice after
// the lookup removes the padding.
func (b *builder) lookup(ids string, m matrix) string {
	codes := b.g.External("embed.codes", onnx.Uint8, []int64{int64(m.n), int64(m.format.RowBytes(m.k))}, m.codes)
	scales := b.g.External("embed.scales", onnx.Float, []int64{int64(m.n), int64(m.format.Blocks(m.k))}, m.scales)
	x := b.node("GatherBlockQuantized", microsoftDomain, "embed", []string{codes, ids, scales},
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

// head multiplies by the output matrix. If it is tied to the embedding, the file holds the matrix
// once, and so does memory as far as the runtime shares initializers.
func (b *builder) head(x string) {
	c := b.cfg
	shape := []int64{int64(c.Vocab), int64(c.Hidden)}
	switch {
	case b.opt.Weights == models.FP32 && c.Tied:
		b.gemm("logits", []string{x, "embed.weight"})
	case b.opt.Weights == models.FP32:
		m := b.floats([]string{nameHead}, c.Vocab, c.Hidden)
		b.gemm("logits", []string{x, b.g.External("head.weight", onnx.Float, shape, m.codes)})
	default:
		m := b.table
		if !c.Tied {
			m = b.blocks(b.format(), []string{nameHead}, c.Vocab, c.Hidden)
		}
		codes, scales := b.codes("head", m)
		b.matMulNBits("logits", m, []string{x, codes, scales})
	}
}

// vector adds a norm's weight as floats.
func (b *builder) vector(name, tensor string) string {
	t := b.tensor(tensor)
	if t == nil {
		return name
	}
	ref := b.floats([]string{tensor}, 1, t.Len()).codes
	return b.g.External(name, onnx.Float, []int64{int64(t.Len())}, ref)
}

// bias packs the biases of the parts.
func (b *builder) bias(name string, n int, parts []part) string {
	tensors := make([]string, len(parts))
	for i, p := range parts {
		tensors[i] = p.prefix + ".bias"
	}
	return b.g.External(name, onnx.Float, []int64{int64(n)}, b.floats(tensors, 1, n).codes)
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

// chunks calls do with the tensors' elements, widened to 32 bits, in pieces of whole rows of k.
func (b *builder) chunks(tensors []string, k int, do func(x []float32)) {
	size := max(chunkFloats/k, 1) * k
	for _, name := range tensors {
		t := b.tensor(name)
		if t == nil {
			return
		}
		for at, n := 0, t.Len(); at < n && b.err == nil; {
			x := grow(&b.wide, min(size, n-at))
			if err := t.Floats(x, at); err != nil {
				b.fail(err)
				return
			}
			do(x)
			at += len(x)
			b.progress(len(x))
		}
	}
}

// floats writes tensors as one [n, k] matrix of 32-bit floats.
func (b *builder) floats(tensors []string, n, k int) matrix {
	b.data.Begin()
	b.chunks(tensors, k, func(x []float32) {
		b.bytes = appendFloats(b.bytes[:0], x)
		if _, err := b.data.Write(b.bytes); err != nil {
			b.fail(err)
		}
	})
	return matrix{n: n, k: k, codes: b.data.End()}
}

// blocks writes tensors as one quantised [n, k] matrix.
func (b *builder) blocks(f quant.Format, tensors []string, n, k int) matrix {
	b.data.Begin()
	var scales []byte
	b.chunks(tensors, k, func(x []float32) {
		rows := len(x) / k
		codes, s := grow(&b.bytes, rows*f.RowBytes(k)), make([]float32, rows*f.Blocks(k))
		b.quantError.Merge(f.Rows(codes, s, x, k))
		if _, err := b.data.Write(codes); err != nil {
			b.fail(err)
		}
		scales = appendFloats(scales, s)
	})
	m := matrix{n: n, k: k, format: f, codes: b.data.End()}
	m.scales = b.data.Tensor(scales)
	return m
}

func appendFloats(out []byte, x []float32) []byte {
	for _, v := range x {
		out = binary.LittleEndian.AppendUint32(out, math.Float32bits(v))
	}
	return out
}

// grow returns the first n elements of a buffer that it keeps for the next call.
func grow[T any](buf *[]T, n int) []T {
	if cap(*buf) < n {
		*buf = make([]T, n)
	}
	return (*buf)[:n]
}
