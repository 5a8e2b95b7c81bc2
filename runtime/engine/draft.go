package engine

import (
	"tgi/runtime/draft"
	"tgi/runtime/llm"
	"tgi/runtime/sample"
)

// A step may compute guesses of a sequence's next tokens (package draft). Each pick is made as without them, one
// position after the other (pickTask.pickAll), and the guesses only decide for how many positions there are logits. So
// they change no token, no log-probability, and no call of user code.

// DraftCounts are the computed guesses of a step by their source.
type DraftCounts struct{ Accepted, Rejected [draft.Sources]int }

// beginDrafting sets what guesses for a sequence. What a device reduces is asked for before the step, for one position:
// such models get none.
func (e *Engine) beginDrafting(q *sequence, r Request, plug sample.Plugins) {
	if e.Speculates() == 0 {
		return
	}
	from := [draft.Sources]draft.Drafter{draft.Repeated: new(draft.Lookup)}
	from[draft.Forced], from[draft.Plugin] = q.chain.Drafters()
	if plug.Drafter != nil {
		from[draft.Plugin] = plug.Drafter
	}
	if len(r.Prediction) > 0 {
		from[draft.Predicted] = draft.NewPrediction(r.Prediction)
	}
	q.drafting = draft.NewSequence(e.speculation, from)
}

// draft gives the scheduler guesses for the sequences that it may plan one token for.
func (e *Engine) draft() {
	if e.Speculates() == 0 || len(e.active) == 0 {
		return
	}
	room, rows := e.sched.DraftRooms()
	budget := e.costs.Budget(rows)
	for _, at := range room {
		q := e.active[at.Seq]
		if q.drafting == nil || q.inFlight != nil {
			continue
		}
		guess := q.guess(at.Room, e.shape.Vocab)
		n := len(guess)
		if !e.speculation.Always && n > 0 {
			n = budget.Grant(n, q.drafting.Worth)
		}
		e.sched.Draft(at.Seq, guess[:n])
	}
}

// guess returns guesses that the model and the sequence's mask know.
func (q *sequence) guess(most, vocab int) (guess []llm.Token) {
	err := catchPanic(func() error { // a drafter may be user code
		guess = q.drafting.Guess(historyOf(q.seq), most)
		for i, t := range guess {
			if int(t) >= vocab { // a tokenizer may have more tokens than the model
				guess = guess[:i]
				break
			}
		}
		guess = guess[:q.chain.Admits(guess)]
		return nil
	})
	if err != nil {
		q.drafting, guess = nil, nil
	}
	return guess
}

// countDrafts counts the guesses of a task that were right.
func (e *Engine) countDrafts(t *pickTask) {
	if len(t.drafts) == 0 || t.q.drafting == nil {
		return
	}
	right := 0
	for right < min(len(t.picks), len(t.drafts)) && t.picks[right].pick.Token == t.drafts[right] {
		right++
	}
	accepted, rejected := t.q.drafting.Count(len(t.drafts), right)
	for s := range draft.Sources {
		e.drafts.Accepted[s] += accepted[s]
		e.drafts.Rejected[s] += rejected[s]
	}
}

// tokens returns what was picked, for the scheduler.
func (t *pickTask) tokens() []llm.Token {
	t.out = t.out[:0]
	for _, x := range t.picks {
		t.out = append(t.out, x.pick.Token)
	}
	return t.out
}
