package decoder

import (
	"slices"
	"strings"

	"tgi/models/hf"
	"tgi/models/onnx"
)

// What is done to queries, keys and values in front of the attention that cannot do it.

// clipped bounds x on both sides. Not all devices do that in 16 bits.
func (b *builder) clipped(name, x string, most float64) string {
	return b.inFloats(name, x, func(name, x string) string {
		low, high := b.constant(name+".low", -most), b.constant(name+".high", most)
		return b.node("Clip", "", name, []string{x, low, high})
	})
}

// apart returns queries, keys and values of the packed ones.
func (b *builder) apart(p, qkv string) []string {
	c, out := &b.cfg, []string{p + "q", p + "k", p + "v"}
	q, kv := c.Heads*c.HeadDim, c.KVHeads*c.HeadDim
	sizes := b.ints(p+"qkv.sizes", int64(q), int64(kv), int64(kv))
	b.g.Add(onnx.Node{Op: "Split", Name: p + "split", Inputs: []string{qkv, sizes}, Outputs: slices.Clone(out),
		Attrs: []onnx.Attr{{Name: "axis", Value: 1}}})
	return out
}

// normedHeads returns queries, keys and values of the packed ones, the first two normalised.
func (b *builder) normedHeads(i int, p, qkv string) []string {
	c, t := &b.cfg, b.cfg.Tensors
	out := b.apart(p, qkv)
	for at, tensor := range []string{t.QNorm, t.KNorm} {
		heads := []int{c.Heads, c.KVHeads}[at]
		name, tensor := out[at]+"_norm", t.InLayer(i, tensor)
		weights := b.normWeights(func() (list []string) {
			if c.QKNorm.Over == hf.QKNormEachHead || c.Norm.Plain {
				return []string{b.repeated(name+".ones", 1, c.HeadDim)}
			}
			list = append(list, b.vector(name+".weight", c.Norm.Offset, weightOf(tensor)))
			if c.QKNorm.Bias {
				list = append(list, b.vector(name+".bias", 0, biasOf(tensor)))
			}
			return list
		})
		if c.QKNorm.Over == hf.QKNormAll {
			out[at] = b.normNode(name, c.QKNorm.Layer, out[at], weights)
			continue
		}
		shape := func(name, x string, width int) string {
			return b.reshape(name, x, -1, int64(width))
		}
		if b.rotatesFirst() && c.Rotates(i) {
			out[at] = b.rotated(out[at]+"_rotated", i, out[at], heads)
		}
		single := shape(name+".heads", out[at], c.HeadDim)
		out[at] = shape(name+".rows", b.normNode(name, c.QKNorm.Layer, single, weights), heads*c.HeadDim)
		if c.QKNorm.Over == hf.QKNormEachHead {
			tensors := []string{tensor}
			if strings.Contains(tensor, "%d") {
				tensors = eachHead(tensor, heads)
			}
			for k := range tensors {
				tensors[k] = weightOf(tensors[k])
			}
			out[at] = b.node("Mul", "", name+".weighted",
				[]string{out[at], b.vector(name+".weight", c.Norm.Offset, tensors...)})
		}
	}
	return out
}
