package decoder

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	"tgi/models"
	"tgi/models/hf"
	"tgi/models/onnx"
	"tgi/models/quant"
	"tgi/models/tensors"
)

// chunkFloats limits the weights that are widened at a time.
const chunkFloats = 4 << 20

// linear multiplies x, of width k, by the stacked matrices and adds their biases. The result has the given name.
func (b *builder) linear(name, x string, k int, bias bool, parts ...hf.Slice) string {
	weights, inputs := named(parts, weightOf), []string{x}
	if !b.opt.Weights.Quantised() {
		m := b.floats(weights, k)
		inputs = append(inputs, b.g.External(name+".weight", b.element.graph, []int64{int64(m.n), int64(k)}, m.codes))
		if bias {
			inputs = append(inputs, b.bias(name+".bias", parts))
		}
		return b.gemm(name, inputs)
	}
	groups := b.byFormat(weights)
	product := func(name string, weights, parts []hf.Slice) string {
		m := b.blocks(b.formatOf(weights[0]), weights, k)
		if !bias {
			return b.quantised(name, x, m, name, "")
		}
		return b.quantised(name, x, m, name, b.bias(name+".bias", parts))
	}
	if len(groups) == 1 {
		return product(name, weights, parts)
	}
	var outs []string
	for i, n := range groups {
		outs = append(outs, product(fmt.Sprintf("%s.%d", name, i), weights[:n], parts[:n]))
		weights, parts = weights[n:], parts[n:]
	}
	return b.node("Concat", "", name, outs, onnx.Attr{Name: "axis", Value: 1})
}

// formatOf returns the format of a matrix: the builder's, or with models.Stored that which holds the tensor's own
// blocks, and 8 bits for tensors that have none.
func (b *builder) formatOf(part hf.Slice) quant.Format {
	f := b.format
	if b.opt.Weights != models.Stored {
		return f
	}
	f.Bits = 8
	if t := b.tensor(part.Tensor); t != nil && t.Form().Bits != 0 {
		f.Form = t.Form()
	}
	return f
}

// widest returns the format that holds what matrices of several have.
func (b *builder) widest(parts []hf.Slice) quant.Format {
	f := b.formatOf(parts[0])
	for _, p := range parts {
		own := b.formatOf(p)
		if own.Bits != f.Bits && (own.Bits == tensors.SixBits || f.Bits == tensors.SixBits) {
			own.Bits = 8 // no other format has factors
			f.Bits = 8
		}
		if own.Table != f.Table { // whose numbers take a byte
			own.Bits, f.Bits, f.Table = 8, 8, tensors.NoTable
		}
		f.Bits, f.Offsets = max(f.Bits, own.Bits), f.Offsets || own.Offsets
		f.Factors = f.Factors && own.Factors
	}
	return f
}

// byFormat counts how many of the parts, one after another, have the same format.
func (b *builder) byFormat(parts []hf.Slice) []int {
	counts := []int{1}
	for i := 1; i < len(parts); i++ {
		if b.formatOf(parts[i-1]).Form == b.formatOf(parts[i]).Form {
			counts[len(counts)-1]++
		} else {
			counts = append(counts, 1)
		}
	}
	return counts
}

// height counts the rows of stacked parts.
func height(parts []hf.Slice) int {
	n := 0
	for _, p := range parts {
		n += p.Height()
	}
	return n
}

// named returns the slices of the tensors that hold the parts' weights or biases.
func named(parts []hf.Slice, tensor func(part string) string) []hf.Slice {
	out := slices.Clone(parts)
	for i, p := range parts {
		out[i].Tensor = nameOf(p, tensor)
	}
	return out
}

// all is a whole tensor of n rows.
func all(tensor string, n int) []hf.Slice {
	return []hf.Slice{{Tensor: tensor, Groups: 1, Stride: n, Rows: n}}
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
	list := []onnx.Attr{{Name: "N", Value: m.n}, {Name: "K", Value: m.k}, {Name: "bits", Value: m.format.Bits},
		{Name: "block_size", Value: m.format.Block}}
	if m.format.Offsets {
		list = append(list, onnx.Attr{Name: "offsets", Value: offsetsAttr(m.format)})
	}
	if m.format.Table != tensors.NoTable {
		list = append(list, onnx.Attr{Name: "table", Value: int(m.format.Table)})
	}
	return list
}

// offsetsAttr is how the operators call a format's offsets: 0 for none.
func offsetsAttr(f quant.Format) int {
	switch {
	case f.Factors:
		return 2
	case f.Offsets:
		return 1
	}
	return 0
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
	table := all(weightOf(c.Tensors.Whole(c.Tensors.Embed)), c.Vocab)
	if !b.opt.Weights.Quantised() {
		m := b.floats(table, c.Hidden)
		b.g.External("embed.weight", b.element.graph, []int64{int64(c.Vocab), int64(c.Hidden)}, m.codes)
		return b.node("Gather", "", "embed", []string{"embed.weight", ids}, onnx.Attr{Name: "axis", Value: 0})
	}
	// A table that is only used for lookups costs no time, so it gets 8 bits.
	format := b.formatOf(table[0])
	if !c.Tied && b.opt.Weights != models.Stored {
		format.Bits = 8
	}
	b.table = b.blocks(format, table, c.Hidden)
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
	c := b.cfg
	narrow, changed := b.DType != models.Float32, c.Scales.Logits != 1 || c.LogitCap != 0
	if !narrow && !changed {
		b.headProduct("logits", x)
		return
	}
	b.headProduct("head", x)
	if out := "head"; changed {
		if narrow {
			out = b.node("Cast", "", "head.wide", []string{out}, onnx.Attr{Name: "to", Value: int(onnx.Float)})
		}
		b.finish(out)
		return
	}
	b.node("Cast", "", "logits", []string{"head"}, onnx.Attr{Name: "to", Value: int(onnx.Float)})
}

// finish scales and caps the logits. The last node is named logits.
func (b *builder) finish(x string) {
	c := b.cfg
	number := func(name string, v float64) string {
		return b.g.Constant(name, onnx.Float, nil, binary.LittleEndian.AppendUint32(nil, math.Float32bits(float32(v))))
	}
	if c.LogitCap == 0 {
		b.node("Mul", "", "logits", []string{x, number("logits.scale", c.Scales.Logits)})
		return
	}
	x = b.node("Mul", "", "logits.small", []string{x, number("logits.scale", c.Scales.Logits/c.LogitCap)})
	x = b.node("Tanh", "", "logits.bent", []string{x})
	b.node("Mul", "", "logits", []string{x, number("logits.cap", c.LogitCap)})
}

// headProduct multiplies x by the output matrix.
func (b *builder) headProduct(name, x string) {
	c := b.cfg
	b.adaptable(logitsProduct, name, x, true)
	shape, head := []int64{int64(c.Vocab), int64(c.Hidden)}, c.Tensors.Head
	bias := ""
	if c.HeadBias {
		bias = b.bias("head.bias", all(head, c.Vocab))
	}
	switch {
	case !b.opt.Weights.Quantised():
		weight := "embed.weight"
		if !c.Tied {
			m := b.floats(all(weightOf(head), c.Vocab), c.Hidden)
			weight = b.g.External("head.weight", b.element.graph, shape, m.codes)
		}
		inputs := []string{x, weight}
		if bias != "" {
			inputs = append(inputs, bias)
		}
		b.gemm(name, inputs)
	default:
		m := b.table
		if !c.Tied {
			table := all(weightOf(head), c.Vocab)
			m = b.blocks(b.formatOf(table[0]), table, c.Hidden)
		}
		b.quantised(name, x, m, "head", bias)
	}
}

// vector adds the elements of tensors as one vector, each plus offset.
func (b *builder) vector(name string, offset float64, from ...string) string {
	n := 0
	for _, tensor := range from {
		t := b.tensor(tensor)
		if t == nil {
			return name
		}
		n += t.Len()
	}
	var parts []hf.Slice
	for _, tensor := range from {
		parts = append(parts, all(tensor, n/len(from))...)
	}
	if offset == 0 {
		return b.g.External(name, b.element.graph, []int64{int64(n)}, b.floats(parts, 1).codes)
	}
	b.data.Begin()
	b.chunks(parts, 1, func(t *tensors.Tensor, at, n int) {
		x := b.widen(t, at, n)
		for i := range x {
			x[i] += float32(offset)
		}
		b.write(fmt.Sprintf("tensor %q", t.Name), x)
	})
	return b.g.External(name, b.element.graph, []int64{int64(n)}, b.data.End())
}

// repeated adds a vector of n equal numbers.
func (b *builder) repeated(name string, v float32, n int) string {
	b.data.Begin()
	b.write(name, slices.Repeat([]float32{v}, n))
	return b.g.External(name, b.element.graph, []int64{int64(n)}, b.data.End())
}

// bias packs the biases of the parts.
func (b *builder) bias(name string, parts []hf.Slice) string {
	m := b.floats(biasesOf(parts), 1)
	return b.g.External(name, b.element.graph, []int64{int64(m.n)}, m.codes)
}

// biasesOf returns the biases of the parts.
func biasesOf(parts []hf.Slice) []hf.Slice {
	parts = named(parts, biasOf)
	for i := range parts {
		parts[i].Transposed = false // a vector
	}
	return parts
}

// tensor returns a tensor; newSource has checked that it exists.
func (b *builder) tensor(name string) *tensors.Tensor {
	t, err := b.src.set.Tensor(name)
	if err != nil {
		b.fail(err)
		return nil
	}
	return t
}

// chunks calls do for pieces of the parts, whole rows of k: n elements from number at on. With k = 1 the parts' rows
// are elements of a vector.
func (b *builder) chunks(parts []hf.Slice, k int, do func(t *tensors.Tensor, at, n int)) {
	size := max(chunkFloats/k, 1) * k
	for _, p := range parts {
		t := b.tensor(p.Tensor)
		if t == nil {
			return
		}
		if p.Outer > 0 {
			t = t.Part(p.Part)
		}
		if p.Transposed {
			t = t.Transposed()
		}
		for group := range p.Groups {
			at := (group*p.Stride + p.Offset) * k
			for all := at + p.Rows*k; at < all && b.err == nil; {
				n := min(size, all-at)
				do(t, at, n)
				at += n
				b.progress(n)
			}
		}
	}
}

// widen returns elements of a tensor as 32-bit floats, valid until the next call.
func (b *builder) widen(t *tensors.Tensor, at, n int) []float32 {
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
		if b.opt.Weights == models.BF16 { // where experts have fp16
			err = fmt.Errorf("%w, of which %s on %s has experts", err, b.opt.Weights, b.Device)
		} else {
			err = fmt.Errorf("%w: weights %s keep the range of 32-bit floats", err, models.BF16)
		}
		b.fail(fmt.Errorf("%s: %w", name, err))
		return
	}
	b.writeBytes(b.bytes)
}

func (b *builder) writeBytes(p []byte) {
	if _, err := b.data.Write(p); err != nil {
		b.fail(err)
	}
}

// floats writes parts, stacked, as one matrix of width k, of the element type.
func (b *builder) floats(parts []hf.Slice, k int) matrix {
	b.data.Begin()
	b.chunks(parts, k, func(t *tensors.Tensor, at, n int) {
		if t.DType == b.element.stored && t.InOrder() {
			size := t.DType.Size()
			b.writeBytes(t.Bytes()[at*size : (at+n)*size])
			return
		}
		b.write(fmt.Sprintf("tensor %q", t.Name), b.widen(t, at, n))
	})
	return matrix{n: height(parts), k: k, codes: b.data.End()}
}

// expertMatrices adds the matrices of all experts, one after another, each of the same number of parts.
func (b *builder) expertMatrices(name string, f quant.Format, parts []hf.Slice, k int) string {
	if !b.opt.Weights.Quantised() {
		m := b.floats(parts, k)
		return b.g.External(name+".weight", b.element.graph, []int64{int64(m.n), int64(k)}, m.codes)
	}
	b.data.Begin()
	for own := range slices.Chunk(parts, len(parts)/b.cfg.Experts.N) { // so that each begins a group of rows
		b.pack(f, own, k)
	}
	ref := b.data.End()
	return b.g.External(name+".weight", onnx.Uint8, []int64{ref.Length}, ref)
}

// blocks writes parts, stacked, as one quantised matrix of width k.
func (b *builder) blocks(f quant.Format, parts []hf.Slice, k int) matrix {
	b.data.Begin()
	scales := b.pack(f, parts, k)
	m := matrix{n: height(parts), k: k, format: f, codes: b.data.End()}
	if !b.packed {
		m.scales = b.data.Tensor(scales)
	}
	return m
}

// pack writes the codes of parts, stacked, and returns their scales if those are not among them.
func (b *builder) pack(f quant.Format, parts []hf.Slice, k int) (scales []byte) {
	packer := f.Packer(b.data, k)
	b.chunks(parts, k, func(t *tensors.Tensor, at, n int) {
		rows := n / k
		if b.takes(f, t, k) {
			b.take(f, packer, t, at/k, rows, k)
			return
		}
		if f.Bits == tensors.SixBits || f.Factors || f.Table != tensors.NoTable {
			b.fail(fmt.Errorf("BUG: tensor %q of shape %v has not the codes of its format", t.Name, t.Shape))
			return
		}
		codes, s, x := grow(&b.bytes, rows*f.RowBytes(k)), grow(&b.scales, rows*f.Blocks(k)), b.widen(t, at, n)
		if i := slices.IndexFunc(x, func(v float32) bool { return v-v != 0 }); i >= 0 {
			b.fail(fmt.Errorf("tensor %q: weight %d is %g, which no block of integers can hold", t.Name, at+i, x[i]))
			return
		}
		b.quantError.Merge(f.Rows(codes, s, x, k))
		if f.Offsets {
			s = withOffsets(f, s)
		}
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
	return scales
}

// takes reports whether a matrix is copied as the integers that it is.
func (b *builder) takes(f quant.Format, t *tensors.Tensor, k int) bool {
	own := t.Form()
	if own.Bits == tensors.SixBits || f.Bits == tensors.SixBits {
		return b.packed && own.Bits == f.Bits && len(t.Shape) == 2
	}
	if f.Factors {
		return b.packed && own.Factors && own.Bits <= f.Bits && k%tensors.FactoredBlock == 0 && len(t.Shape) == 2
	}
	if f.Table != tensors.NoTable && own.Table != f.Table || own.Table != f.Table && f.Bits < 8 {
		return false
	}
	return b.packed && own.Bits != 0 && own.Bits <= f.Bits && (f.Offsets || !own.Offsets) &&
		f.Block == tensors.IntegerBlock && k%f.Block == 0 && len(t.Shape) == 2
}

// take packs rows of a tensor as the integers that they are.
func (b *builder) take(f quant.Format, packer *quant.Packer, t *tensors.Tensor, row, rows, k int) {
	if f.Bits == tensors.SixBits || f.Factors {
		b.takeFactors(f, packer, t, row, rows, k)
		return
	}
	each := 1
	if f.Offsets {
		each = 2
	}
	codes, numbers := grow(&b.bytes, rows*f.RowBytes(k)), grow(&b.scales, rows*f.Blocks(k)*each)
	var exact []float32
	if t.Form().Table.Rounded() {
		exact = b.widen(t, row*k, rows*k)
	}
	b.quantError.Merge(f.Take(codes, numbers, exact, rows, k, func(codes []int8, r, block int) (scale, offset float32) {
		scale, offset = t.Integers(codes, row+r, block)
		if table := t.Form().Table; table != f.Table { // its numbers have a byte each
			for i, c := range codes {
				codes[i] = table.Number(byte(c))
			}
		}
		if f.Offsets && f.Bits == 4 && !t.Form().Offsets { // whose codes are centred
			for i := range codes {
				codes[i] -= centre4
			}
			offset = centre4 * scale
		}
		return scale, offset
	}))
	narrow, err := b.narrowScales(t, numbers)
	if err == nil {
		err = packer.Add(codes, narrow)
	}
	if err != nil {
		b.fail(err)
	}
}

// takeFactors is take for codes that have factors besides their scales.
func (b *builder) takeFactors(f quant.Format, packer *quant.Packer, t *tensors.Tensor, row, rows, k int) {
	codes, scales := grow(&b.bytes, rows*f.RowBytes(k)), grow(&b.scales, 2*rows*k/tensors.FactoredBlock)
	factors := make([]byte, rows*k/tensors.FactorBlock)
	if f.Factors {
		b.quantError.Merge(f.TakeFactored(codes, factors, scales, rows, k,
			func(codes []int8, s, o []byte, r, block int) (scale, offset float32) {
				return t.Factored(codes, s, o, row+r, block)
			}))
	} else {
		scales = scales[:rows*k/tensors.FactoredBlock]
		b.quantError.Merge(quant.TakeFactors(codes, factors, scales, rows, k,
			func(codes, factors []int8, r, block int) float32 { return t.Factors(codes, factors, row+r, block) }))
	}
	narrow, err := b.narrowScales(t, scales)
	if err == nil {
		err = packer.AddFactored(codes, narrow, factors)
	}
	if err != nil {
		b.fail(err)
	}
}

// centre4 is the weight, in scales, of the lowest centred code of 4 bits: the offset of codes that begin at 0.
const centre4 = -8

// withOffsets puts behind each scale the offset of centred codes.
func withOffsets(f quant.Format, scales []float32) []float32 {
	out := make([]float32, 2*len(scales))
	for i, s := range scales {
		if out[2*i] = s; f.Bits == 4 {
			out[2*i+1] = centre4 * s
		}
	}
	return out
}

// narrowScales returns a tensor's scales as 16-bit floats.
func (b *builder) narrowScales(t *tensors.Tensor, scales []float32) ([]byte, error) {
	for _, s := range scales {
		if math.IsInf(float64(s), 0) || s != s {
			return nil, fmt.Errorf("tensor %q has weights that no block of integers can hold: their scale would be %g",
				t.Name, s)
		}
	}
	out, err := tensors.F16.AppendFloats(nil, scales)
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
