package engine

import (
	"fmt"
	"time"

	"tgi/runtime/draft"
	"tgi/runtime/llm"
	"tgi/runtime/sched"
)

// Where nothing else has a guess, a second model may guess, for all sequences of a step together. It costs time for
// each token that it guesses, so it is asked for as many as are expected to save more.

const (
	// unlikely is the chance of a first guess below which a sequence is not guessed for, but for a try each tryEvery
	// tokens.
	unlikely = 0.25
	tryEvery = 64
)

// secondModel is the engine's state of its draft model.
type secondModel struct {
	model *draft.Model // nil without one, and after it failed
	rows  map[*sequence]*draft.Row
	costs draft.Costs // of the model's steps
	prior draft.Prior
	asked []asked // by the step
	list  []*draft.Row
	err   error // why it is gone, until it was told
}

// asked is a sequence that gets guesses of the model if they pay.
type asked struct {
	q  *sequence
	at sched.Room
}

// ask adds a sequence for which there are no other guesses.
func (s *secondModel) ask(q *sequence, at sched.Room) {
	if s.model != nil && q.modelled && q.drafting != nil {
		s.asked = append(s.asked, asked{q, at})
	}
}

// sweep drops the rows of sequences that have ended.
func (s *secondModel) sweep(active map[*sched.Seq]*sequence) {
	s.asked = s.asked[:0]
	for q, r := range s.rows {
		if active[q.seq] != q {
			s.model.Drop(r)
			delete(s.rows, q)
		}
	}
}

// draftByModel has the draft model guess for the sequences that were asked for. It never fails: without the model,
// texts are the same.
func (e *Engine) draftByModel(b *draft.Budget) {
	s := &e.second
	if s.model == nil || len(s.asked) == 0 {
		return
	}
	if s.err = e.guessByModel(b); s.err != nil {
		s.model, s.rows = nil, nil
	}
}

func (e *Engine) guessByModel(b *draft.Budget) error {
	s := &e.second
	list, behind := s.asked[:0], 0
	for _, a := range s.asked {
		r := s.row(a.q)
		known := len(a.q.seq.Output())
		if !e.speculation.Always && a.q.drafting.ModelWorth(1) < unlikely && known-a.q.tried < tryEvery {
			continue
		}
		h := historyOf(a.q.seq)
		if !s.model.Can(r, h) {
			continue
		}
		list = append(list, a)
		behind += r.Behind(h)
	}
	most := e.speculation.Tokens
	if !e.speculation.Always {
		most = b.GrantModel(&s.costs, len(list), behind, most, func(k int) (sum float64) {
			for _, a := range list {
				sum += max(a.q.drafting.ModelWorth(min(k, a.at.Room)), unlikely)
			}
			return sum
		})
	}
	if most == 0 {
		return nil
	}
	s.list = s.list[:0]
	for _, a := range list {
		r := s.row(a.q)
		s.model.Ask(r, historyOf(a.q.seq), min(most, a.at.Room))
		a.q.tried = len(a.q.seq.Output())
		s.list = append(s.list, r)
	}
	err := catchBackend(func() error {
		return s.model.Guess(s.list, func(tokens int, compute func() error) error {
			began := time.Now()
			err := compute()
			s.costs.Observe(tokens, time.Since(began))
			return err
		})
	})
	if err != nil {
		return err
	}
	for i, a := range list {
		guess := a.q.cut(s.list[i].Guessed(), e.shape.Vocab)
		a.q.drafting.TakeModel(historyOf(a.q.seq), guess)
		e.sched.Draft(a.at.Seq, guess)
	}
	return nil
}

// row returns the row of a sequence.
func (s *secondModel) row(q *sequence) *draft.Row {
	r := s.rows[q]
	if r == nil {
		if s.rows == nil {
			s.rows = map[*sequence]*draft.Row{}
		}
		r = s.model.NewRow()
		s.rows[q] = r
		q.drafting.StartModel(&s.prior)
	}
	return r
}

// takeErr returns the error once.
func (s *secondModel) takeErr() error {
	err := s.err
	s.err = nil
	return err
}

// check verifies the invariants of the model's cache.
func (s *secondModel) check() error {
	if s.model == nil {
		return nil
	}
	list := make([]*draft.Row, 0, len(s.rows))
	for _, r := range s.rows {
		list = append(list, r)
	}
	return s.model.Check(list)
}

// cut returns what the model and the sequence's mask know of a guess.
func (q *sequence) cut(guess []llm.Token, vocab int) []llm.Token {
	for i, t := range guess {
		if int(t) >= vocab { // a tokenizer may have more tokens than the model
			guess = guess[:i]
			break
		}
	}
	return guess[:q.chain.Admits(guess)]
}

// catchBackend calls f, which calls the draft model, and returns a panic as an error.
func catchBackend(f func() error) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("%w: panic: %v", draft.ErrModel, r)
		}
	}()
	if err := f(); err != nil {
		return fmt.Errorf("%w: %w", draft.ErrModel, err)
	}
	return nil
}
