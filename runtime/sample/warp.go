package sample

import (
	"math"

	"tgi/runtime/llm"
)

// warper narrows a distribution to the tokens that may be picked. The stages run in TGI's
// order, each on the result of the one before: temperature, top_k, top_p, typical_p, min_p.
type warper struct {
	scale    float32 // 1/temperature
	topK     int     // 0 is off
	topP     float64 // 1 is off
	typicalP float64 // 1 is off
	minP     float64 // 0 is off
}

func newWarper(p llm.Params, vocab int) warper {
	w := warper{
		topK:     p.TopK,
		topP:     float64(p.TopP),
		typicalP: float64(p.TypicalP),
		minP:     float64(p.MinP),
	}
	w.setTemperature(p.Temperature)
	if w.topK >= vocab {
		w.topK = 0
	}
	return w
}

// setTemperature sets the temperature. It bounds the scale, because an infinite reciprocal
// times a difference of 0 would be NaN.
func (w *warper) setTemperature(temperature float32) { w.scale = min(1/temperature, math.MaxFloat32) }

// narrows reports whether any stage can drop a token.
func (w *warper) narrows() bool {
	return w.topK > 0 || w.topP < 1 || w.typicalP < 1 || w.minP > 0
}

// nucleusRange is how far below the best token, in log-probability, top_p
// looks first: a peaked distribution has its nucleus there, in some hundred of
// its tokens.
const nucleusRange = 8

// apply leaves in s the survivors of r.
func (w *warper) apply(s *scratch, r *row) {
	mass := w.gather(s, r)
	if w.topP < 1 {
		s.topP(w.topP * mass)
	}
	if w.typicalP < 1 {
		s.typical(w.typicalP)
	}
	if w.minP > 0 {
		s.minP(w.minP)
	}
}

// gather makes those tokens of r the survivors that the first active stage
// needs to see, and returns what all that stage is about weigh together.
func (w *warper) gather(s *scratch, r *row) (mass float64) {
	switch {
	case w.topK > 0:
		s.gatherTop(r, w.topK)
	case w.topP < 1:
		r.computeSums(s.sums)
		s.sums = r.sums
		s.gatherWithin(r, nucleusRange)
		if s.sum >= w.topP*r.sum {
			return r.sum
		}
		s.gatherWithin(r, math.MaxFloat32)
	case w.typicalP < 1 || w.minP == 0:
		s.gatherWithin(r, math.MaxFloat32)
	default:
		s.gatherWithin(r, w.minPRange())
	}
	return s.sum
}

// minPRange is how far below the best token, in log-probability, min_p alone looks: a little more than it keeps, so
// that rounding is decided there.
func (w *warper) minPRange() float32 { return float32(1e-3 - 1.001*math.Log(w.minP)) }

// topP keeps the likeliest tokens until they weigh mass. TGI walks upwards and
// drops where the cumulative probability is at most 1-p; a token is kept there
// exactly when all likelier ones weigh less than p, as here. Of equals at the
// border those with lower ids are kept.
func (s *scratch) topP(mass float64) {
	s.keys = s.keys[:0]
	for _, d := range s.d {
		s.keys = append(s.keys, distanceKey(-d))
	}
	b := s.cut(s.keys, s.w, mass)
	s.keep(b.key, mass-b.before)
}

// typical keeps the tokens whose information is nearest the distribution's
// entropy until they weigh p, with all that tie with the last (Meister et al.
// 2022, "Locally Typical Sampling").
func (s *scratch) typical(p float64) {
	var mean float64 // of d
	for i, w := range s.w {
		if w > 0 {
			mean += float64(w) * float64(s.d[i])
		}
	}
	mean /= s.sum
	// With Z the sum, -log p(i) is log Z - d(i) and the entropy log Z - mean.
	s.keys = s.keys[:0]
	for _, d := range s.d {
		s.keys = append(s.keys, distanceKey(float32(math.Abs(float64(d)-mean))))
	}
	s.keep(s.cut(s.keys, s.w, p*s.sum).key, math.Inf(1))
}

// minP keeps the tokens at least p times as likely as the best.
func (s *scratch) minP(p float64) {
	s.keys = s.keys[:0]
	for _, d := range s.d {
		s.keys = append(s.keys, distanceKey(-d))
	}
	s.keep(distanceKey(float32(-math.Log(p))), math.Inf(1))
}
