package openai

import (
	"tgi/runtime/llm"
	"tgi/server/api/deltas"
	"tgi/server/generate"
)

// choice is one of a reply's choices.
type choice struct {
	*deltas.Choice
	index  int // in the reply
	call   *call
	opened bool
	unsent []deltas.Scored // tokens that the next chunk of a stream reports
}

// newChoice returns the choice that sequence i of run becomes.
func newChoice(c *call, index int, run *generate.Run, i int) *choice {
	return &choice{Choice: deltas.NewChoice(&c.shown, run, i), index: index, call: c}
}

// guarded reports whether a guard ended the sequence.
func (c *choice) guarded() bool { return c.Finish != nil && c.Finish.Reason == llm.FinishGuard }

// reason is the finish_reason of a sequence that ended.
func (c *choice) reason() string {
	d := c.call.dialect
	switch {
	case c.call.rounds.goesOn(c): // but there are no tokens left for it
		return "length"
	case c.guarded():
		return "content_filter"
	case c.Reply.Called() && c.call.functions:
		return "function_call"
	case c.Reply.Called():
		return d.FinishTools
	case c.Reply.Stopped():
		return d.FinishStop
	case c.Finish.Reason == llm.FinishEOS:
		return d.FinishEOS
	}
	return c.Finish.Reason.String()
}
