package sample

import (
	"math"
	"slices"
	"sync"

	"tgi/runtime/llm"
)

// scratch is the working memory of one Pick. With a vocabulary of 152k tokens it takes up to
// 3 MB, so it is pooled and not kept by each sequence.
type scratch struct {
	survivors
	keys  []uint32
	order []uint64
	cands []Candidate
	sums  []float64
	raw   []float32
	bins  [2048]bin
}

var scratches = sync.Pool{New: func() any { return new(scratch) }}

// survivors are the tokens that the warpers have left, by ascending token.
type survivors struct {
	id  []llm.Token
	d   []float32 // (logit-best)*scale, at most 0; 0 is there
	w   []float32 // e^d
	sum float64   // of w, at least 1
}

// gatherLen is how many tokens gatherTop skips at once if none of them reaches the threshold.
const gatherLen = 128

// gatherTop makes the k best tokens of r the survivors, with all that tie with the k-th. One
// pass over the row appends the tokens that are not below a threshold; when these are many
// more than k, the k-th best of them becomes the threshold.
func (s *scratch) gatherTop(r *row, k int) {
	s.id, s.d = s.id[:0], s.d[:0]
	threshold, room := float32(-math.MaxFloat32), 4*k+256
	for start := 0; start < len(r.x); start += gatherLen {
		part := r.x[start:min(start+gatherLen, len(r.x))]
		if greatest(part) < threshold {
			continue
		}
		for i, v := range part {
			if v >= threshold { // false for NaN
				s.id, s.d = append(s.id, llm.Token(start+i)), append(s.d, v)
				if len(s.id) == room {
					threshold = s.raiseThreshold(k)
					room = max(room, 2*len(s.id)) // ties may have left all of them
				}
			}
		}
	}
	if len(s.id) > k {
		s.raiseThreshold(k)
	}
	s.w, s.sum = s.w[:0], 0
	for i, v := range s.d {
		s.d[i] = (v - r.top) * r.scale
		s.w = append(s.w, weight(s.d[i]))
		s.sum += float64(s.w[i])
	}
}

// raiseThreshold drops what is below the k-th best of the logits in s.d and returns that.
func (s *scratch) raiseThreshold(k int) float32 {
	s.keys = s.keys[:0]
	for _, v := range s.d {
		s.keys = append(s.keys, descendingKey(v))
	}
	last := s.cut(s.keys, nil, float64(k)).key
	n, threshold := 0, float32(0)
	for i, key := range s.keys {
		if key <= last {
			s.id[n], s.d[n] = s.id[i], s.d[i]
			n++
		}
		if key == last {
			threshold = s.d[n-1]
		}
	}
	s.id, s.d = s.id[:n], s.d[:n]
	return threshold
}

// gatherWithin makes the tokens of r the survivors whose log-probability is at
// most limit below the best's. With math.MaxFloat32 those are all that are not
// forbidden.
func (s *scratch) gatherWithin(r *row, limit float32) {
	s.grow(len(r.x))
	id, ds, ws := s.id, s.d, s.w
	n, sum := 0, 0.0
	for i, v := range r.x {
		if d := (r.top - v) * r.scale; d <= limit { // false for NaN
			w := weight(-d)
			id[n], ds[n], ws[n] = llm.Token(i), 0-d, w
			sum += float64(w)
			n++
		}
	}
	s.id, s.d, s.w, s.sum = id[:n], ds[:n], ws[:n], sum
}

// grow makes room for n survivors of unknown content.
func (s *survivors) grow(n int) {
	s.id = slices.Grow(s.id[:0], n)[:n]
	s.d = slices.Grow(s.d[:0], n)[:n]
	s.w = slices.Grow(s.w[:0], n)[:n]
}

// keep drops the survivors whose key is above last. Of those whose key is last it keeps the
// first ones, until their weights use up room.
func (s *scratch) keep(last uint32, room float64) {
	n := 0
	id, d, w := s.id, s.d, s.w
	for i, key := range s.keys {
		// Written first and counted after: a branch would often be mispredicted.
		id[n], d[n], w[n] = id[i], d[i], w[i]
		stay := 0
		if key < last {
			stay = 1
		}
		if key == last && room > 0 {
			room -= float64(w[n])
			stay = 1
		}
		n += stay
	}
	s.id, s.d, s.w = id[:n], d[:n], w[:n]
	if top := greatest(s.d); top < 0 { // the best is gone: measure from the new best
		for i := range s.d {
			s.d[i] -= top
			s.w[i] = weight(s.d[i])
		}
	}
	s.sum = 0
	for _, w := range s.w {
		s.sum += float64(w)
	}
}

// draw returns the index of the survivor at the fraction u in [0,1) of the mass.
func (s *survivors) draw(u float64) int {
	want, last := u*s.sum, 0
	for i, w := range s.w {
		if w == 0 {
			continue
		}
		if last = i; want < float64(w) {
			break
		}
		want -= float64(w)
	}
	return last // the last of any weight where rounding used up the mass before
}

// best returns the index of the survivor with the greatest logit in x.
func (s *survivors) best(x []float32) int {
	b := 0
	for i, id := range s.id {
		if x[id] > x[s.id[b]] {
			b = i
		}
	}
	return b
}

// logprob returns the log-softmax of the i-th survivor.
func (s *survivors) logprob(i int) float32 {
	return float32(float64(s.d[i]) - math.Log(s.sum))
}

// candidates returns the survivors in the order in which Sampler and Pick.Top
// hold them: by descending logit, ties by ascending token. The slice is
// scratch.
func (s *scratch) candidates(r *row) []Candidate {
	s.order = s.order[:0]
	for i, id := range s.id {
		s.order = append(s.order, uint64(descendingKey(r.x[id]))<<32|uint64(i))
	}
	slices.Sort(s.order)
	logSum := math.Log(s.sum)
	s.cands = s.cands[:0]
	for _, o := range s.order {
		i := uint32(o)
		id := s.id[i]
		s.cands = append(s.cands, Candidate{
			Token:   r.token(id),
			Logit:   r.x[id] * r.scale,
			Logprob: float32(float64(s.d[i]) - logSum),
		})
	}
	return s.cands
}

// topSurvivors returns the n best survivors with all that tie with the n-th. It
// drops the others.
func (s *scratch) topSurvivors(r *row, n int) []Candidate {
	if n < len(s.id) {
		s.keys = s.keys[:0]
		for _, id := range s.id {
			s.keys = append(s.keys, descendingKey(r.x[id]))
		}
		sum := s.sum
		s.keep(s.cut(s.keys, nil, float64(n)).key, math.Inf(1))
		s.sum = sum
	}
	return dropImpossible(s.candidates(r))
}

// topOf returns the n best tokens of r, whose sum is known, with all that tie
// with the n-th.
func (s *scratch) topOf(r *row, n int) []Candidate {
	s.gatherTop(r, n)
	s.sum = r.sum
	return dropImpossible(s.candidates(r))
}

// dropImpossible cuts off the candidates of probability 0, which sort last: a logit so
// far below the best that the difference is infinite is as good as forbidden.
func dropImpossible(list []Candidate) []Candidate {
	for len(list) > 0 && list[len(list)-1].Logprob == negInf {
		list = list[:len(list)-1]
	}
	return list
}
