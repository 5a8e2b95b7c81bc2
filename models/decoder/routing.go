package decoder

import (
	"tgi/models"
	"tgi/models/hf"
	"tgi/models/onnx"
)

// Numbers of the choice of experts: a share that is no less than leastShare has a logarithm, and the power of notChosen
// is 0, also in 16 bits.
const (
	leastShare = 1e-30
	notChosen  = -30000
)

// bySoftmax reports whether the softmax of an expert's score is what it is chosen by, and its weight.
func bySoftmax(e hf.Experts) bool {
	return !e.Sigmoid && !e.Corrected && e.Groups <= 1 && (e.Scale == 0 || e.Scale == 1)
}

// routed is layer i's mixture where the device's operator knows the softmax of scores only. The experts are chosen and
// weighed by nodes, in 32 bits as in training: a rounded score would choose others. The operator then gets scores whose
// softmax is what the weights are: for those that were chosen the logarithm of their part of the largest, which 16 bits
// hold best where it counts, and for the others a number whose power is 0. Such weights add up to 1; where the model's
// do not, the result is multiplied by what they add up to. hf.Experts.Least, what shares add up to at least, is far
// below what they can add up to.
func (b *builder) routed(i int, x string, score func(name, x string) string) string {
	c, p, e := &b.cfg, graphPrefix(i), b.cfg.Experts
	own, wide := b.element, x
	if b.DType != models.Float32 {
		wide = b.cast(p+"router.wide", x, onnx.Float)
	}
	b.element = elements[models.Float32]
	scores := score(p+"router", wide)
	var share string
	if e.Sigmoid {
		share = b.node("Sigmoid", "", p+"router.share", []string{scores})
	} else {
		share = b.node("Softmax", "", p+"router.share", []string{scores}, onnx.Attr{Name: "axis", Value: -1})
	}
	by := share
	if e.Corrected {
		correction := b.vector(p+"router.correction", 0, c.Tensors.InLayer(i, c.Tensors.RouterCorrection))
		by = b.node("Add", "", p+"router.corrected", []string{share, correction})
	}
	if e.Groups > 1 {
		by = b.inGroups(p+"router.groups", by)
	}
	_, chosen := b.best(p+"router.chosen", by, e.PerToken)
	axis := onnx.Attr{Name: "axis", Value: 1}
	shares := b.node("GatherElements", "", p+"router.shares", []string{share, chosen}, axis)
	floor := b.node("Max", "", p+"router.floor", []string{shares, b.constant(p+"router.least", leastShare)})
	most, _ := b.best(p+"router.most", floor, 1)
	part := b.node("Div", "", p+"router.part", []string{floor, most})
	logarithm := b.node("Log", "", p+"router.log", []string{part})
	others := b.equal(p+"router.others", share, notChosen)
	dense := b.node("ScatterElements", "", p+"router.dense", []string{others, chosen, logarithm}, axis)
	sum := ""
	if !e.Normalise {
		sum = b.node("ReduceSum", "", p+"router.sum", []string{shares, b.ints(p+"router.sum.axes", 1)})
	}
	b.element = own
	if b.DType != models.Float32 {
		dense = b.cast(p+"router.narrow", dense, expertElement.graph)
	}
	out := b.mixture(b, i, x, dense)
	if sum != "" {
		out = b.inFloats(p+"experts.weighted", out, func(name, x string) string {
			return b.node("Mul", "", name, []string{x, sum})
		})
	}
	if e.Scale != 0 {
		out = b.scaled(p+"experts.scaled", out, e.Scale)
	}
	return out
}

// inGroups takes what experts are chosen by, and puts a number below all of it where an expert is in none of the groups
// that a token takes.
func (b *builder) inGroups(name, by string) string {
	e := b.cfg.Experts
	groups := int64(e.Groups)
	apart := b.reshape(name+".apart", by, -1, groups, int64(e.N/e.Groups))
	score, _ := b.best(name+".experts", apart, e.GroupBest)
	if e.GroupBest > 1 {
		score = b.node("ReduceSum", "", name+".score", []string{score, b.ints(name+".score.axes", 2)})
	}
	score = b.reshape(name+".scores", score, -1, groups)
	values, taken := b.best(name+".taken", score, e.GroupsPerToken)
	barred := b.node("ScatterElements", "", name+".barred", []string{b.equal(name+".bar", score, notChosen), taken,
		b.equal(name+".zero", values, 0)}, onnx.Attr{Name: "axis", Value: 1})
	sum := b.node("Add", "", name+".sum", []string{apart, b.reshape(name+".wide", barred, -1, groups, 1)})
	return b.reshape(name, sum, -1, int64(e.N))
}

// best returns the k largest numbers of each row, in their order, and their columns.
func (b *builder) best(name, x string, k int) (values, columns string) {
	values, columns = name+".values", name
	b.g.Add(onnx.Node{Op: "TopK", Name: name, Inputs: []string{x, b.ints(name+".count", int64(k))},
		Outputs: []string{values, columns}, Attrs: []onnx.Attr{{Name: "axis", Value: -1}}})
	return values, columns
}

// equal returns numbers v in the shape of x, which has no infinite ones.
func (b *builder) equal(name, x string, v float64) string {
	zero := b.node("Mul", "", name+".zero", []string{x, b.constant(name+".by", 0)})
	if v == 0 {
		return zero
	}
	return b.node("Add", "", name, []string{zero, b.constant(name+".number", v)})
}
