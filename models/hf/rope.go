package hf

import (
	"math"
)

// RopeType is how rotary frequencies are scaled for long contexts.
type RopeType string

// The variants. RopeDynamic equals RopeDefault up to max_position_embeddings. Beyond that its
// frequencies depend on the sequence's length, which would invalidate cached keys; sequences end
// there, so the two are the same here.
const (
	RopeDefault RopeType = "default"
	RopeLinear  RopeType = "linear"
	RopeDynamic RopeType = "dynamic"
	RopeLlama3  RopeType = "llama3"
	RopeYarn    RopeType = "yarn"
)

// Rope is the rotary embedding's settings. Fields that the type does not use are 0.
type Rope struct {
	Type  RopeType
	Theta float64
	// Factor stretches positions (linear, llama3, yarn).
	Factor float64
	// LowFreq and HighFreq bound llama3's ramp, in turns over OriginalMax.
	LowFreq, HighFreq float64
	// OriginalMax is the context length before stretching (llama3, yarn).
	OriginalMax float64
	// BetaFast and BetaSlow bound yarn's ramp, in turns over OriginalMax.
	BetaFast, BetaSlow float64
	// Truncate rounds yarn's ramp to whole dimensions.
	Truncate bool
	// Attention multiplies cosines and sines (yarn; 1 otherwise).
	Attention float64
	// Sections, if not 0, say how many pairs of a head turn by a token's place in time, in height and in width (Qwen's
	// multimodal rotary embedding).
	Sections [3]int
}

// readRope reads rope_parameters (transformers 5) or rope_theta and
// rope_scaling (before it).
func readRope(o *object, c *Config) Rope {
	const big = 1e18
	theta := o.float("rope_theta", 10000, 1, big)
	params := o.object("rope_parameters")
	if older := o.object("rope_scaling"); older != nil {
		if params != nil {
			o.fail("rope_scaling", "is given beside rope_parameters, want one of them")
		}
		params = older
	}
	r := Rope{Type: RopeDefault, Theta: theta, Attention: 1}
	if params == nil {
		return r
	}
	defer func() {
		if o.err == nil {
			params.checkUnread("rope type " + string(r.Type))
			o.err = params.err
		}
	}()
	r.Theta = params.float("rope_theta", theta, 1, big)
	older := params.string("type", string(RopeDefault)) // the name before rope_type
	r.Type = RopeType(params.string("rope_type", older))
	original := float64(o.int("original_max_position_embeddings", c.MaxPositions, 1, maxPositions))
	switch r.Type {
	case RopeDefault:
	case RopeLinear, RopeDynamic:
		r.Factor = params.requireFloat("factor", 1e-6, big)
	case RopeLlama3:
		r.Factor = params.requireFloat("factor", 1e-6, big)
		r.LowFreq = params.requireFloat("low_freq_factor", 1e-6, big)
		r.HighFreq = params.requireFloat("high_freq_factor", 1e-6, big)
		r.OriginalMax = params.float("original_max_position_embeddings", original, 1, maxPositions)
		if r.HighFreq <= r.LowFreq {
			params.fail("high_freq_factor", "want more than low_freq_factor %g, got %g", r.LowFreq, r.HighFreq)
		}
	case RopeYarn:
		r.readYarn(params, original, float64(c.MaxPositions))
	default:
		params.fail("rope_type", "%q is not supported, want default, linear, dynamic, llama3 or yarn", string(r.Type))
	}
	return r
}

func (r *Rope) readYarn(params *object, original, max float64) {
	const big = 1e18
	if r.Theta <= 1 { // its logarithm divides
		params.fail("rope_theta", "want more than 1 for yarn, got %g", r.Theta)
	}
	r.OriginalMax = params.float("original_max_position_embeddings", original, 1, maxPositions)
	r.Factor = params.float("factor", max/r.OriginalMax, 1e-6, big)
	r.BetaFast = params.float("beta_fast", 32, 0, big)
	r.BetaSlow = params.float("beta_slow", 1, 0, big)
	if r.BetaFast == 0 { // as in Python, where "or" takes 0 for absent
		r.BetaFast = 32
	}
	if r.BetaSlow == 0 {
		r.BetaSlow = 1
	}
	r.Truncate = params.bool("truncate", true)
	mscale := params.float("mscale", 0, 0, big)
	mscaleAll := params.float("mscale_all_dim", 0, 0, big)
	scale := func(m float64) float64 {
		if r.Factor <= 1 {
			return 1
		}
		return 0.1*m*math.Log(r.Factor) + 1
	}
	r.Attention = scale(1)
	if mscale != 0 && mscaleAll != 0 {
		r.Attention = scale(mscale) / scale(mscaleAll)
	}
	r.Attention = params.float("attention_factor", r.Attention, 0, big)
}

// requireFloat is float for a mandatory key.
func (o *object) requireFloat(key string, lo, hi float64) float64 {
	if _, ok := o.raw(key); !ok {
		o.fail(key, "is missing")
		return lo
	}
	return o.float(key, lo, lo, hi)
}

// Frequencies returns the angle per position of each pair of a head's
// dimensions: dim/2 numbers.
func (r Rope) Frequencies(dim int) []float64 {
	out := make([]float64, dim/2)
	for i := range out {
		out[i] = math.Pow(r.Theta, -2*float64(i)/float64(dim))
	}
	switch r.Type {
	case RopeLinear:
		for i := range out {
			out[i] /= r.Factor
		}
	case RopeLlama3:
		for i, f := range out {
			out[i] = r.llama3(f)
		}
	case RopeYarn:
		r.yarn(out, dim)
	}
	return out
}

// llama3 divides low frequencies by the factor, keeps high ones and blends in between. turns is
// the number of rotations in the original context.
func (r Rope) llama3(f float64) float64 {
	turns := r.OriginalMax * f / (2 * math.Pi)
	switch {
	case turns < r.LowFreq:
		return f / r.Factor
	case turns > r.HighFreq:
		return f
	}
	blend := (turns - r.LowFreq) / (r.HighFreq - r.LowFreq)
	return (1-blend)*f/r.Factor + blend*f
}

// yarn blends over the dimensions between those that turn BetaFast and
// BetaSlow times in the original context (Peng et al. 2023, "NTK by parts").
func (r Rope) yarn(f []float64, dim int) {
	dimOf := func(turns float64) float64 {
		return float64(dim) * math.Log(r.OriginalMax/(turns*2*math.Pi)) / (2 * math.Log(r.Theta))
	}
	low, high := dimOf(r.BetaFast), dimOf(r.BetaSlow)
	if r.Truncate {
		low, high = math.Floor(low), math.Ceil(high)
	}
	low, high = math.Max(low, 0), math.Min(high, float64(dim-1))
	if low == high {
		high += 0.001 // keeps the ramp's slope finite
	}
	for i := range f {
		ramp := math.Min(math.Max((float64(i)-low)/(high-low), 0), 1)
		f[i] = f[i]/r.Factor*ramp + f[i]*(1-ramp)
	}
}
