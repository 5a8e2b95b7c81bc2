package generateapi

import (
	"math"

	"tgi/runtime/llm"
	"tgi/server/api/generateapi/store"
	"tgi/server/config"
	"tgi/server/generate"
)

// settings are a generation_config with no field left open, held against their
// bounds.
type settings struct {
	beams                                        int
	sample                                       bool
	temperature, topP, repetition, lengthPenalty float32
	topK                                         int32
	maxNewTokens                                 int
}

// resolve fills what s leaves open, and checks it against the bounds. Those are
// transformers', which the original hands them to: settings of draws do not
// matter where nothing is drawn, 0 switches top_k off, 1 and more top_p.
func resolve(s *store.Settings, defaults *config.GenerateAPI) (settings, error) {
	beams := or(s.NumBeams, int64(defaults.NumBeams))
	topK := or(s.TopK, int64(defaults.TopK))
	most := or(s.MaxNewTokens, int64(defaults.MaxNewTokens))
	temperature := or(s.Temperature, defaults.Temperature)
	topP := or(s.TopP, defaults.TopP)
	repetition := or(s.RepetitionPenalty, defaults.RepetitionPenalty)
	length := or(s.LengthPenalty, defaults.LengthPenalty)
	out := settings{
		beams: int(beams), sample: or(s.DoSample, defaults.DoSample), temperature: float32(temperature),
		topP:       float32(min(topP, 1)),
		repetition: float32(repetition), lengthPenalty: float32(length), topK: int32(min(topK, math.MaxInt32)),
		maxNewTokens: int(most),
	}
	switch {
	case beams < 1 || beams > generate.MaxBeams:
		return out, refused("`num_beams` must be >= 1 and <= %d, given %d", generate.MaxBeams, beams)
	case most < 1:
		return out, refused("`max_new_tokens` must be >= 1, given %d", most)
	case !positive(out.repetition):
		return out, refused("`repetition_penalty` must be > 0 and a number of 32 bits, given %v", repetition)
	case math.IsInf(float64(out.lengthPenalty), 0):
		return out, refused("`length_penalty` must be a number of 32 bits, given %v", length)
	case !out.sample:
	case !positive(out.temperature):
		return out, refused("`temperature` must be > 0 and a number of 32 bits, given %v", temperature)
	case topK < 0:
		return out, refused("`top_k` must be >= 0, given %d", topK)
	case topP < 0:
		return out, refused("`top_p` must be >= 0, given %v", topP)
	}
	return out, nil
}

func positive(f float32) bool { return f > 0 && !math.IsInf(float64(f), 0) }

func or[T any](v *T, otherwise T) T {
	if v == nil {
		return otherwise
	}
	return *v
}

// draft returns the request that goes on behind tokens for at most room tokens.
func (s *settings) draft(tokens []llm.Token, room int) generate.Draft {
	most := uint32(min(s.maxNewTokens, room))
	d := generate.Draft{Tokens: tokens, MaxNewTokens: &most}
	if s.beams > 1 {
		n := uint64(s.beams)
		d.NumBeams, d.LengthPenalty = &n, &s.lengthPenalty
	}
	if s.repetition != 1 {
		d.RepetitionPenalty = &s.repetition
	}
	if s.sample && s.topP > 0 { // 0 leaves the best token alone, so nothing is drawn
		d.DoSample = true
		if s.temperature != 1 {
			d.Temperature = &s.temperature
		}
		if s.topP < 1 {
			d.TopP = &s.topP
		}
		if s.topK > 0 {
			d.TopK = &s.topK
		}
	}
	return d
}
