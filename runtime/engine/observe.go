package engine

import (
	"time"

	"tgi/runtime/sched"
)

// Observer is told what the engine does. It is called on the engine's goroutine
// and must return quickly.
type Observer interface {
	// Step is called after each forward pass, a failed one included.
	Step(Report)
}

// Report is the figures of one step.
type Report struct {
	// DecodeRows is how many sequences got their next token; the other rows of
	// the step computed PrefillTokens of prompts, or of sequences that had stepped back.
	DecodeRows, PrefillTokens int
	// PrefillRows is how many rows computed PrefillTokens.
	PrefillRows int
	// Plan, Forward and Pick divide Total: choosing what runs; the model; and picking,
	// text, the books and handing out.
	Plan, Forward, Pick, Total time.Duration
	// Admitted sequences started; of the PromptTokens of their prompts CachedTokens
	// were found in the cache. Tokens that are found after a prompt has started are
	// counted when they are found.
	Admitted, PromptTokens, CachedTokens int
	// Preempted sequences stepped back for want of cache blocks.
	Preempted int
	// Waiting and Running count sequences after the step.
	Waiting, Running int
	// Late sequences were parked behind the step because their user code was not done;
	// SatOut ones were parked before it and not computed. A beam search counts as one.
	Late, SatOut int
	// Parked counts those that are parked after the step.
	Parked int
	// Err is why the forward pass failed, nil when it did not.
	Err error
	// KVUsed and KVCached count cache blocks held and found again; KVTotal is all.
	KVUsed, KVCached, KVTotal int
}

// timing holds the moments of a step.
type timing struct {
	begin, forward, picked, end time.Time
	err                         error // of the forward pass
	late, satOut                int
}

func newReport(p *sched.Plan, t timing, s Stats) Report {
	return Report{
		DecodeRows: p.DecodeRows, PrefillTokens: p.PrefillTokens, PrefillRows: len(p.Rows) - p.DecodeRows,
		Plan: t.forward.Sub(t.begin), Forward: t.picked.Sub(t.forward),
		Pick: t.end.Sub(t.picked), Total: t.end.Sub(t.begin),
		Admitted: p.Admitted, PromptTokens: p.PromptTokens, CachedTokens: p.CachedTokens,
		Preempted: p.Preempted,
		Late:      t.late, SatOut: t.satOut, Parked: s.Parked,
		Err:     t.err,
		Waiting: s.Waiting, Running: s.Running,
		KVUsed: s.KVUsed, KVCached: s.KVCached, KVTotal: s.KVTotal,
	}
}
