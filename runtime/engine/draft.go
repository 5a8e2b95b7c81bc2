package engine

import (
	"time"

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
	if e.Speculates() == 0 || q.mix != nil {
		return
	}
	from := [draft.Sources]draft.Drafter{draft.Repeated: new(draft.Lookup)}
	from[draft.Forced], from[draft.Plugin] = q.chain.Drafters()
	if from[draft.Plugin] == nil && q.guards != nil {
		from[draft.Plugin] = q.chain.Inserted()
	}
	if plug.Drafter != nil {
		from[draft.Plugin] = plug.Drafter
	}
	if len(r.Prediction) > 0 {
		from[draft.Predicted] = draft.NewPrediction(r.Prediction)
	}
	if len(plug.Proposers) > 0 && !e.speculation.Off[draft.Proposed] {
		from[draft.Proposed] = e.newProposer(q, plug.Proposers)
	}
	q.drafting = draft.NewSequence(e.speculation, from)
	q.modelled = e.second.model != nil && len(r.Embeddings) == 0
}

// Guesses are asked for while nothing is computed, so that they hold up everyone's step.
const (
	// draftTime is what all of a step take together, but for the last one.
	draftTime = time.Millisecond
	// A guess that takes longer than dearGuess costs its sequence guesses for a step, and each further one for twice
	// as many steps as the one before, up to maxRest.
	dearGuess = draftTime / 8
	maxRest   = 256
)

// draft gives the scheduler guesses for the sequences that it may plan one token for, as far as draftTime suffices:
// where it does not, the next step begins with those that got none. Settings.Always knows no such bounds.
func (e *Engine) draft() {
	if e.Speculates() == 0 {
		return
	}
	e.second.sweep(e.active)
	if len(e.active) == 0 {
		return
	}
	room, rows := e.sched.DraftRooms()
	budget := e.costs.Budget(rows)
	first, spent := e.draftFirst, time.Duration(0)
	e.draftFirst = 0
	for i := range room {
		i = (first + i) % len(room)
		at := room[i]
		q := e.active[at.Seq]
		if q.drafting == nil || q.inFlight != nil {
			continue
		}
		if e.speculation.Always {
			guess := q.guess(at.Room, e.shape.Vocab)
			if e.sched.Draft(at.Seq, guess); len(guess) == 0 {
				e.second.ask(q, at)
			}
			continue
		}
		if spent >= draftTime {
			e.draftFirst = i
			break
		}
		if q.rests() || !budget.Grants(min(at.Room, e.speculation.Tokens)) {
			e.second.ask(q, at)
			continue
		}
		began := time.Now()
		guess := q.guess(at.Room, e.shape.Vocab)
		took := time.Since(began)
		spent += took
		q.countGuess(took)
		n := len(guess)
		if n > 0 {
			n = budget.Grant(n, q.drafting.Worth)
		}
		if e.sched.Draft(at.Seq, guess[:n]); n == 0 {
			e.second.ask(q, at)
		}
	}
	e.draftByModel(&budget)
}

// guessRest is for how many steps a sequence is not asked for guesses, because they take long.
type guessRest struct {
	left int // of the rest
	next int // how long the next one is, at least 1 after a dear guess
}

// rests reports whether the sequence is not asked in this step.
func (r *guessRest) rests() bool {
	if r.left == 0 {
		return false
	}
	r.left--
	return true
}

// countGuess begins a rest if a guess took long.
func (r *guessRest) countGuess(took time.Duration) {
	if took <= dearGuess {
		r.next /= 2
		return
	}
	r.next = min(max(2*r.next, 1), maxRest)
	r.left = r.next
}

// guess returns guesses that the model and the sequence's mask know.
func (q *sequence) guess(most, vocab int) (guess []llm.Token) {
	err := catchPanic(func() error { // a drafter may be user code
		guess = q.drafting.Guess(historyOf(q.seq), most)
		guess = q.cut(guess, vocab)
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
	if t.q.drafting.ByModel() {
		e.second.prior.Observe(right > 0)
	}
	accepted, rejected := t.q.drafting.Count(len(t.drafts), right)
	for s := range draft.Sources {
		e.drafts.Accepted[s] += accepted[s]
		e.drafts.Rejected[s] += rejected[s]
	}
}

// explain adds what the engine knows of the pick of the next position.
func (t *pickTask) explain(e *llm.Explanation, picked llm.Token) {
	if i := len(t.picks); i < len(t.drafts) && t.q.drafting != nil &&
		(t.drafts[i] == picked || !t.chain.Hides(t.drafts[i])) {
		e.Draft = &llm.ExplainedDraft{Source: t.q.drafting.Source(i).String(), Token: t.drafts[i],
			Accepted: t.drafts[i] == picked}
	}
	if h := t.q.guards; h != nil {
		h.explain(e)
	}
	left := t.q.healed.left(t.q.text.skip)
	e.SetTexts(func(id llm.Token) string {
		text, _ := beyond(t.e.codec.Text(id), left)
		return text
	})
}

// tokens returns what was picked, for the scheduler.
func (t *pickTask) tokens() []llm.Token {
	t.out = t.out[:0]
	for _, x := range t.picks {
		t.out = append(t.out, x.pick.Token)
	}
	return t.out
}
