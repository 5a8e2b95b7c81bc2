package sample

import (
	"math"
	"slices"

	"tgi/runtime/llm"
)

// blockLen is how many tokens share one partial sum: short enough that a float32
// sum stays exact to a few units, and a draw looks into one block only.
const blockLen = 1024

var negInf, nan = float32(math.Inf(-1)), float32(math.NaN())

// row is the distribution over a whole vocabulary: softmax(x*scale), where NaN
// counts as -Inf.
type row struct {
	x     []float32
	scale float32 // 1/temperature, finite
	top   float32 // greatest of x
	best  int     // lowest index that holds it
	sums  []float64
	sum   float64  // of e^((x-top)*scale), at least 1
	part  *partial // what x is a part of; nil if it is the whole row
}

// findMax sets top and best; ok is false when no token has a logit above -Inf.
//
// Where a processor made logits +Inf, those tokens share the whole mass: they
// become 0 in x and all others -Inf.
func (r *row) findMax() (ok bool) {
	start := 0 // of the block that holds the greatest
	r.top = negInf
	for i := 0; i < len(r.x); i += blockLen {
		if v := greatest(r.x[i:min(i+blockLen, len(r.x))]); v > r.top {
			r.top, start = v, i
		}
	}
	if r.top == negInf {
		return false
	}
	r.best = start + slices.Index(r.x[start:], r.top)
	if r.top > math.MaxFloat32 {
		for i, v := range r.x {
			if v == r.top {
				r.x[i] = 0
			} else {
				r.x[i] = negInf
			}
		}
		r.top = 0
	}
	return true
}

// computeSums sets sum and sums; find comes first. sums is storage to reuse.
func (r *row) computeSums(sums []float64) {
	r.sums, r.sum = sums[:0], 0
	if r.part != nil {
		r.sum = r.part.sum
		return
	}
	for x := r.x; len(x) > 0; {
		n := min(blockLen, len(x))
		s := sumExp(x[:n], r.top, r.scale)
		r.sums = append(r.sums, s)
		r.sum += s
		x = x[n:]
	}
}

// draw returns the index of the token at the fraction u in [0,1) of the mass, in order of token.
func (r *row) draw(u float64) llm.Token {
	if r.part != nil {
		return llm.Token(r.part.drawn)
	}
	want := u * r.sum
	last := r.best
	for b, s := range r.sums {
		if want >= s {
			want -= s
			continue
		}
		for i := b * blockLen; i < min((b+1)*blockLen, len(r.x)); i++ {
			w := float64(weight((r.x[i] - r.top) * r.scale))
			if w == 0 {
				continue
			}
			last = i
			if want < w {
				return llm.Token(i)
			}
			want -= w
		}
	}
	return llm.Token(last) // rounding consumed the mass just before its end
}

// logprob returns the log-softmax of token t; -Inf for NaN.
func (r *row) logprob(t llm.Token) float32 {
	v := r.x[t]
	if v != v {
		return negInf
	}
	return float32(float64((v-r.top)*r.scale) - math.Log(r.sum))
}

// PromptTop returns PromptLogprob and the n likeliest tokens at the position of next, best
// first, ties by ascending token, and never more than n. The caller owns the list; it has no
// tokens of probability 0.
func PromptTop(logits []float32, next llm.Token, n int) (logprob float32, top []Candidate) {
	r := row{x: logits, scale: 1}
	if int64(next) >= int64(len(logits)) || !r.findMax() {
		return float32(math.NaN()), nil
	}
	s := scratches.Get().(*scratch)
	defer scratches.Put(s)
	r.computeSums(s.sums)
	s.sums = r.sums
	list := s.topOf(&r, n)
	return r.logprob(next), slices.Clone(list[:min(n, len(list))])
}

// PromptLogprob returns the log-probability that the model's logits [vocab],
// unprocessed, give to the token next that follows in the prompt. It is NaN
// when no logit is a number or next is outside the vocabulary. Like Pick it may
// overwrite logits.
func PromptLogprob(logits []float32, next llm.Token) float32 {
	r := row{x: logits, scale: 1}
	if int64(next) >= int64(len(logits)) || !r.findMax() {
		return float32(math.NaN())
	}
	var sums [256]float64
	r.computeSums(sums[:0])
	return r.logprob(next)
}
