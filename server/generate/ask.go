package generate

import (
	"slices"

	"tgi/runtime/engine"
	"tgi/runtime/llm"
	"tgi/runtime/sample"
	"tgi/sdk/abi"
)

// A program asks what the model makes of a context: for the logits behind it, or for the log-probabilities of tokens.
// It may ask of many contexts before it waits, so that a step computes the answers together.

// question is one that is under way.
type question struct {
	c   *engine.Context // the handle's, or a fork with the tokens behind it, which is the handle's once they are gone
	at  int             // tokens of the context
	ids []llm.Token     // that are scored; one or none is asked by a row
}

// answers are what is known of a context. They hold until it changes.
type answers struct {
	row    []float32 // logits of the next token; nil if not known
	scored []scored  // the latest, maxScores of them
}

// scored is the log-probabilities of tokens, if these came next.
type scored struct {
	ids      []llm.Token
	logprobs []float32
}

// maxScores is how many answers are kept of a context: what two replies are worth, and some more.
const maxScores = 8

// running reports whether a run or a question of the context is under way.
func (x *handle) running() bool { return x.c.Running() || x.ask != nil }

// changes forgets what is known of a context.
func (x *handle) changes() { x.answers, x.end = answers{}, nil }

// Ask implements ctx_ask.
func (h *Contexts) Ask(c int, ids []uint32) error {
	x, err := h.resting(c)
	if err == nil {
		err = h.checkTokens(ids)
	}
	if err != nil {
		return err
	}
	if x.answers.tells(ids) {
		return nil
	}
	return h.ask(x, ids)
}

// tells reports whether the answer to a question is known.
func (a *answers) tells(ids []llm.Token) bool {
	return a.row != nil && len(ids) < 2 || len(ids) > 0 && a.find(ids) != nil
}

// find returns the log-probabilities of tokens; nil if they are not known.
func (a *answers) find(ids []llm.Token) []float32 {
	for _, s := range a.scored {
		if slices.Equal(s.ids, ids) {
			return s.logprobs
		}
	}
	return nil
}

// keep adds what is known of tokens.
func (a *answers) keep(ids []llm.Token, logprobs []float32) {
	if len(a.scored) == maxScores {
		a.scored = slices.Delete(a.scored, 0, 1)
	}
	a.scored = append(a.scored, scored{ids, logprobs})
}

// ask begins a question about a context that rests.
func (h *Contexts) ask(x *handle, ids []llm.Token) error {
	n := len(x.c.Tokens())
	if err := h.mayAsk(n, len(ids)); err != nil {
		return err
	}
	q := &question{c: x.c, at: n, ids: slices.Clone(ids)}
	var span *engine.Span
	var err error
	if len(ids) > 1 {
		q.c = x.c.Fork()
		q.c.Append(ids)
		if span, err = q.c.Score(len(ids)); err != nil {
			q.c.Drop()
		}
	} else {
		span, err = x.c.Look()
	}
	if err != nil {
		return argument("%v", err)
	}
	x.ask = q
	h.begun(x, span)
	return nil
}

// mayAsk refuses a question about a context of n tokens and more behind it that cannot be computed.
func (h *Contexts) mayAsk(n, more int) error {
	switch {
	case h.purse < 1:
		return refused(abi.ProgramPurse, "all tokens that the program may have computed were")
	case n == 0:
		return argument("the context has no token")
	case n+more >= h.service.limits.MaxTotal:
		return refused(abi.ProgramRoom, "%d tokens and %d more, the model has room for %d", n, more,
			h.service.limits.MaxTotal)
	}
	return nil
}

// answered keeps the answer to a question.
func (h *Contexts) answered(x *handle, ev *engine.SpanEvent) {
	q := x.ask
	x.ask = nil
	x.cost += ev.Computed
	if q.c != x.c { // the context gets what was computed of it, or the next question would compute that again
		x.c.Drop()
		q.c.Truncate(q.at)
		x.c, x.computed = q.c, q.at
		x.answers.keep(q.ids, ev.Logprobs)
		return
	}
	x.answers.row, x.computed = ev.Row, q.at
	if len(q.ids) == 1 {
		x.answers.keep(q.ids, []float32{sample.PromptLogprob(slices.Clone(ev.Row), q.ids[0])})
	}
	h.keepRow(x)
}

// keepRow keeps the rows of as many contexts as may run at once: the latest.
func (h *Contexts) keepRow(x *handle) {
	h.rows = slices.DeleteFunc(h.rows, func(o *handle) bool { return o == x })
	if len(h.rows) == max(h.run.Request.contexts, 1) {
		h.rows[0].answers.row = nil
		h.rows = slices.Delete(h.rows, 0, 1)
	}
	h.rows = append(h.rows, x)
}

// await waits for the answer to a question about a context, and has the purse pay for it. Events of others that come
// before are applied.
func (h *Contexts) await(x *handle) error {
	for x.ask != nil {
		if err := h.pump(); err != nil {
			return err
		}
	}
	h.settle(x)
	return nil
}

// Logits implements ctx_top, ctx_row and ctx_entropy.
func (h *Contexts) Logits(c int) ([]float32, error) {
	x, err := h.resting(c)
	if err != nil {
		return nil, err
	}
	if x.answers.row == nil {
		if err := h.ask(x, nil); err != nil {
			return nil, err
		}
		if err := h.await(x); err != nil {
			return nil, err
		}
	}
	return x.answers.row, nil
}

// Score implements ctx_score.
func (h *Contexts) Score(c int, ids []uint32) ([]float32, error) {
	x, err := h.resting(c)
	if err == nil {
		err = h.checkTokens(ids)
	}
	if err != nil {
		return nil, err
	}
	if len(ids) == 1 && x.answers.row != nil && x.answers.find(ids) == nil {
		one := []float32{sample.PromptLogprob(slices.Clone(x.answers.row), ids[0])}
		if len(x.answers.scored) == maxScores { // the others were paid for
			return one, nil
		}
		x.answers.keep(ids, one)
	}
	if !x.answers.tells(ids) { // the next question is mostly about another token in its place
		if err := h.ask(x, ids); err != nil {
			return nil, err
		}
		if err := h.await(x); err != nil {
			return nil, err
		}
	}
	return x.answers.find(ids), nil
}
