package sched

import (
	"cmp"
	"slices"
)

// Clients that stand beneath (Job.Beneath) give way: while others have sequences, a step computes as many tokens for
// those beneath as a Yield says. Those that have got the least go first, of one client the oldest, until the tokens are
// used up: a row that decodes counts as one, a prompt as what is computed of it. The others stay out of the step. They
// keep their blocks and their places, so that nothing but time is lost, and all of them join again when nobody else has
// a sequence. Who is admitted and preempted is decided by shares, as for everybody.
//
// A step is never empty for that: where it would have no row, all that stand beneath join.

// Yield says how many tokens of sequences beneath the next step may compute. decode is how many rows of others compute
// a token in it, and running how many rows of others run in all: more prompts, and parked ones, which may come back any
// time. Where decode is 0, a result below 1 counts as 1.
type Yield func(decode, running int) (tokens int)

// SetYield has clients beneath give way to others. Without, they only have their shares.
func (s *Scheduler) SetYield(y Yield) { s.yield = y }

// yields reports whether sequences beneath have to give way.
func (s *Scheduler) yields() bool {
	if s.yield == nil {
		return false
	}
	above, beneath := false, false
	for _, a := range s.clients.active {
		above, beneath = above || !a.beneath, beneath || a.beneath
	}
	return above && beneath
}

// pauses reports whether a sequence, or a row of a group, has no tokens in this step.
func (s *Scheduler) pauses(q *Seq) bool { return s.yielding && q.beneath() && q.Handle().granted == 0 }

// beneath reports whether a sequence that does not rest, or a row of a group, stands beneath others.
func (q *Seq) beneath() bool { return q.Handle().client.beneath }

// grant shares the tokens that sequences beneath have in this step out among those that run.
func (s *Scheduler) grant() {
	if s.yielding = s.yields(); !s.yielding {
		return
	}
	decode, all := 0, 0
	list := s.beneath[:0]
	for _, q := range s.running {
		switch rows := len(q.members()); {
		case !q.beneath():
			all += rows
			if !q.parked && q.decodes() {
				decode += rows
			}
		case !q.parked:
			list = append(list, q)
		}
	}
	s.left = s.yield(decode, all)
	if decode == 0 {
		s.left = max(s.left, 1)
	}
	slices.SortFunc(list, (*Seq).claim)
	for _, q := range list {
		q.granted = 0
		if s.left <= 0 {
			continue
		}
		if q.decodes() {
			q.granted = len(q.members()) // which step together
		} else {
			q.granted = min(q.backlog(), s.left)
		}
		s.left -= q.granted
	}
	s.beneath = list
}

// claim orders sequences by what they have got: those with the least go first.
func (q *Seq) claim(o *Seq) int {
	return cmp.Or(cmp.Compare(q.progress(), o.progress()), cmp.Compare(q.id, o.id))
}

// backlog counts the tokens that the rows of a sequence have left to compute.
func (q *Seq) backlog() (n int) {
	for _, m := range q.members() {
		n += m.uncomputed()
	}
	return n
}

// decodes reports whether all rows of a sequence have one token left to compute.
func (q *Seq) decodes() bool { return q.backlog() == len(q.members()) }

// mayCompute bounds n tokens of a sequence, or of a row of a group, by what it was granted, and takes them from that.
func (s *Scheduler) mayCompute(q *Seq, n int) int {
	if h := q.Handle(); s.yielding && q.beneath() {
		n = min(n, h.granted)
	}
	return n
}

// use takes n tokens from what a sequence, or the group of a row, was granted.
func (s *Scheduler) use(q *Seq, n int) {
	if h := q.Handle(); s.yielding && q.beneath() {
		h.granted = max(h.granted-n, 0)
	}
}

// depth is 1 for sequences that stand beneath others, else 0.
func (q *Seq) depth() int {
	if q.beneath() {
		return 1
	}
	return 0
}

// before reports whether the prompt of q, which runs, goes on before next of the queue, of another client, is admitted.
func (s *Scheduler) before(q, next *Seq) bool {
	if s.yielding && q.depth() != next.depth() {
		return q.depth() < next.depth()
	}
	return next.progress() >= q.progress()
}

// aboveWaits reports whether a sequence of others could be admitted.
func (s *Scheduler) aboveWaits() bool {
	return slices.ContainsFunc(s.waiting, func(q *Seq) bool { return !q.parked && !q.beneath() })
}
