package config

import "fmt"

// prefillChunk is the budget of prompt tokens per step that Size chooses: on a
// CPU a step of it takes about a second for a small model, and running streams
// wait that long at most.
const prefillChunk = 512

// checkGiven checks the token limits that were given against each other.
func (l *Limits) checkGiven() error {
	in, total, prefill, batch := l.MaxInputTokens, l.MaxTotalTokens, l.MaxBatchPrefillTokens, l.MaxBatchTotalTokens
	switch {
	case in > 0 && total > 0 && in >= total:
		return fmt.Errorf("`max_input_tokens` must be < `max_total_tokens`. Given: %d and %d", in, total)
	case prefill > 0 && in > prefill:
		return fmt.Errorf("`max_batch_prefill_tokens` must be >= `max_input_tokens`. Given: %d and %d", prefill, in)
	case batch > 0 && prefill > batch:
		return fmt.Errorf("`max_batch_prefill_tokens` must be <= `max_batch_total_tokens`. Given: %d and %d", prefill,
			batch)
	case batch > 0 && total > batch:
		return fmt.Errorf("`max_total_tokens` must be <= `max_batch_total_tokens`. Given: %d and %d", total, batch)
	}
	return nil
}

// Size returns l with a value for every limit that was left to the server,
// given how many positions the model has and how many tokens the cache holds.
// It fails when a limit that was given cannot be kept.
func (l Limits) Size(positions, cache int) (Limits, error) {
	switch {
	case positions < 2 || cache < 2:
		return l, fmt.Errorf("the model has %d positions and the cache holds %d tokens: both must be >= 2", positions,
			cache)
	case l.MaxTotalTokens > positions:
		return l, fmt.Errorf("`max_total_tokens` must be <= the model's positions. Given: %d and %d", l.MaxTotalTokens,
			positions)
	case l.MaxBatchTotalTokens > cache:
		return l, fmt.Errorf("`max_batch_total_tokens` must be <= the tokens that the cache holds. Given: %d and %d",
			l.MaxBatchTotalTokens, cache)
	}
	if l.MaxBatchTotalTokens == 0 {
		l.MaxBatchTotalTokens = cache
	}
	if l.MaxTotalTokens == 0 {
		l.MaxTotalTokens = min(positions, l.MaxBatchTotalTokens)
	}
	if l.MaxTotalTokens < 2 {
		return l, fmt.Errorf("`max_total_tokens` must be >= 2. Given: %d", l.MaxTotalTokens)
	}
	if err := l.checkGiven(); err != nil {
		return l, err
	}
	// Prompts are computed in chunks, so the budget of a step may be smaller
	// than a prompt when both are derived.
	if l.MaxInputTokens == 0 {
		l.MaxInputTokens = l.MaxTotalTokens - 1
	}
	if l.MaxBatchPrefillTokens == 0 {
		l.MaxBatchPrefillTokens = min(prefillChunk, l.MaxBatchTotalTokens)
	}
	if l.MaxBatchSize == 0 {
		l.MaxBatchSize = l.MaxConcurrentRequests
	}
	return l, nil
}
