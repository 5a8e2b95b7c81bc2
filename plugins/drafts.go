package plugins

import (
	"tgi/plugins/draft"
	"tgi/runtime/llm"
)

// Drafter is a plugin of kind "draft" in one sequence, as the engine's draft.Drafter. It is used by one goroutine at a
// time. It changes no text, so none of its faults ends one, whatever OnError says: the sequence goes on without it, and
// the request says so.
type Drafter struct {
	r     *run
	inner *draft.Proposer
}

// Name returns the plugin's name.
func (d *Drafter) Name() string { return d.r.part.name }

// Draft implements the engine's draft.Drafter.
func (d *Drafter) Draft(h llm.History, ahead, room []llm.Token) int {
	if d.r.stopped || len(ahead) > 0 {
		return 0
	}
	d.r.step = len(h.Output)
	n, err := d.inner.Propose(h.Prompt, h.Output, room)
	if err == nil {
		d.r.succeeded = true
		d.r.follower.guessed(h.Output, len(room), room[:n])
		return n
	}
	_ = d.r.handleError(err)
	return 0
}
