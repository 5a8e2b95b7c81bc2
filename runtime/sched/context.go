package sched

import (
	"fmt"

	"tgi/runtime/kv"
	"tgi/runtime/llm"
)

// A context is a sequence whose owner decides when it generates, and what its tokens are in between. It rests until
// Resume, and again after a Result with Rest. A resting context keeps its blocks, is in no plan and has no part in what
// clients share. It is the first to lose its blocks where others lack any: what the prefix cache still holds of them
// when it is resumed is not computed again. Each span between Resume and Rest is a new arrival of its client, so that
// contexts save nothing up while they rest.
//
// Forks that are resumed together, before anything was appended to one, follow the first: a step computes what is left
// of their tokens once, and they all pick from its logits, as the sequences of one job do.

// Open returns a resting context of the job's prompt, which may be empty. Its N, MaxNew, Beams and Score do not matter.
func (s *Scheduler) Open(j Job) *Seq {
	s.nextID++
	q := &Seq{
		id:      s.nextID,
		state:   resting,
		tokens:  j.Prompt[:len(j.Prompt):len(j.Prompt)],
		prompt:  len(j.Prompt),
		adapter: j.Adapter,
		row:     j.newRow(j.Known),
		owner:   j.Client,
		share:   j.Share,
		under:   j.Beneath,
		request: j.Request,

		embeddings: j.Embeddings, priority: j.Priority, context: true,
	}
	q.self[0] = q
	return q
}

// Fork returns a resting context of the first n tokens of one, which shares what is computed of them.
func (s *Scheduler) Fork(q *Seq, n int) *Seq {
	if s.planned || q.state != resting || n < 0 || n > len(q.tokens) {
		panic(fmt.Sprintf("BUG: sched: Fork at %d of %d tokens, in state %d, inside a step: %v", n, len(q.tokens), q.state,
			s.planned))
	}
	s.nextID++
	f := &Seq{id: s.nextID, state: resting, tokens: q.tokens[:len(q.tokens):len(q.tokens)], prompt: len(q.tokens),
		adapter: q.adapter, row: s.pool.Fork(q.row), long: q.long, owner: q.owner, share: q.share, under: q.under,
		priority: q.priority, request: q.request, embeddings: q.embeddings, context: true}
	f.self[0] = f
	s.rest(f)
	s.Truncate(f, n)
	return f
}

// Append appends tokens to a resting context.
func (s *Scheduler) Append(q *Seq, tokens []llm.Token) {
	if s.planned || q.state != resting {
		panic(fmt.Sprintf("BUG: sched: Append in state %d, inside a step: %v", q.state, s.planned))
	}
	q.tokens = append(q.tokens, tokens...) // in place: forks and views end at their length
	q.prompt = len(q.tokens)
}

// Resume lets a resting context generate up to maxNew tokens, with all of its tokens as the prompt. If score is not 0,
// the logits of the positions before the last so many tokens are wanted, as with Job.Score. The error is that of
// Settings.Check.
func (s *Scheduler) Resume(q *Seq, maxNew, score int) error {
	n := len(q.tokens)
	if s.planned || q.state != resting || score < 0 || score >= max(n, 1) {
		panic(fmt.Sprintf("BUG: sched: Resume of %d tokens, %d scored, in state %d, inside a step: %v", n, score, q.state,
			s.planned))
	}
	if err := s.settings.Check(n, maxNew, 1); err != nil {
		return err
	}
	s.nextID++
	q.id, q.before, q.computed, q.spent, q.admissions, q.cached = s.nextID, 0, 0, 0, 0, 0
	q.prompt, q.max, q.overtaken = n, maxNew, 0
	q.score, q.scored = score > 0, 0
	if s.follow(q) {
		return nil
	}
	known := n - 1
	if q.score {
		known = n - 1 - score
		q.scored = known
	}
	if q.row.Len() > known {
		s.pool.Truncate(q.row, known, n)
	}
	q.returns = q.row.Len() > 0
	q.state = waiting
	s.enqueue(q.arrival(), q.self[:])
	if !q.score {
		if s.resumed == nil {
			s.resumed = map[*llm.Token]*Seq{}
		}
		s.resumed[&q.tokens[0]] = q
	}
	return nil
}

// arrival is a span as a job of its client.
func (q *Seq) arrival() *Job {
	return &Job{Client: q.owner, Share: q.share, Beneath: q.under, Priority: q.priority}
}

// follow has a context that is resumed follow one that was before since the last plan, and reports whether there is one
// with the same tokens, of which as much is computed. Forks share the memory of their tokens until they differ, so
// nobody has to read these.
func (s *Scheduler) follow(q *Seq) bool {
	lead := s.resumed[&q.tokens[0]]
	if lead == nil || lead.state != waiting || q.score || len(lead.tokens) != len(q.tokens) ||
		min(q.row.Len(), len(q.tokens)-1) > lead.row.Len() {
		return false
	}
	s.wake(q)
	s.pool.Give(q.row) // it gets the leader's
	q.state, q.leader, q.returns = following, lead, false
	lead.followers = append(lead.followers, q)
	if s.clients.join(q.arrival(), q.self[:]) {
		s.sort()
	}
	return true
}

// succeed lets the first of the contexts that follow one which ends go before the others, with what was computed.
func (s *Scheduler) succeed(q *Seq) {
	if !q.context || len(q.followers) == 0 {
		return
	}
	next := q.followers[0]
	next.followers = append([]*Seq(nil), q.followers[1:]...)
	for _, f := range next.followers {
		f.leader = next
	}
	q.followers = nil
	next.leader, next.row, next.long = nil, s.pool.Fork(q.row), q.long
	next.state, next.returns = waiting, next.row.Len() > 0
	s.rest(next)
	s.waiting.insert(next)
	if at := &q.tokens[0]; s.resumed[at] == q {
		s.resumed[at] = next
	}
}

// rest adds a context that holds blocks to those that lose them first, behind those that rest already.
func (s *Scheduler) rest(q *Seq) { q.rested = s.rested.PushBack(q) }

// wake takes a context off that list, if it is there.
func (s *Scheduler) wake(q *Seq) {
	if q.rested != nil {
		s.rested.Remove(q.rested)
		q.rested = nil
	}
}

// finishSpan ends what a context generates. It was accepted before.
func (s *Scheduler) finishSpan(q *Seq) {
	switch q.state {
	case waiting: // it was preempted while it was parked
		s.waiting.remove(q)
	case running:
		s.running.remove(q)
	}
	s.clients.leave(q)
	q.state, q.parked, q.ahead, q.client = resting, false, nil, nil
	q.score, q.prompt = false, len(q.tokens)
	s.wake(q)
	s.rest(q)
}

// reclaim takes the blocks of the context that has rested longest, and reports whether there was one.
func (s *Scheduler) reclaim() bool {
	for e := s.rested.Front(); e != nil; e = s.rested.Front() {
		q := e.Value.(*Seq)
		s.wake(q)
		if len(q.row.Blocks()) > 0 {
			s.pool.Give(q.row)
			return true
		}
	}
	return false
}

// checkResting verifies the invariants of the contexts that may lose their blocks, and appends the rows of those that
// are in no queue to held. Contexts that hold none are only in their owner's hands.
func (s *Scheduler) checkResting(held []*kv.Row) ([]*kv.Row, error) {
	for e := s.rested.Front(); e != nil; e = e.Next() {
		q := e.Value.(*Seq)
		switch {
		case q.rested != e || q.state != resting && q.state != waiting:
			return held, fmt.Errorf("BUG: sched: sequence %d rests in state %d", q.id, q.state)
		case q.state == waiting: // the queue's check has its row
			continue
		case q.row.Len() > len(q.tokens) || q.parked || q.client != nil || len(q.ahead)+len(q.drafts) > 0:
			return held, fmt.Errorf("BUG: sched: sequence %d rests with %d of %d tokens computed, parked %v, of client %v",
				q.id, q.row.Len(), len(q.tokens), q.parked, q.client)
		}
		held = append(held, q.row)
	}
	return held, nil
}
