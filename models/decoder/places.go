package decoder

import (
	"encoding/binary"
	"fmt"
	"math"

	"tgi/models"
	"tgi/models/hf"
	"tgi/models/onnx"
)

// placesPerToken is the number of positions of a token.
const placesPerToken = 3

// places reports whether the graph takes three positions for each token, which with text alone are equal.
func (b *builder) places() bool {
	return b.sections() || b.cfg.Tensors.Positions != "" || b.stretches() || b.rotatesFirst()
}

// byPlace looks up the rows of a table for the positions of the tokens.
func (b *builder) byPlace(name, table string) string {
	first := b.g.Constant(name+".first", onnx.Int64, nil, binary.LittleEndian.AppendUint64(nil, 0))
	axis := func(i int) onnx.Attr { return onnx.Attr{Name: "axis", Value: i} }
	place := b.node("Gather", "", name+".place", []string{placesInput, first}, axis(1))
	return b.node("Gather", "", name, []string{table, place}, axis(0))
}

// keyEnds reports whether tokens of an image see each other, also those behind them.
func (b *builder) keyEnds() bool {
	return b.opt.embeddings && b.cfg.Vision != nil && b.cfg.Vision.Mutual
}

// sections reports whether parts of a head turn by positions of their own. With text alone that is the ordinary rotary
// embedding.
func (b *builder) sections() bool { return b.opt.embeddings && b.cfg.Rope.Sections != [3]int{} }

// turns adds the cosines and sines of each token: for each section of a head's pairs those of another position.
func (b *builder) turns() {
	sections := b.cfg.Rope.Sections
	sizes := b.ints("sections", int64(sections[0]), int64(sections[1]), int64(sections[2]))
	for _, name := range []string{"cos", "sin"} {
		rows := b.node("Gather", "", name+".places", []string{name + "_cache", placesInput},
			onnx.Attr{Name: "axis", Value: 0})
		parts, own := make([]string, len(sections)), make([]string, len(sections))
		for i := range sections {
			parts[i] = fmt.Sprintf("%s.section%d", name, i)
		}
		b.g.Add(onnx.Node{Op: "Split", Name: name + ".sections", Inputs: []string{rows, sizes}, Outputs: parts,
			Attrs: []onnx.Attr{{Name: "axis", Value: 2}}})
		for i, part := range parts {
			index := fmt.Sprintf("%s.place%d", name, i)
			b.g.Constant(index, onnx.Int64, nil, binary.LittleEndian.AppendUint64(nil, uint64(i)))
			own[i] = b.node("Gather", "", part+".own", []string{part, index}, onnx.Attr{Name: "axis", Value: 1})
		}
		b.node("Concat", "", name+"_rows", own, onnx.Attr{Name: "axis", Value: 1})
	}
}

// Names of what nodes in front of an operator that is not complete read: the factor of each token's query, [tokens, 1],
// and the token's position, [tokens, 1].
const (
	stretchRows  = "stretch"
	rotaryPlaces = "rotary_places"
)

// stretches reports whether nodes stretch queries.
func (b *builder) stretches() bool { return b.cfg.Stretch.From != 0 && !b.attention.complete }

// stretch adds the factors of the tokens' queries.
func (b *builder) stretch() {
	c := &b.cfg
	factors := make([]float32, c.MaxPositions)
	for pos := range factors {
		factors[pos] = float32(1 + c.Stretch.Factor*math.Log(float64(1+pos/c.Stretch.From)))
	}
	own := b.element
	b.element = elements[models.Float32] // 16 bits would change all scores of a position by the same factor
	b.data.Begin()
	b.write(stretchRows, factors)
	table := b.g.External(stretchRows+".table", b.element.graph, []int64{int64(len(factors)), 1}, b.data.End())
	b.element = own
	b.byPlace(stretchRows, table)
}

// rotatesFirst reports whether nodes rotate heads, so that norms follow. Norms without weights give the same on both
// sides of a rotation.
func (b *builder) rotatesFirst() bool {
	c := &b.cfg
	return !b.attention.complete && c.QKNorm.Over != hf.QKNormNone && c.QKNorm.AfterRotary &&
		!(c.Norm.Plain && c.Rope.Attention == 1 && c.WindowRope == nil)
}

// rotated applies layer i's rotary embedding to heads that lie side by side. Each token is a sequence of its own.
func (b *builder) rotated(name string, i int, x string, heads int) string {
	rope, dim := b.cfg.RopeOf(i), b.cfg.HeadDim
	tokens := b.reshape(name+".tokens", x, -1, 1, int64(heads*dim))
	return b.node("RotaryEmbedding", microsoftDomain, name,
		[]string{tokens, rotaryPlaces, b.rotary("cos", i), b.rotary("sin", i)},
		onnx.Attr{Name: "num_heads", Value: heads},
		onnx.Attr{Name: "rotary_embedding_dim", Value: 2 * len(rope.Frequencies(dim))},
		onnx.Attr{Name: "interleaved", Value: map[bool]int{true: 1}[rope.Interleaved]})
}
