// Package sched decides what each step computes: continuous batching (Orca, Yu et al.
// 2022) with chunked prefill and preemption by recomputation (vLLM). It knows
// sequences, cache blocks and its settings, but no clock, device or goroutine: the
// same calls in the same order always give the same plans.
//
// A step is Plan, the forward pass, then Commit. Sequences run in order of rank, which is
// the order of arrival for those of one client; the clients share fairly (see fair.go):
//
//   - each running row with one token left to compute is in every step;
//   - the rest of the step's budget goes to prompts, in order and in chunks;
//   - waiting sequences are admitted in order: none overtakes one that does not fit yet;
//   - clients that stand beneath others give way to these (see yield.go).
//
// When a row needs a block and none is available, the last running sequence is
// preempted: it releases its blocks, and its tokens, prompt and output, are computed
// again when there is room. So is the last that is well ahead of the first in the queue.
// The first sequence is never preempted for another, and a request is only accepted if
// it fits into the cache alone, so every sequence ends.
//
// A step may compute guesses of a sequence's next tokens too (see draft.go), and tokens can be taken back: Truncate.
//
// A sequence whose next token takes longer to pick than a step is parked. It keeps its
// blocks and its place, but is in no plan until Resolve gives its token. It can be
// preempted like any other; what it lost is computed again after Resolve.
//
// Some models rotate keys otherwise once a sequence is longer than its original context.
// A sequence that grows so long is preempted and computed anew, in the same step if
// there is room.
//
// A context (see context.go) is a sequence that rests between the spans that it generates.
//
// The beams of a search form a group: one sequence of the queue with several rows that
// run, are preempted and return together. So do twins, which have prompts of their own and one output.
//
// The only caller is runtime/engine, on its step goroutine.
//
// The reasons behind it: docs/rationale/runtime.md.
package sched

import (
	"container/list"
	"fmt"
	"slices"

	"tgi/runtime/kv"
	"tgi/runtime/llm"
)

// Scheduler holds the sequences of one model. It is not safe for concurrent use.
type Scheduler struct {
	settings Settings
	original int // Shape.OriginalLen
	pool     *kv.Pool
	waiting  queue
	running  queue
	clients  clients
	rested   list.List           // contexts whose blocks are for anybody who lacks some, see context.go
	resumed  map[*llm.Token]*Seq // contexts since the last plan that others may follow, by their first token's place
	prefill  []*Seq              // memory of prompts
	drafted  []*Seq              // that Draft was called for, until Plan
	rooms    []Room              // memory of DraftRooms
	nextID   uint64
	// sinceAdmit counts steps in which no new sequence was admitted.
	sinceAdmit int
	planned    bool // between Plan and Commit
	plan       Plan
	pace       Pace
	yield      Yield
	yielding   bool   // in this plan
	left       int    // tokens of the plan that sequences which give way may still compute
	beneath    []*Seq // memory of grant
	asked      uint64 // how often the pace was asked
}

// New returns a scheduler without sequences.
func New(set Settings, sh Shape) (*Scheduler, error) {
	set, err := set.withDefaults(sh)
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
	return &Scheduler{settings: set, original: sh.OriginalLen, pool: pool}, nil
}

// Pace says how many prompt tokens a step may compute beside so many rows that decode, while the prompts of so many
// requests are to be computed or could be admitted. 0 has them wait for a later step.
type Pace func(decodeRows, requests int) (tokens int)

// SetPace bounds the prompt tokens of steps with rows that decode, below MaxBatchPrefillTokens.
func (s *Scheduler) SetPace(p Pace) { s.pace = p }

// Settings returns the settings with every default filled in. It may be called
// from any goroutine.
func (s *Scheduler) Settings() Settings { return s.settings }

// Job describes the sequences that Add creates.
type Job struct {
	// Prompt holds at least one token. The scheduler keeps it and does not write to it.
	Prompt []llm.Token
	// MaxNew bounds the tokens that Commit will append.
	MaxNew int
	// N sequences start from the prompt; >= 1.
	N int
	// Beams, if more than 1, makes the job one group of up to that many rows; N is 1 then.
	Beams int
	// Twins makes each of the N sequences a group: of a row that starts from Prompt and one for each of these prompts.
	// All rows get the tokens of one output. Beams and Embeddings are not for them.
	Twins [][]llm.Token
	// Score asks for the logits of all prompt positions, so no cached prefix is used.
	Score bool
	// Salt separates jobs that must not share cache blocks.
	Salt string
	// Adapter is the backend's number of the low-rank adapter that the job's tokens are computed with.
	Adapter llm.Adapter
	// Embeddings are those of tokens of the prompt, ascending. The scheduler keeps them.
	Embeddings []llm.Embedding
	// Client names whose job it is: clients share the cache, the batch and the budget of
	// a step by their shares.
	Client string
	// Share is the client's from now on, relative to that of others; 0 is 1.
	Share float64
	// Beneath says that the client, from now on, gives way to those for which it is false: see Yield.
	Beneath bool
	// Priority orders the jobs of one client that have not run yet: less goes first.
	Priority int
	// Request is the same for all contexts of one request; nil is a request of its own.
	Request *Request
	// Withhold says that others find nothing of the output in the cache but what Result.Shown says, and nothing of a
	// context behind the first Known tokens: somebody may take back, or replace, what is there.
	Withhold bool
	// Known is how many of a context's first tokens others may find.
	Known int
}

// newRow is the row of one of the job's sequences.
func (j *Job) newRow(prompt int) *kv.Row {
	row := kv.NewRow(j.Salt, j.Embeddings...)
	if j.Withhold {
		row.Withhold(prompt)
	}
	return row
}

// Request is what the contexts of one request have in common. The zero value is ready to use.
type Request struct {
	asked uint64 // Scheduler.asked when it was counted
}

// Add appends the job's sequences to the queue. The first is the leader: the others
// fork from it once its prompt is computed. The error is that of Settings.Check or,
// with Beams, CheckBeams, with Twins, CheckTwins.
func (s *Scheduler) Add(j Job) ([]*Seq, error) {
	if j.Beams > 1 {
		g, err := s.addGroup(j)
		return []*Seq{g}, err
	}
	if len(j.Twins) > 0 {
		return s.addTwins(j)
	}
	if err := s.settings.Check(len(j.Prompt), j.MaxNew, j.N); err != nil {
		return nil, err
	}
	seqs := make([]*Seq, j.N)
	for i := range seqs {
		s.nextID++
		seqs[i] = &Seq{
			id:      s.nextID,
			state:   following,
			tokens:  j.Prompt[:len(j.Prompt):len(j.Prompt)],
			prompt:  len(j.Prompt),
			max:     j.MaxNew,
			adapter: j.Adapter,

			embeddings: j.Embeddings, withholds: j.Withhold,
		}
		seqs[i].self[0] = seqs[i]
	}
	lead := seqs[0]
	lead.state, lead.row, lead.score = waiting, j.newRow(len(j.Prompt)), j.Score
	lead.followers = append([]*Seq(nil), seqs[1:]...)
	for _, f := range lead.followers {
		f.leader = lead
	}
	s.enqueue(&j, seqs)
	return seqs, nil
}

// Abort ends a sequence in any state and frees its blocks at once. Followers that
// still wait for its prompt end with it, but for contexts, of which the next computes it. It does nothing to sequences
// that have ended.
// It must not be called between Plan and Commit; there, Result.End ends one sequence
// and Drop ends all of a plan.
func (s *Scheduler) Abort(q *Seq) {
	if l := q.leader; q.state == following {
		l.followers = slices.DeleteFunc(slices.Clone(l.followers), func(f *Seq) bool { return f == q })
	}
	s.succeed(q)
	s.endAll(q)
}

// endAll ends a sequence and those that follow it.
func (s *Scheduler) endAll(q *Seq) {
	if q.state != ended {
		s.end(q)
	}
	for _, f := range q.followers {
		s.end(f)
	}
	q.followers = nil
}

// Drop ends the sequences of a plan whose forward pass failed and returns them.
func (s *Scheduler) Drop(p *Plan) []*Seq {
	s.planned = false
	var out []*Seq
	for _, r := range p.Rows {
		q := r.Seq.Handle()
		if q.state == ended { // another row of the same group
			continue
		}
		out = append(append(out, q), q.followers...)
		s.endAll(q)
	}
	return out
}

// Result is the outcome of one sample of a plan.
type Result struct {
	// Pending parks the sequence, or the group if it is in the result of the group's
	// first sample, until Resolve. The other fields are ignored.
	Pending bool
	// Tokens are appended to the sequence: the picked one or, where the row has Drafts, the first of these that were
	// picked and the token picked behind them.
	Tokens []llm.Token
	// End ends the sequence and frees its blocks. The last of Tokens, if there is any, is the one that ended it, and is
	// not appended.
	End bool
	// Shown is, where the job withholds its output, how many tokens of that others may find, those of before included.
	Shown int
	// Rest lets a context rest then. With End its last token is not appended either, but it lives and keeps its blocks.
	Rest bool
	// Beams, in the result of a group's first sample, are the group's next rows;
	// without any the group ends. Tokens, End and the results of the group's other
	// samples are ignored.
	Beams []Branch
}

// Commit records that the plan was computed. results are in the order of the plan's
// samples: row by row, each row's Samples in order.
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
		if n := len(q.Handle().rows); n > 0 && len(r.Samples) > 0 { // the group's rows are adjacent
			g := q.group
			s.releaseFollowers(g)
			if g.parked = results[k].Pending; !g.parked {
				s.applyGroup(g, results[k])
			}
			k, i = k+n, i+n-1
			continue
		}
		for _, f := range q.followers[:max(len(r.Samples)-1, 0)] {
			f.row, f.leader, f.cached, f.long = s.pool.Fork(q.row), nil, q.cached, q.long
		}
		for _, m := range r.Samples {
			s.applyResult(m, r.Drafts, results[k])
			k++
		}
		if len(r.Samples) > 0 {
			q.followers = nil
		}
	}
}

// applyResult applies the result of one sample to its sequence, whose row computed drafts.
func (s *Scheduler) applyResult(q *Seq, drafts []llm.Token, r Result) {
	if q.parked = r.Pending; r.Pending {
		q.ahead = drafts
	} else {
		s.accept(q, drafts, r)
		s.show(q, r)
		if r.End || r.Rest {
			s.finish(q, r)
			return
		}
	}
	if q.state == running {
		return
	}
	// A fork runs beside its leader, or waits like a preempted sequence.
	if len(s.running) < s.settings.MaxBatchSize {
		q.state = running
		q.admissions = 1
		s.running.insert(q)
	} else {
		q.state = waiting
		q.admissions = 1
		s.pool.Give(q.row)
		s.waiting.insert(q)
	}
}

// finish ends a sequence, or a context's span.
func (s *Scheduler) finish(q *Seq, r Result) {
	if r.Rest {
		s.finishSpan(q)
	} else {
		s.end(q)
	}
}

// end removes a sequence, or group, from its queue and frees its blocks.
func (s *Scheduler) end(q *Seq) {
	s.wake(q)
	switch q.state {
	case waiting:
		s.waiting.remove(q)
	case running:
		s.running.remove(q)
	}
	for _, m := range q.members() {
		if m.row != nil { // a follower has none yet
			s.pool.Give(m.row)
		}
	}
	if q.client != nil { // but for a context that rests
		s.clients.leave(q)
	}
	q.state, q.parked, q.ahead = ended, false, nil
}

// Resolve gives the result of a parked sequence, or group. Like Abort, it must not be
// called between Plan and Commit.
func (s *Scheduler) Resolve(q *Seq, r Result) {
	if !q.parked || r.Pending || s.planned {
		panic("BUG: sched: Resolve of a sequence that is not parked, with no result, or inside a step")
	}
	q.parked = false
	switch {
	case q.rows != nil:
		s.applyGroup(q, r)
	default:
		s.accept(q, q.ahead, r)
		s.show(q, r)
		if q.ahead = nil; r.End || r.Rest {
			s.finish(q, r)
		}
	}
}

// Parked counts the parked sequences, each group as one.
func (s *Scheduler) Parked() int { return s.waiting.parked() + s.running.parked() }

// Waiting counts the waiting sequences: those in the queue and their followers; a group
// counts as its maximum number of rows.
func (s *Scheduler) Waiting() int {
	return slots(s.waiting) + waitingFollowers(s.waiting) + waitingFollowers(s.running)
}

// Running counts the running sequences in the same way.
func (s *Scheduler) Running() int { return slots(s.running) }

func slots(l queue) (n int) {
	for _, q := range l {
		n += q.slots()
	}
	return n
}

// Cache returns the number of blocks in use, of cached ones, and of all.
func (s *Scheduler) Cache() (used, cached, total int) {
	return s.pool.Used(), s.pool.Cached(), s.pool.Total()
}

// Check verifies the invariants of the scheduler and of the cache's block accounting.
// An error is a bug in this program.
func (s *Scheduler) Check() error {
	var held []*kv.Row
	sequences := 0
	for name, l := range map[string]queue{"waiting": s.waiting, "running": s.running} {
		for i, q := range l {
			sequences += 1 + len(q.followers)
			if i > 0 && l[i-1].compare(q) >= 0 {
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
			if held, err = q.checkInvariants(held); err != nil {
				return err
			}
			if err := s.checkBlocks(q); err != nil {
				return err
			}
			for _, f := range q.followers {
				if f.state != following || f.leader != q {
					return fmt.Errorf("BUG: sched: sequence %d does not follow %d", f.id, q.id)
				}
			}
		}
	}
	if err := s.clients.check(sequences); err != nil {
		return err
	}
	held, err := s.checkResting(held)
	if err != nil {
		return err
	}
	for _, q := range s.drafted {
		if s.planned || len(q.drafts) == 0 {
			return fmt.Errorf("BUG: sched: sequence %d has %d drafts, inside a step: %v", q.id, len(q.drafts), s.planned)
		}
	}
	return s.pool.Check(held)
}

// checkBlocks verifies that no row holds more blocks than its tokens, and the drafts of one that is parked, need.
func (s *Scheduler) checkBlocks(q *Seq) error {
	for _, m := range q.members() {
		if n := len(m.row.Blocks()); n > s.pool.BlocksFor(len(m.tokens)+len(m.ahead)) {
			return fmt.Errorf("BUG: sched: sequence %d has %d tokens in %d blocks", q.id, len(m.tokens), n)
		}
	}
	return nil
}

// checkInvariants verifies the invariants of one sequence or group and appends its
// cache rows to held.
func (q *Seq) checkInvariants(held []*kv.Row) ([]*kv.Row, error) {
	if q.rows != nil {
		return checkGroup(q, held)
	}
	if n := len(q.row.Blocks()); q.state == waiting && n != 0 && q.rested == nil {
		return held, fmt.Errorf("BUG: sched: sequence %d waits and holds %d blocks", q.id, n)
	}
	if len(q.tokens) > q.prompt+q.max || !q.uncomputedOK() {
		return held, fmt.Errorf("BUG: sched: sequence %d has %d of %d+%d tokens, %d left, parked %v",
			q.id, len(q.tokens), q.prompt, q.max, q.uncomputed(), q.parked)
	}
	if len(q.ahead) > 0 && !q.parked {
		return held, fmt.Errorf("BUG: sched: sequence %d is not parked and keeps %d drafts", q.id, len(q.ahead))
	}
	return append(held, q.row), nil
}

// uncomputedOK reports whether the number of tokens left to compute matches the
// sequence's state: none if it runs and is parked, otherwise at least one.
func (q *Seq) uncomputedOK() bool {
	h := q.Handle()
	if h.parked && h.state == running {
		return q.uncomputed() == 0
	}
	return q.uncomputed() >= 1
}
