package decoder

import (
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
	vector, rotated := p+"kv_latent", p+"kv_rotated"
	b.g.Add(onnx.Node{Op: "Split", Name: p + "kv_split", Inputs: []string{kv, b.ints(p+"kv_split.sizes", int64(l.Rank),
		int64(l.Rope))}, Outputs: []string{vector, rotated}, Attrs: []onnx.Attr{{Name: "axis", Value: 1}}})
	key := b.node("Concat", "", p+"key", []string{rotated, b.latentNorm(p+"kv_down_norm", t.InLayer(i, t.KVDownNorm),
		vector)}, onnx.Attr{Name: "axis", Value: 1})
	inLatent := b.ofHeads(i, p+"q_latent", queries, l.Nope, l.Rank, l.Rope, func(x []float32) []float32 {
		return transposed(x[:l.Nope*l.Rank], l.Nope, l.Rank)
	})
	out := b.attend(i, p, inLatent, key)
	return b.ofHeads(i, p+"values", out, l.Rank, l.Value, 0, func(x []float32) []float32 {
		return x[l.Nope*l.Rank:]
	})
}

// latentNorm normalises a vector that keys and values, or queries, are made of.
func (b *builder) latentNorm(name, tensor, x string) string {
	weight := b.vector(name+".weight", 0, weightOf(tensor))
	return b.node("SimplifiedLayerNormalization", "", name, []string{x, weight}, onnx.Attr{Name: "axis", Value: -1},
		onnx.Attr{Name: "epsilon", Value: float32(b.cfg.Latent.Eps)}, onnx.Attr{Name: "stash_type", Value: 1})
}

// ofHeads multiplies k numbers of each head of x by a matrix of its own, [n, k], which part makes of the head's rows of
// keys and values, [Nope+Value, Rank]. The tail numbers behind them come before the product.
func (b *builder) ofHeads(i int, name, x string, k, n, tail int, part func(x []float32) []float32) string {
	c, l := &b.cfg, b.cfg.Latent
	_, both := c.LatentUp(i)
	f := quant.Format{}
	if b.opt.Weights.Quantised() {
		if f = b.formatOf(named([]hf.Slice{both}, weightOf)[0]); f.Offsets { // they are no blocks of the file
			f.Offsets, f.Bits = false, 8
		}
	}
	b.data.Begin()
	if t := b.tensor(weightOf(both.Tensor)); t != nil {
		rows := (l.Nope + l.Value) * l.Rank
		for h := range c.Heads {
			own := part(b.widen(t, h*rows, rows))
			b.progress(len(own))
			b.headMatrix(f, t, slices.Clone(own), n, k)
		}
	}
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
