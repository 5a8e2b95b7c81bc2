package sample

import (
	"fmt"
	"math"

	"tgi/runtime/llm"
)

// check refuses settings outside the ranges that llm.Params documents. They would not fail
// later but give a meaningless distribution.
func check(p llm.Params, vocab int) error {
	if vocab < 1 || int64(vocab) > math.MaxUint32 {
		return fmt.Errorf("%w: vocabulary of %d tokens: must be > 0 and < 2^32", llm.ErrInvalid, vocab)
	}
	inf := float32(math.Inf(1))
	for _, r := range []struct {
		name     string
		v        float32
		ok       bool
		interval string
	}{
		{"temperature", p.Temperature, p.Temperature > 0 && p.Temperature < inf, "> 0 and finite"},
		{"top_k", float32(p.TopK), p.TopK >= 0, ">= 0"},
		{"top_p", p.TopP, p.TopP > 0 && p.TopP <= 1, "> 0 and <= 1"},
		{"typical_p", p.TypicalP, p.TypicalP > 0 && p.TypicalP <= 1, "> 0 and <= 1"},
		{"min_p", p.MinP, p.MinP >= 0 && p.MinP <= 1, ">= 0 and <= 1"},
		{"repetition_penalty", p.RepetitionPenalty, p.RepetitionPenalty > 0 && p.RepetitionPenalty < inf,
			"> 0 and finite"},
		{"frequency_penalty", p.FrequencyPenalty, finite(p.FrequencyPenalty), "finite"},
		{"presence_penalty", p.PresencePenalty, finite(p.PresencePenalty), "finite"},
		{"watermark gamma", p.WatermarkGamma, !p.Watermark || p.WatermarkGamma > 0 && p.WatermarkGamma < 1,
			"> 0 and < 1"},
		{"watermark delta", p.WatermarkDelta, !p.Watermark || finite(p.WatermarkDelta), "finite"},
		{"top_n_tokens", float32(p.TopN), p.TopN >= 0, ">= 0"},
	} {
		if !r.ok {
			return fmt.Errorf("%w: %s must be %s. Given: %v", llm.ErrInvalid, r.name, r.interval, r.v)
		}
	}
	for i, b := range p.LogitBias {
		if int64(b.Token) >= int64(vocab) {
			return fmt.Errorf("%w: logit_bias[%d]: token must be < %d. Given: %d", llm.ErrInvalid, i, vocab, b.Token)
		}
		if !finite(b.Add) {
			return fmt.Errorf("%w: logit_bias[%d] of token %d must be finite. Given: %v", llm.ErrInvalid, i, b.Token,
				b.Add)
		}
	}
	return nil
}

func finite(v float32) bool { return v-v == 0 }
