package sched

import (
	"fmt"

	"tgi/runtime/llm"
)

// DefaultLogitRows is the default of Settings.MaxPromptLogits: with a vocabulary
// of 150k tokens it costs 40 MB while prompts are scored.
const DefaultLogitRows = 64

// Settings bound what runs. Names and meaning are those of
// text-generation-inference where it has them. 0 means the widest value that the
// model allows, if nothing else is said.
type Settings struct {
	// MaxConcurrentRequests bounds the sequences that wait or run; a request for N
	// sequences counts N times. Whoever hands requests over enforces it (the
	// engine does at Submit, so that the answer does not wait for a step). 0 is 128.
	MaxConcurrentRequests int
	// MaxInputTokens bounds the tokens of a prompt.
	MaxInputTokens int
	// MaxTotalTokens bounds the tokens of prompt and output together.
	MaxTotalTokens int
	// MaxBatchPrefillTokens bounds the prompt tokens computed in one step. A longer
	// prompt is computed in chunks, beside the running rows, which get their token
	// in every step and do not count. Small values keep running streams even, large
	// ones waste less on the way to a first token. 0 is 4096.
	MaxBatchPrefillTokens int
	// MaxBatchTotalTokens bounds the tokens that the cache holds for all running
	// sequences. They are taken as sequences grow, not reserved, so that a batch
	// may be admitted that outgrows it: then the youngest sequence steps back and
	// is computed again later.
	MaxBatchTotalTokens int
	// MaxBatchSize bounds the sequences that run.
	MaxBatchSize int
	// WaitingServedRatio delays new prompts, whose tokens make a step longer for
	// every running row, until they are at least this many per running row
	// (rounded down). A decode step never pauses for a prompt here, so this only
	// evens the pace of streams at the price of the first token's. 0 lets prompts
	// join at once.
	WaitingServedRatio float64
	// MaxWaitingTokens ends the delay of WaitingServedRatio: after this many steps
	// without a new prompt the next one joins. 0 never delays.
	MaxWaitingTokens int
	// MaxPromptLogits bounds the prompt positions per step whose logits are asked
	// for; it bounds memory, since each costs a float per vocabulary entry. 0 is
	// DefaultLogitRows.
	MaxPromptLogits int
	// NoPrefixSharing computes every prompt from its start.
	NoPrefixSharing bool
}

// Shape is what the scheduler must know of the model and its cache.
type Shape struct {
	// Blocks and BlockSize are the cache's.
	Blocks, BlockSize int
	// MaxLen is the longest sequence the model can hold, prompt and output.
	MaxLen int
}

// resolve returns the settings with every 0 replaced.
func (s Settings) resolve(sh Shape) (Settings, error) {
	for _, f := range []struct {
		name string
		v    int
	}{
		{"max_concurrent_requests", s.MaxConcurrentRequests}, {"max_input_tokens", s.MaxInputTokens},
		{"max_total_tokens", s.MaxTotalTokens}, {"max_batch_prefill_tokens", s.MaxBatchPrefillTokens},
		{"max_batch_total_tokens", s.MaxBatchTotalTokens}, {"max_batch_size", s.MaxBatchSize},
		{"max_waiting_tokens", s.MaxWaitingTokens}, {"max prompt logits", s.MaxPromptLogits},
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
	if t := s.MaxBatchTotalTokens; t > 0 && t < sh.BlockSize {
		return s, fmt.Errorf("sched: max_batch_total_tokens must be at least one cache block of %d, got %d", sh.BlockSize, t)
	}
	capacity := sh.Blocks * sh.BlockSize
	orDefault(&s.MaxConcurrentRequests, 128)
	orDefault(&s.MaxBatchPrefillTokens, 4096)
	orDefault(&s.MaxPromptLogits, DefaultLogitRows)
	orDefault(&s.MaxBatchTotalTokens, capacity)
	orDefault(&s.MaxTotalTokens, sh.MaxLen)
	s.MaxBatchTotalTokens = min(s.MaxBatchTotalTokens, capacity) / sh.BlockSize * sh.BlockSize
	// The last token of a sequence is never fed back and needs no place.
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

// Check reports whether a request for n sequences of up to maxNew tokens after a
// prompt of prompt tokens can ever run: nil, or an error that wraps
// llm.ErrInvalid or llm.ErrTooLong and names bound and value. s must be what
// Scheduler.Settings returned.
func (s Settings) Check(prompt, maxNew, n int) error {
	switch {
	case prompt < 1:
		return fmt.Errorf("%w: the prompt has no token", llm.ErrInvalid)
	case maxNew < 1:
		return fmt.Errorf("%w: max_new_tokens must be at least 1, got %d", llm.ErrInvalid, maxNew)
	case n < 1 || n > s.MaxConcurrentRequests:
		return fmt.Errorf("%w: the number of sequences must be from 1 to %d, got %d", llm.ErrInvalid, s.MaxConcurrentRequests, n)
	case prompt > s.MaxInputTokens:
		return fmt.Errorf("%w: the prompt has %d tokens, at most %d fit", llm.ErrTooLong, prompt, s.MaxInputTokens)
	case maxNew > s.MaxTotalTokens-prompt: // the sum could overflow
		return fmt.Errorf("%w: %d prompt tokens and %d new ones, at most %d fit together",
			llm.ErrTooLong, prompt, maxNew, s.MaxTotalTokens)
	}
	return nil
}
