package hf

import (
	"cmp"
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
	// RopeLong has factors of its own for each pair: some for sequences up to OriginalMax, others for longer ones.
	RopeLong RopeType = "longrope"
)

// Rope is the rotary embedding's settings. Fields that the type does not use are 0.
type Rope struct {
	Type  RopeType
	Theta float64
	// Dim is how many of a head's dimensions are rotated; 0 is all. Interleaved says that pairs are neighbours, not
	// half of Dim apart.
	Dim         int
	Interleaved bool
	// Backwards turns the other way.
	Backwards bool
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
	// Short divides the frequency of each pair (longrope), Long in sequences of more than OriginalMax tokens. Long is
	// nil if there are no such.
	Short, Long []float64
	// Attention multiplies cosines and sines (yarn, longrope; 1 otherwise).
	Attention float64
	// ScoreScale, if not 0, is what queries and keys of latent attention are multiplied by (yarn).
	ScoreScale float64
	// Sections, if not 0, say how many pairs of a head turn by a token's place in time, in height and in width (Qwen's
	// multimodal rotary embedding).
	Sections [3]int
}

// readRope reads rope_parameters (transformers 5) or rope_theta and rope_scaling (before it). Where layers with a
// window have a rotary embedding of their own, it sets c.WindowRope.
func readRope(o *object, c *Config, fam family) Rope {
	if fam.ropeParameters != "" && !o.has("rope_parameters") && !o.has("rope_scaling") && !o.has("rope_theta") {
		o.fill(map[string]string{"rope_parameters": fam.ropeParameters})
	}
	theta := o.float("rope_theta", cmp.Or(fam.theta, 10000), 1, bigRope)
	if fam.partial != 0 {
		fam.partial = o.float("partial_rotary_factor", fam.partial, 1e-3, 1)
	}
	params := o.object("rope_parameters")
	if older := o.object("rope_scaling"); older != nil {
		if params != nil {
			o.fail("rope_scaling", "is given beside rope_parameters, want one of them")
		}
		params = older
	}
	if local := o.float("rope_local_base_freq", fam.windowTheta, 1, bigRope); local != 0 {
		c.WindowRope = &Rope{Type: RopeDefault, Theta: local, Attention: 1}
	}
	if params != nil && params.has(slidingAttention) {
		window := params.object(slidingAttention)
		full := params.object(fullAttention)
		params.checkUnread("layers of two kinds")
		if params.err != nil {
			o.err = cmp.Or(o.err, params.err)
		}
		if window != nil {
			r := window.rope(o, c, theta, fam)
			c.WindowRope = &r
		}
		params = full
	}
	return params.rope(o, c, theta, fam)
}

const bigRope = 1e18

// rope reads one rotary embedding's parameters, which may be nil; o is the whole configuration.
func (params *object) rope(o *object, c *Config, theta float64, fam family) (r Rope) {
	r = Rope{Type: RopeDefault, Theta: theta, Attention: 1, Interleaved: fam.interleaved}
	share := fam.partial
	defer func() {
		if share == 0 || share == 1 {
			return
		}
		if r.Dim = int(float64(c.HeadDim) * share); r.Dim < 2 || r.Dim%2 != 0 {
			o.fail("partial_rotary_factor", "%g of head_dim %d is %d, want an even number of at least 2", share, c.HeadDim,
				r.Dim)
		}
	}()
	if params == nil {
		return r
	}
	defer func() {
		if o.err == nil {
			params.checkUnread("rope type " + string(r.Type))
			o.err = params.err
		}
	}()
	r.Theta = params.float("rope_theta", theta, 1, bigRope)
	if fam.partial != 0 {
		share = params.float("partial_rotary_factor", share, 1e-3, 1)
	}
	older := params.string("type", string(RopeDefault)) // the name before rope_type
	r.Type = RopeType(params.string("rope_type", older))
	if r.Type == "su" { // the name of Phi-3's first checkpoints
		r.Type = RopeLong
	}
	original := float64(o.int("original_max_position_embeddings", c.MaxPositions, 1, maxPositions))
	switch r.Type {
	case RopeDefault:
	case RopeDynamic:
		// Hunyuan's: a larger base.
		if fam.ropeAlpha && params.has("alpha") && c.HeadDim > 2 {
			alpha := params.float("alpha", 1, 1e-6, bigRope)
			r.Type = RopeDefault
			r.Theta *= math.Pow(alpha, float64(c.HeadDim)/float64(c.HeadDim-2))
			for _, key := range []string{"factor", "beta_fast", "beta_slow", "mscale", "mscale_all_dim"} {
				params.raw(key) // which the class does not read then
			}
			break
		}
		r.Factor = params.requireFloat("factor", 1e-6, bigRope)
	case RopeLinear:
		r.Factor = params.requireFloat("factor", 1e-6, bigRope)
	case RopeLlama3:
		r.Factor = params.requireFloat("factor", 1e-6, bigRope)
		r.LowFreq = params.requireFloat("low_freq_factor", 1e-6, bigRope)
		r.HighFreq = params.requireFloat("high_freq_factor", 1e-6, bigRope)
		r.OriginalMax = originalMax(o, params, original)
		if r.HighFreq <= r.LowFreq {
			params.fail("high_freq_factor", "want more than low_freq_factor %g, got %g", r.LowFreq, r.HighFreq)
		}
	case RopeYarn:
		r.readYarn(o, params, original, float64(c.MaxPositions))
		if beta := params.float("llama_4_scaling_beta", 0, 0, 1e6); beta != 0 {
			c.Stretch = Stretch{From: int(r.OriginalMax), Factor: beta}
		}
		params.raw("max_position_embeddings") // said again
	case RopeLong:
		r.readLong(o, params, c, original, share)
	default:
		params.fail("rope_type", "%q is not supported, want default, linear, dynamic, llama3, yarn or longrope",
			string(r.Type))
	}
	return r
}

// originalMax reads the context before stretching. The whole configuration's wins over the parameters'.
func originalMax(o, params *object, original float64) float64 {
	own := params.float("original_max_position_embeddings", original, 1, maxPositions)
	if _, ok := o.raw("original_max_position_embeddings"); ok {
		return original
	}
	return own
}

// readLong reads Phi-3's scaling, which has one list of factors for sequences up to the original context and one for
// longer ones.
func (r *Rope) readLong(o, params *object, c *Config, original, share float64) {
	pairs := int(float64(c.HeadDim)*cmp.Or(share, 1)) / 2
	r.OriginalMax = originalMax(o, params, original)
	factor := params.float("factor", float64(c.MaxPositions)/r.OriginalMax, 1e-6, bigRope)
	r.Short = params.floats("short_factor", pairs, 1e-6, bigRope)
	long := params.floats("long_factor", pairs, 1e-6, bigRope)
	if params.err == nil && (r.Short == nil || long == nil) {
		params.fail("short_factor", "want short_factor and long_factor")
	}
	if factor > 1 && r.OriginalMax > 1 {
		r.Attention = math.Sqrt(1 + math.Log(factor)/math.Log(r.OriginalMax))
	}
	r.Attention = params.float("attention_factor", r.Attention, 0, bigRope)
	for _, key := range []string{"short_mscale", "long_mscale"} {
		params.raw(key) // transformers does not read them
	}
	if c.MaxPositions <= int(r.OriginalMax) {
		return
	}
	if c.WindowRope != nil {
		params.fail("rope_type", "longrope beside another rotary embedding for layers with a window is not supported")
	}
	r.Long, c.OriginalPositions = long, int(r.OriginalMax)
}

func (r *Rope) readYarn(o, params *object, original, max float64) {
	if r.Theta <= 1 { // its logarithm divides
		params.fail("rope_theta", "want more than 1 for yarn, got %g", r.Theta)
	}
	r.OriginalMax = originalMax(o, params, original)
	r.Factor = params.float("factor", max/r.OriginalMax, 1e-6, bigRope)
	r.BetaFast = params.float("beta_fast", 32, 0, bigRope)
	r.BetaSlow = params.float("beta_slow", 1, 0, bigRope)
	if r.BetaFast == 0 { // as in Python, where "or" takes 0 for absent
		r.BetaFast = 32
	}
	if r.BetaSlow == 0 {
		r.BetaSlow = 1
	}
	r.Truncate = params.bool("truncate", true)
	mscale := params.float("mscale", 0, 0, bigRope)
	mscaleAll := params.float("mscale_all_dim", 0, 0, bigRope)
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
	r.Attention = params.float("attention_factor", r.Attention, 0, bigRope)
	if mscaleAll != 0 {
		r.ScoreScale = scale(mscaleAll)
	}
}

// requireFloat is float for a mandatory key.
func (o *object) requireFloat(key string, lo, hi float64) float64 {
	if _, ok := o.raw(key); !ok {
		o.fail(key, "is missing")
		return lo
	}
	return o.float(key, lo, lo, hi)
}

// OfLong returns the settings for sequences of more than OriginalMax tokens.
func (r Rope) OfLong() Rope {
	r.Short, r.Long = r.Long, nil
	return r
}

// Frequencies returns the angle per position of each rotated pair of the dimensions of a head of size dim, in sequences
// of up to OriginalMax tokens; see OfLong for longer ones.
func (r Rope) Frequencies(dim int) []float64 {
	if r.Dim != 0 {
		dim = r.Dim
	}
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
	case RopeLong:
		for i := range out {
			out[i] /= r.Short[i]
		}
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
