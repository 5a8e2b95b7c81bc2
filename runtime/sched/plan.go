package sched

import "tgi/runtime/llm"

// Plan is the work of one step. It and all its slices are the scheduler's and
// end with the next Plan.
type Plan struct {
	// Rows in the order of Step's rows; none when there is nothing to do.
	Rows []Row
	// Copies must be made, in order, before the step is computed.
	Copies []llm.BlockCopy
	// Step is what the backend computes.
	Step llm.Step
	// Samples counts the entries of all rows' Samples.
	Samples int
	// DecodeRows counts the rows that only go on; the others compute PrefillTokens
	// of prompts or of sequences that had stepped back.
	DecodeRows, PrefillTokens int
	// Admitted counts sequences that were admitted for the first time;
	// CachedTokens of their PromptTokens were found in the cache.
	Admitted, PromptTokens, CachedTokens int
	// Preempted counts sequences that had to step back.
	Preempted int
}

// Row is one sequence's part of a step.
type Row struct {
	// Seq is the sequence, or one row of a group; all rows of a group that pick in
	// the step stand together, in the order of Seq.Rows.
	Seq *Seq
	// Start and Len say which tokens of the sequence are computed.
	Start, Len int
	// Logit is the index of the row's first logits among the step's. There are
	// Scores of them for prompt positions FirstScore, FirstScore+1, …, each of
	// which rates the token after it; then, when Samples is not empty, one more.
	Logit, FirstScore, Scores int
	// Samples are the sequences that pick their next token by the row's last
	// logits: none when a chunk is not the last, the row's own sequence, and after
	// it its followers when the prompt is done.
	Samples []*Seq
}

// Plan chooses what the next step computes. Each call must be followed by Commit
// or Drop unless the plan has no rows.
func (s *Scheduler) Plan() *Plan {
	if s.planned {
		panic("BUG: sched: Plan without Commit of the one before")
	}
	p := &s.plan
	*p = Plan{Rows: p.Rows[:0], Copies: p.Copies[:0], Step: p.Step}
	s.decode(p)
	b := budget{tokens: s.set.MaxBatchPrefillTokens, logits: s.set.MaxPromptLogits}
	s.prefill(p, &b)
	s.admit(p, &b)
	s.lay(p)
	s.planned = len(p.Rows) > 0
	return p
}

// decode plans one token for each running row that needs no more. Rows are served
// from the oldest to the youngest, and it is the youngest that step back: a row
// that is in the plan already never does.
func (s *Scheduler) decode(p *Plan) {
	for i := 0; i < len(s.running); i++ {
		q := s.running[i]
		if q.parked {
			continue
		}
		if q.rows != nil {
			s.decodeGroup(p, q)
		} else if q.left() == 1 && s.room(p, q, q) {
			p.DecodeRows++
			p.Rows = append(p.Rows, Row{Seq: q, Start: q.row.Len(), Len: 1})
		}
		if q.state != running { // it was the youngest
			return
		}
	}
}

// room takes blocks for all tokens of m, a row of q or q itself. It reports false
// when q had to step back for want of them.
func (s *Scheduler) room(p *Plan, q, m *Seq) bool {
	for !s.pool.CanTake(m.row, len(m.tokens)) {
		s.stepBack(p, s.running[len(s.running)-1])
		if q.state != running {
			return false
		}
	}
	p.Copies, _ = s.pool.Take(m.row, len(m.tokens), p.Copies)
	return true
}

// stepBack moves a running sequence to the queue, where its age puts it before
// all that never ran.
func (s *Scheduler) stepBack(p *Plan, q *Seq) {
	s.running.remove(q)
	for _, m := range q.parts() {
		s.pool.Give(m.row)
		p.Preempted++
	}
	q.state = waiting
	s.waiting.insert(q)
}

// budget is what is left of a step for prompts.
type budget struct {
	tokens int // tokens to compute
	logits int // prompt positions to score
}

// prefill goes on with the running sequences that have more than one token to
// compute. They hold blocks for all of them since they were admitted.
func (s *Scheduler) prefill(p *Plan, b *budget) {
	for _, q := range s.running {
		if b.tokens == 0 {
			return
		}
		if q.parked {
			continue
		}
		if len(q.rows) > 1 {
			s.chunks(p, q, b)
			continue
		}
		if m := q.parts()[0]; m.left() > 1 {
			if n := s.find(m); q.stints == 1 { // what others computed since
				q.cached += n
				p.CachedTokens += n
			}
			s.chunk(p, m, b)
		}
	}
}

// chunk plans as many of the sequence's tokens as the budget allows. The rows of a
// group leave one over, which they compute together.
func (s *Scheduler) chunk(p *Plan, q *Seq, b *budget) {
	start, n := q.row.Len(), q.left()
	if len(q.Handle().rows) > 1 {
		n--
	}
	n = min(n, b.tokens)
	if q.scoring() {
		if b.logits == 0 {
			return
		}
		n = min(n, max(q.scored-start, 0)+b.logits)
		b.logits -= max(min(start+n, q.prompt-1)-max(start, q.scored), 0)
	}
	b.tokens -= n
	p.PrefillTokens += n
	p.Rows = append(p.Rows, Row{Seq: q, Start: start, Len: n})
}

// find skips the tokens that the cache holds. A sequence whose prompt is to be
// scored needs all its logits and skips nothing.
func (s *Scheduler) find(q *Seq) int {
	if q.scoring() {
		return 0
	}
	return s.pool.Find(q.row, q.tokens)
}

// admit lets sequences from the queue join, in order, while there is budget and
// room for all their tokens and a spare block per running row. Who stepped back while
// it was parked has nothing to compute yet, and is passed over.
func (s *Scheduler) admit(p *Plan, b *budget) {
	open, admitted := s.open(), false
	for i := 0; i < len(s.waiting) && b.tokens > 0; {
		q := s.waiting[i]
		if q.parked {
			i++
			continue
		}
		first := q.parts()[0]
		fresh := q.stints == 0
		if fresh && !open || first.scoring() && b.logits == 0 {
			break
		}
		if n := len(s.running); n > 0 && s.Running()+q.places() > s.set.MaxBatchSize {
			break
		}
		cached, fits := s.fit(p, q, first)
		if !fits {
			break
		}
		s.waiting.remove(q)
		q.state = running
		q.stints++
		s.running.insert(q)
		if fresh {
			admitted = true
			q.cached = cached
			p.Admitted += q.places()
			p.PromptTokens += q.prompt
			p.CachedTokens += cached
		}
		if len(q.rows) > 1 {
			s.admitGroup(p, q, b)
		} else {
			s.chunk(p, first, b)
		}
	}
	if admitted {
		s.sinceAdmit = 0
	} else {
		s.sinceAdmit++
	}
}

// fit reports whether there is room for a sequence that waits. Unless it is a group
// of several rows, which take their blocks one after the other, it has them then,
// and cached tokens were found in the cache.
func (s *Scheduler) fit(p *Plan, q, first *Seq) (cached int, ok bool) {
	spare := 0
	for _, r := range s.running {
		spare += len(r.parts())
	}
	if len(q.rows) > 1 {
		return 0, s.needs(q)+spare <= s.pool.Available()
	}
	cached = s.find(first)
	if s.pool.Needs(first.row, len(first.tokens))+spare > s.pool.Available() {
		s.pool.Give(first.row)
		return 0, false
	}
	p.Copies, _ = s.pool.Take(first.row, len(first.tokens), p.Copies)
	return cached, true
}

// open reports whether new prompts may join: see WaitingServedRatio.
func (s *Scheduler) open() bool {
	waiting, running := len(s.waiting)-s.waiting.parked(), len(s.running)-s.running.parked()
	return running == 0 || s.sinceAdmit >= s.set.MaxWaitingTokens ||
		waiting >= int(float64(running)*s.set.WaitingServedRatio)
}

// lay writes the planned rows into the flat form of a step.
func (s *Scheduler) lay(p *Plan) {
	size := s.pool.BlockSize()
	st := &p.Step
	*st = llm.Step{
		Tokens: st.Tokens[:0], CuSeqlens: append(st.CuSeqlens[:0], 0), PastLens: st.PastLens[:0],
		BlockTable: st.BlockTable[:0], SlotMapping: st.SlotMapping[:0], LogitRows: st.LogitRows[:0],
	}
	for _, r := range p.Rows {
		st.MaxBlocks = max(st.MaxBlocks, s.pool.BlocksFor(r.Start+r.Len))
	}
	for i := range p.Rows {
		r := &p.Rows[i]
		q, end, first := r.Seq, r.Start+r.Len, len(st.Tokens)-r.Start
		blocks := q.row.Blocks()
		st.Tokens = append(st.Tokens, q.tokens[r.Start:end]...)
		st.CuSeqlens = append(st.CuSeqlens, int32(len(st.Tokens)))
		st.PastLens = append(st.PastLens, int32(r.Start))
		used := s.pool.BlocksFor(end)
		st.BlockTable = append(st.BlockTable, blocks[:used]...)
		for range st.MaxBlocks - used {
			st.BlockTable = append(st.BlockTable, -1)
		}
		for pos := r.Start; pos < end; pos++ {
			st.SlotMapping = append(st.SlotMapping, blocks[pos/size]*int32(size)+int32(pos%size))
		}
		r.Logit = len(st.LogitRows)
		if q.scoring() {
			r.FirstScore = max(r.Start, q.scored)
			r.Scores = max(min(end, q.prompt-1)-r.FirstScore, 0)
			for pos := r.FirstScore; pos < r.FirstScore+r.Scores; pos++ {
				st.LogitRows = append(st.LogitRows, int32(first+pos))
			}
		}
		if end == len(q.tokens) {
			r.Samples = q.self[:]
			if len(q.followers) > 0 {
				r.Samples = append([]*Seq{q}, q.followers...)
			}
			st.LogitRows = append(st.LogitRows, int32(first+end-1))
			p.Samples += len(r.Samples)
		}
	}
}
