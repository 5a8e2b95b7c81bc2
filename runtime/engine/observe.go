package engine

import (
	"time"

	"tgi/runtime/sched"
)

// Observer receives reports from the engine, on the step goroutine. It must return
// quickly.
type Observer interface {
	// Step is called after each forward pass, a failed one included.
	Step(Report)
}

// Report describes one step.
type Report struct {
	// DecodeRows counts the sequences that got their next token. The other rows of the
	// step computed PrefillTokens of prompts or of preempted sequences.
	DecodeRows, PrefillTokens int
	// Drafts counts the guesses that the step computed; each that was accepted is a token beyond one for each of
	// DecodeRows. Those of a sequence that is parked count in the step after which it goes on.
	Drafts DraftCounts
	// DraftErr is why the draft model guesses no more; it is in one report.
	DraftErr error
	// PrefillRows counts the rows that computed PrefillTokens.
	PrefillRows int
	// Plan, Forward and Pick add up to Total: scheduling; the model; and picking,
	// detokenizing, committing and sending events.
	Plan, Forward, Pick, Total time.Duration
	// Admitted counts the sequences that started, PromptTokens the tokens of their
	// prompts, and CachedTokens those that the prefix cache held. Tokens that are found
	// after a prompt has started are counted in the step that finds them.
	Admitted, PromptTokens, CachedTokens int
	// Preempted counts the sequences that were preempted for lack of cache blocks.
	Preempted int
	// Waiting and Running count sequences after the step.
	Waiting, Running int
	// Late counts the sequences that the step parked because their user code or mask
	// was not done, ParkedBefore those that were parked already. A beam search counts as one.
	Late, ParkedBefore int
	// Parked counts the sequences that are parked after the step.
	Parked int
	// Err is the forward pass's error, nil if it succeeded.
	Err error
	// KVUsed, KVCached and KVTotal count cache blocks as in Stats.
	KVUsed, KVCached, KVTotal int
}

// timing holds the times of a step.
type timing struct {
	begin, forward, picked, end time.Time
	err                         error // of the forward pass
	late, parkedBefore          int
}

func newReport(p *sched.Plan, timing timing, s Stats, d DraftCounts, draftErr error) Report {
	return Report{
		DecodeRows: p.DecodeRows, PrefillTokens: p.PrefillTokens, PrefillRows: len(p.Rows) - p.DecodeRows,
		Drafts: d, DraftErr: draftErr,
		Plan: timing.forward.Sub(timing.begin), Forward: timing.picked.Sub(timing.forward),
		Pick: timing.end.Sub(timing.picked), Total: timing.end.Sub(timing.begin),
		Admitted: p.Admitted, PromptTokens: p.PromptTokens, CachedTokens: p.CachedTokens,
		Preempted: p.Preempted,
		Late:      timing.late, ParkedBefore: timing.parkedBefore, Parked: s.Parked,
		Err:     timing.err,
		Waiting: s.Waiting, Running: s.Running,
		KVUsed: s.KVUsed, KVCached: s.KVCached, KVTotal: s.KVTotal,
	}
}
