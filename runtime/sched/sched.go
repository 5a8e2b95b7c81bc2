// Package sched decides what runs next. It knows sequences, the books of the
// cache and its settings; no clock, no device, no goroutine. The same calls in the
// same order always give the same plans.
//
// A step is Plan, then computing what it says, then Commit. Sequences run in the
// order of their arrival:
//
//   - every running row whose tokens are computed but one gets its token in every step;
//   - what the step's budget leaves goes to prompts, the oldest first, in chunks;
//   - who waits is admitted in order, and nobody overtakes one that does not fit yet.
//
// When a row needs a block and there is none, the youngest running sequence steps
// back: its blocks are given up and its tokens, prompt and output, are computed
// again when there is room. The oldest sequence is never made to step back for
// another and a request is only accepted if it fits the cache alone, hence every
// sequence ends.
//
// Who picks the tokens may need longer than a step for one of them: the sequence is
// parked then. It keeps its blocks and its place but is in no plan until Resolve says
// how it goes on, and steps back like any other: what it lost is computed again when
// it is resolved. Meanwhile the others run.
//
// The beams of a search are a group: one sequence of the queue with several rows,
// which run, step back and return together.
//
// The reasons behind it: docs/rationale/runtime.md.
package sched

import (
	"fmt"
	"slices"

	"tgi/runtime/kv"
	"tgi/runtime/llm"
)

// Scheduler holds the sequences of one model. It is not safe for concurrent use.
type Scheduler struct {
	set     Settings
	pool    *kv.Pool
	waiting queue
	running queue
	nextID  uint64
	// sinceAdmit counts steps in which no new sequence was admitted.
	sinceAdmit int
	planned    bool // between Plan and Commit
	plan       Plan
}

// New returns a scheduler without sequences.
func New(set Settings, sh Shape) (*Scheduler, error) {
	set, err := set.resolve(sh)
	if err != nil {
		return nil, err
	}
	pool, err := kv.New(kv.Config{
		Blocks:    set.MaxBatchTotalTokens / sh.BlockSize,
		BlockSize: sh.BlockSize,
		Share:     !set.NoPrefixSharing,
	})
	if err != nil {
		return nil, err
	}
	return &Scheduler{set: set, pool: pool}, nil
}

// Settings returns the settings with every default filled in. It may be called
// from any goroutine.
func (s *Scheduler) Settings() Settings { return s.set }

// Job is what Add accepts.
type Job struct {
	// Prompt holds at least one token. The scheduler keeps it and does not write to it.
	Prompt []llm.Token
	// MaxNew bounds the tokens that Commit will append.
	MaxNew int
	// N sequences start from the prompt; >= 1.
	N int
	// Beams, when more than 1, makes it one group of up to so many rows; N is 1 then.
	Beams int
	// Score asks for the logits of all prompt positions. Nothing is skipped in the
	// cache then.
	Score bool
	// Salt keeps apart what may not share cache blocks.
	Salt string
}

// Add puts the job's sequences at the end of the queue. The first leads: the
// others fork from it once its prompt is computed. The error is Settings.Check's or,
// with Beams, CheckBeams's.
func (s *Scheduler) Add(j Job) ([]*Seq, error) {
	if j.Beams > 1 {
		g, err := s.addGroup(j)
		return []*Seq{g}, err
	}
	if err := s.set.Check(len(j.Prompt), j.MaxNew, j.N); err != nil {
		return nil, err
	}
	seqs := make([]*Seq, j.N)
	for i := range seqs {
		s.nextID++
		seqs[i] = &Seq{
			id:     s.nextID,
			state:  following,
			tokens: j.Prompt[:len(j.Prompt):len(j.Prompt)],
			prompt: len(j.Prompt),
			max:    j.MaxNew,
		}
		seqs[i].self[0] = seqs[i]
	}
	lead := seqs[0]
	lead.state, lead.row, lead.score = waiting, kv.NewRow(j.Salt), j.Score
	lead.followers = append([]*Seq(nil), seqs[1:]...)
	for _, f := range lead.followers {
		f.leader = lead
	}
	s.waiting.insert(lead)
	return seqs, nil
}

// Abort ends a sequence wherever it is and frees its blocks at once. Followers
// that still wait for its prompt end with it. Ended sequences are left alone. It is
// not for the time between Plan and Commit: there Result.End ends one sequence, and
// Drop all of a plan.
func (s *Scheduler) Abort(q *Seq) {
	if l := q.leader; q.state == following {
		l.followers = slices.DeleteFunc(slices.Clone(l.followers), func(f *Seq) bool { return f == q })
	}
	if q.state != ended {
		s.end(q)
	}
	for _, f := range q.followers {
		f.state = ended
	}
	q.followers = nil
}

// Drop ends the sequences of a plan that could not be computed and returns them.
func (s *Scheduler) Drop(p *Plan) []*Seq {
	s.planned = false
	var out []*Seq
	for _, r := range p.Rows {
		q := r.Seq.Handle()
		if q.state == ended { // another row of the same group
			continue
		}
		out = append(append(out, q), q.followers...)
		s.Abort(q)
	}
	return out
}

// Result is what became of one sample of a plan.
type Result struct {
	// Pending parks the sequence, in the result of a group's first sample the group:
	// its token is told by Resolve. No other field is looked at.
	Pending bool
	// Token is appended to the sequence unless End is set.
	Token llm.Token
	// End ends the sequence and frees its blocks.
	End bool
	// Beams, in the result of a group's first sample, are the rows with which the
	// group goes on; none end it. The fields above and the results of its other
	// samples are not looked at.
	Beams []Branch
}

// Commit records that the plan was computed. results are in the order of the
// plan's samples: row by row, each row's Samples.
func (s *Scheduler) Commit(p *Plan, results []Result) {
	s.planned = false
	for i := range p.Rows {
		r := &p.Rows[i]
		s.pool.Commit(r.Seq.row, r.Seq.tokens[:r.Start+r.Len])
		r.Seq.scored = max(r.Seq.scored, r.FirstScore+r.Scores)
	}
	k := 0
	for i := 0; i < len(p.Rows); i++ {
		r := &p.Rows[i]
		q := r.Seq
		if n := len(q.Handle().rows); n > 0 && len(r.Samples) > 0 { // the group's rows stand together
			if q.group.parked = results[k].Pending; !q.group.parked {
				s.regroup(q.group, results[k].Beams)
			}
			k, i = k+n, i+n-1
			continue
		}
		for _, f := range q.followers[:max(len(r.Samples)-1, 0)] {
			f.row, f.leader, f.cached = s.pool.Fork(q.row), nil, q.cached
		}
		for _, m := range r.Samples {
			s.settle(m, results[k])
			k++
		}
		if len(r.Samples) > 0 {
			q.followers = nil
		}
	}
}

// settle applies the result of one sample to its sequence.
func (s *Scheduler) settle(q *Seq, r Result) {
	q.parked = r.Pending
	switch {
	case r.Pending:
	case r.End:
		s.end(q)
		return
	default:
		q.tokens = append(q.tokens, r.Token)
	}
	if q.state == running {
		return
	}
	// A fork: it runs beside its leader, or waits like one that stepped back.
	if len(s.running) < s.set.MaxBatchSize {
		q.state = running
		q.stints = 1
		s.running.insert(q)
	} else {
		q.state = waiting
		q.stints = 1
		s.pool.Give(q.row)
		s.waiting.insert(q)
	}
}

// end takes a sequence, or group, out of its queue and frees its blocks.
func (s *Scheduler) end(q *Seq) {
	switch q.state {
	case waiting:
		s.waiting.remove(q)
	case running:
		s.running.remove(q)
	}
	for _, m := range q.parts() {
		if m.row != nil { // a follower has none yet
			s.pool.Give(m.row)
		}
	}
	q.state, q.parked = ended, false
}

// Resolve says how a parked sequence, or group, goes on. Like Abort it is not for the
// time between Plan and Commit.
func (s *Scheduler) Resolve(q *Seq, r Result) {
	if !q.parked || r.Pending || s.planned {
		panic("BUG: sched: Resolve of a sequence that is not parked, with no result, or inside a step")
	}
	q.parked = false
	switch {
	case q.rows != nil:
		s.regroup(q, r.Beams)
	case r.End:
		s.end(q)
	default:
		q.tokens = append(q.tokens, r.Token)
	}
}

// Parked returns how many sequences are parked, each group as one.
func (s *Scheduler) Parked() int { return s.waiting.parked() + s.running.parked() }

// Waiting returns how many sequences wait: those in the queue, their followers, and
// as many for each group as it can have rows.
func (s *Scheduler) Waiting() int { return places(s.waiting) }

// Running returns how many sequences run, counted as those that wait are.
func (s *Scheduler) Running() int { return places(s.running) }

func places(l queue) (n int) {
	for _, q := range l {
		n += q.places()
	}
	return n
}

// Cache returns the blocks in use, those that can be found again, and all.
func (s *Scheduler) Cache() (used, cached, total int) {
	return s.pool.Used(), s.pool.Cached(), s.pool.Total()
}

// Check verifies the scheduler's books and those of the cache. A non-nil error is
// a bug of this program.
func (s *Scheduler) Check() error {
	var held []*kv.Row
	for name, l := range map[string]queue{"waiting": s.waiting, "running": s.running} {
		for i, q := range l {
			if i > 0 && l[i-1].id >= q.id {
				return fmt.Errorf("BUG: sched: %s sequences %d and %d are out of order", name, l[i-1].id, q.id)
			}
			want := waiting
			if name == "running" {
				want = running
			}
			if q.state != want {
				return fmt.Errorf("BUG: sched: %s sequence %d has state %d", name, q.id, q.state)
			}
			var err error
			if held, err = q.check(held); err != nil {
				return err
			}
			for _, f := range q.followers {
				if f.state != following || f.leader != q {
					return fmt.Errorf("BUG: sched: sequence %d does not follow %d", f.id, q.id)
				}
			}
		}
	}
	return s.pool.Check(held)
}

// check verifies the books of one sequence or group, and appends what it may hold
// of the cache to held.
func (q *Seq) check(held []*kv.Row) ([]*kv.Row, error) {
	if q.rows != nil {
		return checkGroup(q, held)
	}
	if n := len(q.row.Blocks()); q.state == waiting && n != 0 {
		return held, fmt.Errorf("BUG: sched: sequence %d waits and holds %d blocks", q.id, n)
	}
	if len(q.tokens) > q.prompt+q.max || !q.even() {
		return held, fmt.Errorf("BUG: sched: sequence %d has %d of %d+%d tokens, %d left, parked %v",
			q.id, len(q.tokens), q.prompt, q.max, q.left(), q.parked)
	}
	return append(held, q.row), nil
}

// even reports whether as many tokens are left to compute as the sequence's state asks
// for: none while it runs and is parked, otherwise one at least.
func (q *Seq) even() bool {
	h := q.Handle()
	if h.parked && h.state == running {
		return q.left() == 0
	}
	return q.left() >= 1
}
