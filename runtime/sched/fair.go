package sched

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"tgi/runtime/kv"
)

// Clients share the cache, the batch and the prompt budget of a step by their shares:
// start-time fair queueing (Goyal et al. 1996), whose virtual time is computed tokens over
// the client's share. The rank of a sequence is its virtual start: what was computed for
// the older sequences of its client.
// The rank of a client's oldest sequence is fixed and those of the others only grow, so
// the first of all stays first until it ends. Within a client, ranks keep the order of
// arrival, but for priorities: a new sequence goes before those of its client that are of
// less priority and have never run, at most maxOvertaken times before each. It takes over
// their place in the order of all, so that no other client notices.

// unit is the virtual time of a token of a client whose share is 1.
const unit = 1024

// costOf is the virtual time of a token at a share; 0 is 1.
func costOf(share float64) int {
	if !(share > 0) {
		return unit
	}
	return int(min(max(math.Round(unit/share), 1), unit*unit))
}

// maxOvertaken is how many jobs of its client go before a job that came earlier.
const maxOvertaken = 256

// recomputeSpeed is about how many tokens of a preempted sequence are computed again in
// the time that one output token of a row takes.
const recomputeSpeed = 8

// client is one client's part of what was computed.
type client struct {
	name string
	cost int // of a token: see costOf
	// beneath says that its sequences give way: see Yield.
	beneath bool
	// start is the virtual start of the oldest sequence, without its Seq.before.
	start int
	live  []*Seq // those that have not ended, groups as one, oldest first
	tail  int    // computed for sequences that ended and were younger than all of live
}

// clients are those that have sequences, and those that had more than the others and
// may come back while they still wait.
type clients struct {
	byName map[string]*client
	active []*client // those with sequences
	sweep  int       // forget clients when there are that many
}

// minSweep is the least number of clients at which some are forgotten.
const minSweep = 64

// clock is the virtual time, the least of what the active clients have had. It never
// goes back while there are any.
func (c *clients) clock() int {
	now := math.MaxInt
	for _, a := range c.active {
		now = min(now, a.start+a.live[0].before+a.live[0].spent)
	}
	return now
}

// join adds the new sequences of a job. A client that had none starts at the clock, or
// where it got if that is later: it saves nothing up while it asks for nothing. It reports
// whether the order of waiting sequences has changed.
func (c *clients) join(j *Job, seqs []*Seq) (reordered bool) {
	if c.byName == nil {
		c.byName = map[string]*client{}
	}
	a := c.byName[j.Client]
	if a == nil {
		a = &client{name: j.Client}
		c.byName[j.Client] = a
	}
	a.cost, a.beneath = costOf(j.Share), j.Beneath
	if len(a.live) == 0 {
		a.start, a.tail = a.start+a.tail, 0
		if len(c.active) > 0 {
			a.start = max(a.start, c.clock())
		}
		c.active = append(c.active, a)
	}
	for _, q := range seqs {
		q.client, q.priority, q.before, a.tail = a, j.Priority, a.tail, 0
		q.rank = a.start + q.before
		if n := len(a.live); n > 0 {
			q.rank = a.live[n-1].progress() + q.before
		}
		a.live = append(a.live, q)
	}
	reordered = a.overtake(len(seqs))
	c.forget()
	return reordered
}

// overtake moves the last n sequences, those of one job, before those that they may
// overtake. Places in the order of all stay where they are, and what counts for them.
func (a *client) overtake(n int) bool {
	last := len(a.live) - n
	to := last
	for to > 0 && a.live[to-1].yields(a.live[last].priority) {
		to--
	}
	if to == last {
		return false
	}
	places := make([]Seq, len(a.live)-to)
	for i, q := range a.live[to:] {
		places[i].id, places[i].before = q.id, q.before
	}
	for _, q := range a.live[to:last] {
		q.overtaken++
	}
	moved := slices.Concat(a.live[to:last]) // a copy
	copy(a.live[to:], a.live[last:])
	copy(a.live[to+n:], moved)
	for i, q := range a.live[to:] {
		q.id, q.before = places[i].id, places[i].before
	}
	a.updateRanks()
	return true
}

// charge counts n tokens that are computed for q.
func (q *Seq) charge(n int) {
	q.computed += n
	q.spent += n * q.client.cost
}

// yields reports whether a new job of a priority may go before q.
func (q *Seq) yields(priority int) bool {
	lead := q
	if q.leader != nil {
		lead = q.leader
	}
	return lead.state == waiting && lead.admissions == 0 && priority < lead.priority && lead.overtaken < maxOvertaken
}

// updateRanks brings the ranks of a client's sequences up to date.
func (a *client) updateRanks() {
	at := a.start
	for _, q := range a.live {
		q.rank = at + q.before
		at = q.progress()
	}
}

// leave removes a sequence that ends. What it had counts for the younger ones.
func (c *clients) leave(q *Seq) {
	a := q.client
	i, _ := slices.BinarySearchFunc(a.live, q.id, func(e *Seq, id uint64) int { return cmp.Compare(e.id, id) })
	if a.live = slices.Delete(a.live, i, i+1); i < len(a.live) {
		a.live[i].before += q.before + q.spent
	} else {
		a.tail += q.before + q.spent
	}
	if len(a.live) > 0 {
		return
	}
	i = slices.Index(c.active, a)
	if c.active = slices.Delete(c.active, i, i+1); len(c.active) == 0 {
		*c = clients{} // nobody waits for anybody
	}
}

// forget removes clients without sequences that the clock has passed.
func (c *clients) forget() {
	if len(c.byName) < max(c.sweep, minSweep) {
		return
	}
	now := c.clock()
	for name, a := range c.byName {
		if len(a.live) == 0 && a.start+a.tail <= now {
			delete(c.byName, name)
		}
	}
	c.sweep = 2 * len(c.byName)
}

// several reports whether more than one client has sequences. One client's need no ranks.
func (c *clients) several() bool { return len(c.active) > 1 }

// check verifies the invariants of the clients, which have n sequences.
func (c *clients) check(n int) error {
	for _, a := range c.active {
		n -= len(a.live)
		if len(a.live) == 0 || c.byName[a.name] != a {
			return fmt.Errorf("BUG: sched: client %q is active with %d sequences", a.name, len(a.live))
		}
		for i, q := range a.live {
			if q.client != a || q.state == ended || i > 0 && (a.live[i-1].id >= q.id || a.live[i-1].rank > q.rank) {
				return fmt.Errorf("BUG: sched: sequence %d of client %q has state %d, rank %d, place %d", q.id, a.name,
					q.state, q.rank, i)
			}
		}
	}
	if n != 0 {
		return fmt.Errorf("BUG: sched: %d more sequences than the clients have", n)
	}
	return nil
}

// compare orders sequences: less goes first.
func (q *Seq) compare(o *Seq) int {
	return cmp.Or(cmp.Compare(q.rank, o.rank), cmp.Compare(q.id, o.id))
}

// progress is the virtual time that a sequence has reached.
func (q *Seq) progress() int { return q.rank + q.spent }

// updateRanks brings ranks and queues up to date with what was computed.
func (s *Scheduler) updateRanks() {
	if !s.clients.several() {
		return
	}
	for _, a := range s.clients.active {
		a.updateRanks()
	}
	s.sort()
}

// sort orders the queues by rank.
func (s *Scheduler) sort() {
	slices.SortFunc(s.waiting, (*Seq).compare)
	slices.SortFunc(s.running, (*Seq).compare)
}

// enqueue adds the sequences of a new job, of which the first waits.
func (s *Scheduler) enqueue(j *Job, seqs []*Seq) {
	if s.clients.join(j, seqs) {
		s.sort()
	}
	s.waiting.insert(seqs[0])
}

// preemptForQueue preempts running sequences, the last first, for the first of the queue if that
// is enough to admit it, and reports whether it did. It comes before all planning: a row in the plan is never
// preempted.
func (s *Scheduler) preemptForQueue(p *Plan) (served bool) {
	q := s.waiting.next()
	if q == nil || !s.clients.several() || q.admissions == 0 && !q.returns && !s.admitsNew() {
		return false
	}
	victims := s.victims(q)
	if len(victims) == 0 {
		return false
	}
	first := q.members()[0]
	kept := q.rested != nil
	s.wake(q)
	_, blocks := s.findBlocks(q, first)
	if s.batchFits(q, s.Running()) {
		for !s.fits(q, blocks, nil) && s.reclaim() {
		}
	}
	if s.fits(q, blocks, victims) {
		for i := 0; !s.fits(q, blocks, nil); i++ {
			s.preempt(p, victims[i])
			served = true
		}
	}
	if kept {
		s.rest(q)
	} else {
		s.pool.Give(first.row)
	}
	return served
}

// victims returns the running sequences that may be preempted for q, the last first:
// those that are further ahead of it than computing them again costs.
// Without that margin two long sequences could preempt each other in turns.
func (s *Scheduler) victims(q *Seq) (out []*Seq) {
	for _, v := range slices.Backward(s.running) {
		if v.compare(q) < 0 {
			break
		}
		held := 0
		for _, m := range v.members() {
			held += m.row.Len()
		}
		if v.rank-q.rank > held*unit/recomputeSpeed {
			out = append(out, v)
		}
	}
	return out
}

// fits reports whether q, which needs that many blocks, could be admitted if the given
// running sequences were preempted.
func (s *Scheduler) fits(q *Seq, blocks int, gone []*Seq) bool {
	slots, spare, freed := s.Running(), s.spareBlocks(), []*kv.Row(nil)
	for _, v := range gone {
		slots -= v.slots()
		spare -= s.spareOf(v)
		for _, m := range v.members() {
			freed = append(freed, m.row)
		}
	}
	return s.batchFits(q, slots) && blocks+spare <= s.pool.Available()+s.pool.Frees(freed)
}

// prompts returns the running sequences that may have more than one token to compute,
// in the order in which they have a claim to the budget of the step: those that have
// got the least first, and those that give way last.
func (s *Scheduler) prompts() []*Seq {
	out := s.prefill[:0]
	for _, q := range s.running {
		if !q.parked && (len(q.rows) > 1 || q.members()[0].uncomputed() > 1) {
			out = append(out, q)
		}
	}
	if s.clients.several() {
		slices.SortFunc(out, (*Seq).claim)
	}
	if s.yielding {
		slices.SortStableFunc(out, func(a, b *Seq) int { return cmp.Compare(a.depth(), b.depth()) })
	}
	s.prefill = out
	return out
}
