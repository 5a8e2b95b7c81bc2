package sched

import (
	"fmt"

	"tgi/runtime/llm"
)

// DefaultLogitRows is the default of Settings.MaxPromptLogits. With a vocabulary of
// 150k tokens it costs 40 MB while prompts are scored.
const DefaultLogitRows = 64

// Settings limit what runs. Names and meanings are text-generation-inference's where
// it has the setting. 0 means the largest value that the model allows, unless the
// field says otherwise.
type Settings struct {
	// MaxConcurrentRequests limits the sequences that wait or run; a request for N
	// sequences counts N times. The caller of Add enforces it: the engine does in
	// Submit, so that a refusal does not wait for a step. 0 is 128.
	MaxConcurrentRequests int
	// MaxInputTokens limits the tokens of a prompt.
	MaxInputTokens int
	// MaxTotalTokens limits the tokens of prompt and output together.
	MaxTotalTokens int
	// MaxBatchPrefillTokens limits the prompt tokens computed in one step. A longer
	// prompt is computed in chunks, together with the decode rows, which do not count.
	// Small values keep running streams smooth; large values reach the first token
	// sooner. 0 is 4096.
	MaxBatchPrefillTokens int
	// MaxBatchTotalTokens limits the tokens that the cache holds for all running
	// sequences. Blocks are allocated as sequences grow, not reserved, so an admitted
	// batch can outgrow the limit; the last sequence, the youngest of a client that got
	// most, is then preempted and computed again later.
	MaxBatchTotalTokens int
	// MaxBatchSize limits the sequences that run.
	MaxBatchSize int
	// WaitingServedRatio delays new prompts, which make a step longer for every
	// running row, until there are this many per running row (rounded down). Decoding
	// never pauses for a prompt here, so this only makes streams smoother at the cost
	// of time to first token. 0 admits prompts at once.
	WaitingServedRatio float64
	// MaxWaitingTokens ends the delay of WaitingServedRatio: after this many steps
	// without a new prompt the next one is admitted. 0 never delays.
	MaxWaitingTokens int
	// MaxPromptLogits limits the prompt positions per step whose logits are computed,
	// and so memory: each costs one float per vocabulary entry. 0 is DefaultLogitRows.
	MaxPromptLogits int
	// MaxBatchDraftTokens limits the draft tokens of a step, and so memory, as MaxPromptLogits does. 0 is
	// DefaultDraftTokens.
	MaxBatchDraftTokens int
	// NoPrefixSharing turns prefix caching off: every prompt is computed from its start.
	NoPrefixSharing bool
}

// Shape describes the model and its cache to the scheduler.
type Shape struct {
	// Blocks and BlockSize are the cache's.
	Blocks, BlockSize int
	// MaxLen is the longest sequence the model can hold, prompt and output.
	MaxLen int
	// OriginalLen, if not 0, is the length beyond which all tokens of a sequence have other keys and values.
	OriginalLen int
}

// withDefaults returns the settings with every 0 replaced.
func (s Settings) withDefaults(sh Shape) (Settings, error) {
	for _, f := range []struct {
		name string
		v    int
	}{
		{"max_concurrent_requests", s.MaxConcurrentRequests}, {"max_input_tokens", s.MaxInputTokens},
		{"max_total_tokens", s.MaxTotalTokens}, {"max_batch_prefill_tokens", s.MaxBatchPrefillTokens},
		{"max_batch_total_tokens", s.MaxBatchTotalTokens}, {"max_batch_size", s.MaxBatchSize},
		{"max_waiting_tokens", s.MaxWaitingTokens}, {"max prompt logits", s.MaxPromptLogits},
		{"max batch draft tokens", s.MaxBatchDraftTokens},
	} {
		if f.v < 0 {
			return s, fmt.Errorf("sched: %s must not be negative, got %d", f.name, f.v)
		}
	}
	if !(s.WaitingServedRatio >= 0) {
		return s, fmt.Errorf("sched: waiting_served_ratio must not be negative, got %v", s.WaitingServedRatio)
	}
	if sh.Blocks < 1 || sh.BlockSize < 1 || sh.MaxLen < 2 {
		return s, fmt.Errorf("sched: a cache of %d blocks of %d tokens for sequences of %d tokens holds no request",
			sh.Blocks, sh.BlockSize, sh.MaxLen)
	}
	if sh.OriginalLen < 0 {
		return s, fmt.Errorf("sched: the original length must not be negative, got %d", sh.OriginalLen)
	}
	if t := s.MaxBatchTotalTokens; t > 0 && t < sh.BlockSize {
		return s, fmt.Errorf("sched: max_batch_total_tokens must be at least one cache block of %d, got %d",
			sh.BlockSize, t)
	}
	capacity := sh.Blocks * sh.BlockSize
	orDefault(&s.MaxConcurrentRequests, 128)
	orDefault(&s.MaxBatchPrefillTokens, 4096)
	orDefault(&s.MaxPromptLogits, DefaultLogitRows)
	orDefault(&s.MaxBatchDraftTokens, DefaultDraftTokens)
	orDefault(&s.MaxBatchTotalTokens, capacity)
	orDefault(&s.MaxTotalTokens, sh.MaxLen)
	s.MaxBatchTotalTokens = min(s.MaxBatchTotalTokens, capacity) / sh.BlockSize * sh.BlockSize
	// The last token of a sequence is never fed back and needs no slot.
	s.MaxTotalTokens = min(s.MaxTotalTokens, sh.MaxLen, s.MaxBatchTotalTokens+1)
	orDefault(&s.MaxInputTokens, s.MaxTotalTokens-1)
	s.MaxInputTokens = min(s.MaxInputTokens, s.MaxTotalTokens-1)
	orDefault(&s.MaxBatchSize, capacity)
	return s, nil
}

func orDefault(v *int, d int) {
	if *v == 0 {
		*v = d
	}
}

// Check returns nil if a request for n sequences of up to maxNew tokens after a prompt
// of prompt tokens can run. Otherwise the error wraps llm.ErrInvalid or llm.ErrTooLong
// and names the limit and the value. s must come from Scheduler.Settings.
func (s Settings) Check(prompt, maxNew, n int) error {
	switch {
	case prompt < 1:
		return fmt.Errorf("%w: the prompt has no token", llm.ErrInvalid)
	case maxNew < 1:
		return fmt.Errorf("%w: max_new_tokens must be at least 1, got %d", llm.ErrInvalid, maxNew)
	case n < 1 || n > s.MaxConcurrentRequests:
		return fmt.Errorf("%w: the number of sequences must be from 1 to %d, got %d", llm.ErrInvalid,
			s.MaxConcurrentRequests, n)
	case prompt > s.MaxInputTokens:
		return fmt.Errorf("%w: the prompt has %d tokens, at most %d fit", llm.ErrTooLong, prompt, s.MaxInputTokens)
	case maxNew > s.MaxTotalTokens-prompt: // the sum could overflow
		return fmt.Errorf("%w: %d prompt tokens and %d new ones, at most %d fit together",
			llm.ErrTooLong, prompt, maxNew, s.MaxTotalTokens)
	}
	return nil
}
