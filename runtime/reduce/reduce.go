// Package reduce turns a row of logits into what a pick needs of it (llm.Reduction, llm.Reduced), so that a row on a
// device need not cross the bus.
//
// Row is the reference in Go. reduce.cu does the same on a CUDA device, and also compiles as C for the tests: both give
// the same bits, because every operation that rounds is written down, weights are summed as integers, and of equal
// logits the lower token comes first. So a row's result depends on nothing but the row and what is asked: not on its
// neighbours in a batch, the number of threads, or the order in which they run.
//
// The package starts no goroutines and has no state.
//
// The reasons behind it: docs/rationale/gpu.md.
package reduce

import (
	"math"
	"math/bits"
	"slices"

	"tgi/runtime/llm"
)

// MaxVocab is the largest vocabulary whose rows can be reduced: so many weights of 1 fit into a sum.
const MaxVocab = 1 << 20

const (
	// unit is the weight of the best token: weights are multiples of 1/unit, rounded down.
	unit = 1 << 43
	// spread is the distance from the best logit past which a token weighs nothing.
	spread = 31
	// roundBias added to a float32 of less than 2^22 leaves it rounded to an integer.
	roundBias = 1.5 * (1 << 23)
	log2e     = 0x1.715476p+0
	// The coefficients of 2^r for |r| <= 1/2, whose relative error is 2.1e-7.
	c1 = 0x1.62e43p-1
	c2 = 0x1.ebfa4ap-3
	c3 = 0x1.c6af6cp-5
	c4 = 0x1.3cbf6cp-7
	c5 = 0x1.5f0896p-10
)

var negInf = float32(math.Inf(-1))

// Row reduces the row logits [vocab]. It is the reference: backends on devices run a kernel, and those whose logits are
// in the server's memory hand out the row itself. Tests call it in a backend's place.
func Row(logits []float32, q *llm.Reduction) llm.Reduced {
	x := processed(logits, q)
	var r llm.Reduced
	order := make([]uint64, 0, len(x))
	r.Top = negInf
	for t, v := range x {
		if v > negInf { // false for NaN
			r.Top = max(r.Top, v)
			order = append(order, rank(v, llm.Token(t)))
		}
	}
	token := func(t llm.Token) llm.ReducedToken {
		return llm.ReducedToken{Token: t, Logit: x[t], Raw: logits[t]}
	}
	r.Count = len(order)
	slices.Sort(order)
	for i, o := range order {
		if i < llm.MaxCandidates {
			r.Candidates = append(r.Candidates, token(llm.Token(o)))
		} else if o>>32 == order[llm.MaxCandidates-1]>>32 {
			r.Ties++
		}
	}
	sum := sumOf(x, r.Top, q.Scale)
	r.Sum = float64(sum) / unit
	if q.Draw >= 0 && sum > 0 {
		r.Drawn = token(draw(x, r.Top, q.Scale, position(q.Draw, sum)))
	}
	if q.Raw {
		r.RawTop = negInf
		for _, v := range logits {
			if v > r.RawTop {
				r.RawTop = v
			}
		}
		r.RawSum = float64(sumOf(logits, r.RawTop, 1)) / unit
	}
	return r
}

// processed returns the row with edits and mask applied.
func processed(logits []float32, q *llm.Reduction) []float32 {
	x := slices.Clone(logits)
	for _, e := range q.Edits {
		for _, p := range e.Pairs {
			v := x[p.Token]
			switch {
			case e.Kind == llm.EditAdd:
				v += p.Value
			case v < 0:
				v *= p.Value
			default:
				v /= p.Value
			}
			x[p.Token] = v
		}
	}
	for t := range x {
		if q.Mask != nil && q.Mask[t/32]>>(t%32)&1 == 0 {
			x[t] = negInf
		}
	}
	return x
}

// rank returns a number that is the smaller, the better a token is: its logit first, then its id.
func rank(v float32, t llm.Token) uint64 {
	b := math.Float32bits(v + 0) // -0 + 0 is +0
	if b>>31 == 0 {
		b = 0x7fffffff - b
	}
	return uint64(b)<<32 | uint64(t)
}

// sumOf returns the sum of the weights of a row.
func sumOf(x []float32, top, scale float32) (sum uint64) {
	for _, v := range x {
		sum += weight(v, top, scale)
	}
	return sum
}

// weight returns e^((v-top)*scale) in units; 0 for NaN and for what is negligible. Conversions to float32 keep products
// from being fused with sums.
func weight(v, top, scale float32) uint64 {
	d := float32(v-top) * scale
	if !(d > -spread) {
		return 0
	}
	t := float32(d * log2e)
	f := t + roundBias
	r := t - (f - roundBias)
	p := float32(c5 * r)
	p = float32((p + c4) * r)
	p = float32((p + c3) * r)
	p = float32((p + c2) * r)
	p = float32((p + c1) * r)
	p++
	return uint64(math.Float32frombits(math.Float32bits(p)+math.Float32bits(f)<<23) * unit)
}

// position returns the place of the fraction u of a sum.
func position(u float64, sum uint64) uint64 {
	high, _ := bits.Mul64(uint64(u*(1<<64)), sum)
	return high
}

// draw returns the token at a place in the sum of the weights.
func draw(x []float32, top, scale float32, at uint64) llm.Token {
	for t, v := range x {
		w := weight(v, top, scale)
		if at < w {
			return llm.Token(t)
		}
		at -= w
	}
	panic("BUG: a place beyond the sum")
}
