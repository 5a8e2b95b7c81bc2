package decoder

import (
	"encoding/binary"
	"fmt"
	"slices"

	"tgi/models/hf"
	"tgi/models/onnx"
	"tgi/models/quant"
	"tgi/models/tensors"
)

// latent adds layer i's latent attention to x: see hf.Latent.
func (b *builder) latent(i int, p, x string) string {
	c, l, t := &b.cfg, b.cfg.Latent, b.cfg.Tensors
	down, both := c.LatentDown(i)
	up, _ := c.LatentUp(i)
	var queries string
	if l.QRank == 0 {
		queries = b.linear(p+"q", x, c.Hidden, false, down)
	} else {
		vector := b.linear(p+"q_down", x, c.Hidden, c.QKVBias, down)
		queries = b.linear(p+"q", b.latentNorm(p+"q_down_norm", t.InLayer(i, t.QDownNorm), vector), l.QRank, false, up)
	}
	kv := b.linear(p+"kv_down", x, c.Hidden, c.QKVBias, both)
	key := b.latentKey(i, p, kv)
	inLatent := b.perHead(b, i, p+"q_latent", queries, l.Nope, l.Rank, l.Rope, func(x []float32) []float32 {
		return transposed(x[:l.Nope*l.Rank], l.Nope, l.Rank)
	})
	out := b.attend(i, p, inLatent, key)
	return b.perHead(b, i, p+"values", out, l.Rank, l.Value, 0, func(x []float32) []float32 {
		return x[l.Nope*l.Rank:]
	})
}

// latentKey returns layer i's keys: the normalised vector, and what is rotated.
func (b *builder) latentKey(i int, p, kv string) string {
	l := b.cfg.Latent
	norm := func(x string) string {
		return b.latentNorm(p+"kv_down_norm", b.cfg.Tensors.InLayer(i, b.cfg.Tensors.KVDownNorm), x)
	}
	if !b.attention.rotatesEnd {
		vector, rotated := p+"kv_latent", p+"kv_rotated"
		sizes := b.ints(p+"kv_split.sizes", int64(l.Rank), int64(l.Rope))
		b.g.Add(onnx.Node{Op: "Split", Name: p + "kv_split", Inputs: []string{kv, sizes},
			Outputs: []string{vector, rotated}, Attrs: []onnx.Attr{{Name: "axis", Value: 1}}})
		return b.node("Concat", "", p+"key", []string{rotated, norm(vector)}, onnx.Attr{Name: "axis", Value: 1})
	}
	// On CUDA a Split in two and a Concat copy lists from the host at every step, which a recorded run must not do. So
	// the norm of the first numbers is put beside the rest by a product with ones, which changes no number.
	bound := func(name string, v int) string {
		return b.g.Constant(name, onnx.Int64, []int64{1}, binary.LittleEndian.AppendUint64(nil, uint64(v)))
	}
	vector := b.node("Slice", "", p+"kv_latent", []string{kv, bound(p+"kv_latent.from", 0),
		bound(p+"kv_latent.to", l.Rank), bound(p+"kv_latent.axis", 1)})
	ones := func(name string, rows, from, to int) string {
		width := l.Rank + l.Rope
		x := make([]float32, rows*width)
		for i := from; i < to; i++ {
			x[i%rows*width+i] = 1
		}
		b.data.Begin()
		b.write(name, x)
		dims := []int64{int64(rows), int64(width)}
		return b.g.External(name, b.element.graph, dims[2-min(rows, 2):], b.data.End())
	}
	rest := b.node("Mul", "", p+"kv_rotated", []string{kv, ones(p+"kv_rotated.ones", 1, l.Rank, l.Rank+l.Rope)})
	return b.node("Gemm", "", p+"key", []string{norm(vector), ones(p+"key.ones", l.Rank, 0, l.Rank), rest})
}

// latentNorm normalises a vector that keys and values, or queries, are made of.
func (b *builder) latentNorm(name, tensor, x string) string {
	weight := b.vector(name+".weight", 0, weightOf(tensor))
	return b.node("SimplifiedLayerNormalization", "", name, []string{x, weight}, onnx.Attr{Name: "axis", Value: -1},
		onnx.Attr{Name: "epsilon", Value: float32(b.cfg.Latent.Eps)}, onnx.Attr{Name: "stash_type", Value: 1})
}

// ownPerHead is tgi:HeadMatMul, which puts the tail in front.
func (b *builder) ownPerHead(i int, name, x string, k, n, tail int, part func(x []float32) []float32) string {
	c := &b.cfg
	_, both := c.LatentUp(i)
	f := quant.Format{}
	if b.opt.Weights.Quantised() {
		f = b.formatOf(named([]hf.Slice{both}, weightOf)[0])
		if f.Offsets || f.Bits == tensors.SixBits || f.Table != tensors.NoTable { // they are no blocks of the file
			f = quant.Format{Form: tensors.Form{Bits: 8}, Block: f.Block, RoundScale: f.RoundScale}
		}
	}
	b.data.Begin()
	b.eachHead(i, part, func(t *tensors.Tensor, own []float32) { b.headMatrix(f, t, own, n, k) })
	ref := b.data.End()
	kind, dims := onnx.Uint8, []int64{ref.Length}
	if f.Bits == 0 {
		kind, dims = b.element.graph, []int64{int64(c.Heads), int64(n), int64(k)}
	}
	weight := b.g.External(name+".weight", kind, dims, ref)
	return b.node("HeadMatMul", tgiDomain, name, []string{x, weight}, onnx.Attr{Name: "heads", Value: c.Heads},
		onnx.Attr{Name: "N", Value: n}, onnx.Attr{Name: "K", Value: k}, onnx.Attr{Name: "tail", Value: tail},
		onnx.Attr{Name: "bits", Value: f.Bits}, onnx.Attr{Name: "block_size", Value: f.Block})
}

// eachHead calls do with what part makes of each head's rows of keys and values in layer i.
func (b *builder) eachHead(i int, part func(x []float32) []float32, do func(t *tensors.Tensor, own []float32)) {
	l := b.cfg.Latent
	_, both := b.cfg.LatentUp(i)
	t := b.tensor(weightOf(both.Tensor))
	if t == nil {
		return
	}
	rows := (l.Nope + l.Value) * l.Rank
	for h := range b.cfg.Heads {
		own := slices.Clone(part(b.widen(t, h*rows, rows)))
		b.progress(len(own))
		do(t, own)
	}
}

// plainPerHead is made of operators that all devices have: one product for each head, side by side, with matrices that
// leave the tail as it is. They are a small part of a model, and never quantised.
func (b *builder) plainPerHead(i int, name, x string, k, n, tail int, part func(x []float32) []float32) string {
	heads, width := int64(b.cfg.Heads), n+tail
	b.data.Begin()
	b.eachHead(i, part, func(t *tensors.Tensor, own []float32) {
		whole := make([]float32, (k+tail)*width)
		for row := range k {
			for column := range n {
				whole[row*width+column] = own[column*k+row]
			}
		}
		for at := range tail {
			whole[(k+at)*width+n+at] = 1
		}
		b.write(fmt.Sprintf("tensor %q", t.Name), whole)
	})
	weight := b.g.External(name+".weight", b.element.graph, []int64{heads, int64(k + tail), int64(width)}, b.data.End())
	swapped := func(name, x string) string {
		return b.node("Transpose", "", name, []string{x}, onnx.Attr{Name: "perm", Value: []int{1, 0, 2}})
	}
	apart := swapped(name+".by_head", b.reshape(name+".heads", x, -1, heads, int64(k+tail)))
	out := swapped(name+".by_token", b.node("MatMul", "", name+".product", []string{apart, weight}))
	return b.reshape(name, out, -1, heads*int64(width))
}

// headMatrix writes a matrix of n rows of k numbers, which come from t, as floats if f has no bits.
func (b *builder) headMatrix(f quant.Format, t *tensors.Tensor, x []float32, n, k int) {
	if f.Bits == 0 {
		b.write(fmt.Sprintf("tensor %q", t.Name), x)
		return
	}
	packer := f.Packer(b.data, k)
	codes, scales := make([]byte, n*f.RowBytes(k)), make([]float32, n*f.Blocks(k))
	if i := slices.IndexFunc(x, func(v float32) bool { return v-v != 0 }); i >= 0 {
		b.fail(fmt.Errorf("tensor %q: a weight is %g, which no block of integers can hold", t.Name, x[i]))
		return
	}
	b.quantError.Merge(f.Rows(codes, scales, x, k))
	narrow, err := b.narrowScales(t, scales)
	if err == nil {
		err = packer.Add(codes, narrow)
	}
	if err == nil {
		err = packer.Close()
	}
	if err != nil {
		b.fail(err)
	}
}

// transposed returns the columns of a matrix, one after another.
func transposed(x []float32, rows, cols int) []float32 {
	out := make([]float32, len(x))
	for r := range rows {
		for c := range cols {
			out[c*rows+r] = x[r*cols+c]
		}
	}
	return out
}
