package generate

import (
	"context"
	"slices"

	"tgi/runtime/llm"
	"tgi/sdk/abi"
)

// Where a request's tools say what its texts may be, the runs of its program are held to that as they would be to a
// grammar of the request, by the same words: a run that says nothing is held, one with a grammar of its own is not.

// heldCalls is what the tools of a request say of the runs of its program.
type heldCalls uint8

const (
	// callsFree: nothing.
	callsFree heldCalls = iota
	// callsInside: the text is free, but for its calls. So it is where a run is freed of the request's grammar.
	callsInside
	// callsWhole: the text is a call, or the answer that the request wants beside calls. That is its grammar.
	callsWhole
)

// holdRuns notes what the runs of programs are held to. held says that there is something that holds calls.
func (r *Run) holdRuns(held bool) {
	switch {
	case !held:
	case r.conversation.heldWhole():
		r.calls = callsWhole
	default:
		r.calls = callsInside
	}
}

// placeCalls says where the text begins of which a run goes on. Where calls alone are held, it is all that was written
// behind the prompt: it may end inside a call, or behind reasoning. A text that is none is left alone; checkCalls tells
// of it if it goes out.
func (h *Contexts) placeCalls(x *handle, set *runSettings) {
	prompt, all := h.run.Request.Prompt, x.c.Tokens()
	if !set.calls || h.run.calls != callsInside || len(all) <= len(prompt) || !slices.Equal(all[:len(prompt)], prompt) {
		return
	}
	set.from = len(prompt)
	set.calls = h.bound.HoldsCalls(h.ctx, all[set.from:])
}

// Calls implements ctx_calls.
func (h *Contexts) Calls(c int) (state, size int, err error) {
	x, err := h.resting(c)
	if err != nil {
		return 0, 0, err
	}
	talk, prompt, all := h.run.conversation, h.run.Request.Prompt, x.c.Tokens()
	if talk == nil || !talk.offers() || len(all) <= len(prompt) || !slices.Equal(all[:len(prompt)], prompt) {
		return abi.CallsNone, 0, nil
	}
	if state, size, err = h.bound.ReadCalls(h.ctx, all[len(prompt):]); err != nil {
		return state, size, h.codeError(err, abi.ProgramPlugin)
	}
	if h.run.calls == callsInside && !h.bound.HoldsCalls(h.ctx, all[len(prompt):]) {
		state = abi.CallsBroken
	}
	return state, 2 * size, nil
}

// checkCalls looks at what the program emitted, once it is over: it may have held its runs to something else, or have
// written what no run did. The reply says what it lost by that. What guards made of the text is no loss of the
// program's, nor is that they, a stop string or the bound of its length cut it. ended says that no token ended it.
func (h *Contexts) checkCalls(ended bool) {
	if h.run.calls == callsFree {
		return
	}
	all := h.out.Written()
	if ended && h.last.Finish != nil && h.last.Finish.Reason == llm.FinishEOS {
		all = append(slices.Clip(all), h.last.Token) // the text claims to be whole
	}
	if h.bound.HoldsCalls(context.WithoutCancel(h.ctx), all) {
		return
	}
	c, list := h.run.conversation, []Dropped(nil)
	reason := "program " + h.name + " sent a text that is not held to it"
	if c.ToolChoice.Demands() {
		list = append(list, Dropped{Pointer: "#/tools", Keyword: "tool_choice", Reason: reason})
	}
	if c.Strict {
		list = append(list, Dropped{Pointer: "#/tools", Keyword: "strict", Reason: reason})
	}
	if c.Answer != nil {
		list = append(list, Dropped{Pointer: "#/" + c.Answer.Field, Keyword: c.Answer.Language, Reason: reason})
	}
	h.run.skipMu.Lock()
	defer h.run.skipMu.Unlock()
	for _, d := range list {
		if !slices.Contains(h.run.dropped, d) {
			h.run.dropped = append(h.run.dropped, d)
		}
	}
}
