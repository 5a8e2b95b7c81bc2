package engine

import (
	"errors"

	"tgi/runtime/llm"
	"tgi/runtime/sample"
)

// A text with guards ends by what is picked, and by its guards. Whoever ends it, all guards are told of the end, and
// what is held goes out or not as they say then.

// finish ends the sequence: with the token that ended it, if that is no part of the text, or with the last that this
// pick released, or else with an event that no token of the client's stands for, and that is not counted. Whether the
// picks before were made in the same step, as guesses are, changes nothing.
func (h *holdback) finish(t *pickTask, fin llm.Finish, last picked) {
	if last.special && fin.Reason == llm.FinishEOS {
		last.fin = fin
		h.give(last)
		return
	}
	if n := len(h.given); n > h.before {
		x := &h.given[n-1]
		x.fin = fin
		h.count(&x.fin)
		return
	}
	h.count(&fin)
	h.given = append(h.given, picked{pick: sample.Pick{Token: t.e.endToken()}, special: true, fin: fin})
}

// endToken is the token of events that no token stands for.
func (e *Engine) endToken() llm.Token {
	if len(e.ends) == 0 {
		return 0
	}
	return e.ends[0]
}

// stop ends the text where a guard wants it to end, or a little later where what went out rests on more of it, and asks
// that guard no more unless another has it end before: so that there is an end, whatever guards say of it.
func (h *holdback) stop(t *pickTask, g *guardian, position int) {
	h.end(t, g, max(position, h.bound(g)))
	if n := len(h.output); len(h.held) > 0 {
		g.done, g.at = true, n
	}
}

// end ends the text behind the tokens below position. What is held beyond is dropped. What is held before has an end
// then, which the guards are told of: it goes out if they let it. The end is the first guard's, whatever else ended the
// text there: only a stop string that is found before is the end that comes first.
func (h *holdback) end(t *pickTask, g *guardian, position int) {
	n, last := len(h.output), h.held[len(h.held)-1].picked
	if h.goesOn(position) {
		position = h.boundary(position)
	}
	if position == n && !h.ending {
		h.ended = last.fin.Reason != llm.FinishNone
		if last.fin.Reason == llm.FinishEOS && last.special {
			position = max(n-1, h.released())
		}
	} else if position < n {
		h.ended = false
	}
	fin := llm.Finish{Reason: llm.FinishGuard, StoppedBy: g.rules.Name, Why: g.v.Why}
	if h.ending {
		fin = last.fin
	}
	h.ending = true
	g.Applied(llm.VerdictStop, n-position)
	h.cutHeld(position)
	if len(h.held) == 0 {
		h.finish(t, fin, picked{})
		return
	}
	h.held[len(h.held)-1].fin = fin
}

// cutHeld drops all but the first n output tokens, which hold all that went out.
func (h *holdback) cutHeld(n int) {
	h.held = h.held[:n-h.released()]
	h.output = h.output[:n]
	for i := range h.guards {
		g := &h.guards[i]
		g.kept, g.waits = min(g.kept, n), false
	}
	h.forget(n)
}

// nothingFollowed is why a guard ends the text of a program that emitted nothing in place of what it took back.
const nothingFollowed = "it took the end back, and the program emitted nothing in its place"

// exhausted is called where a guard may take back or insert no more.
func (h *holdback) exhausted(t *pickTask, g *guardian, why string) (again, over bool, err error) {
	if g.rules.OnExhausted == llm.GuardReleases {
		g.done, g.at = true, 0
		return true, false, nil
	}
	g.v = llm.Verdict{Kind: llm.VerdictStop, Why: why}
	h.stop(t, g, h.released())
	return true, true, nil
}

// fail handles the error of a pick of a sequence with guards: where the biases of one leave nothing, it is exhausted.
func (t *pickTask) fail(err error) error {
	h := t.q.guards
	if !errors.Is(err, sample.ErrBanned) {
		return err
	}
	g := &h.guards[t.chain.BannedBy()]
	g.v = llm.Verdict{Kind: llm.VerdictStop, Why: "nothing else may follow"}
	if h.before = len(h.given); len(h.held) == 0 {
		g.Applied(llm.VerdictStop, 0)
		h.finish(t, llm.Finish{Reason: llm.FinishGuard, StoppedBy: g.rules.Name, Why: g.v.Why}, picked{})
		return nil
	}
	h.stop(t, g, h.released())
	if t.apart && len(h.held) > 0 {
		t.asks, t.settles = true, true
		return nil
	}
	_, err = t.settle()
	return err
}

// lift ends the guards whose biases left nothing, and that release then.
func (h *holdback) lift(list []int) {
	for _, i := range list {
		h.guards[i].done, h.guards[i].at = true, 0
	}
}
