package sched

import (
	"slices"

	"tgi/runtime/llm"
)

// Plan is the work of one step. The scheduler owns it and its slices; they are valid
// until the next call of Scheduler.Plan.
type Plan struct {
	// Rows, in the order of Step's rows; empty if there is nothing to do.
	Rows []Row
	// Copies must be made, in order, before the step is computed.
	Copies []llm.BlockCopy
	// Step is what the backend computes.
	Step llm.Step
	// Samples counts the entries of all rows' Samples.
	Samples int
	// DecodeRows counts the rows that compute one token to get their next; the other
	// rows compute PrefillTokens of prompts or of preempted sequences.
	DecodeRows, PrefillTokens int
	// DraftTokens counts the tokens of all rows' Drafts.
	DraftTokens int
	// Admitted counts sequences that were admitted for the first time. The cache held
	// CachedTokens of their PromptTokens.
	Admitted, PromptTokens, CachedTokens int
	// Preempted counts preempted sequences.
	Preempted int
	// Beneath counts the tokens of sequences beneath others, and Yielded says that they had to give way: see Yield.
	Beneath int
	Yielded bool
}

// Row is one sequence's part of a step.
type Row struct {
	// Seq is the sequence, or one member of a group. Members that pick in the step are
	// adjacent, in the order of Seq.Rows.
	Seq *Seq
	// Start and Len are the range of the sequence's tokens that the step computes.
	Start, Len int
	// Drafts follow these in the step. They are no tokens of the sequence unless Result.Tokens says so.
	Drafts []llm.Token
	// Logit is the index of the row's first logits among the step's. The first Scores
	// of them are of the prompt positions FirstScore, FirstScore+1, …; each scores the
	// token that follows its position. If Samples is not empty, one more comes after them.
	Logit, FirstScore, Scores int
	// Samples are the sequences that pick their next token from the row's last logits:
	// none before the last chunk, then the row's own sequence, followed by its
	// followers when the prompt is done. The logits of the Drafts come after the last logits, one row for each.
	Samples []*Seq
}

// Plan chooses what the next step computes. Commit or Drop must follow each call,
// unless the plan has no rows.
func (s *Scheduler) Plan() *Plan {
	if s.planned {
		panic("BUG: sched: Plan without Commit of the one before")
	}
	p := &s.plan
	*p = Plan{Rows: p.Rows[:0], Copies: p.Copies[:0], Step: p.Step}
	clear(s.resumed)
	s.updateRanks()
	s.lengthen(p)
	served := s.preemptForQueue(p)
	s.grant()
	s.planRows(p, served)
	if p.Yielded = s.yielding; s.yielding && len(p.Rows) == 0 {
		s.yielding, p.Yielded = false, false
		s.planRows(p, served)
	}
	s.planDrafts(p)
	s.fillStep(p)
	s.planned = len(p.Rows) > 0
	return p
}

// planRows plans all rows.
func (s *Scheduler) planRows(p *Plan, served bool) {
	s.planDecode(p)
	s.planPrompts(p, &budget{tokens: s.promptTokens(p, served), logits: s.settings.MaxPromptLogits})
}

// longSalt separates the blocks of long sequences from those of others.
const longSalt = "long"

// lengthen makes sequences long that have grown beyond the original context. What the cache holds of them is of no more
// use: they are preempted.
func (s *Scheduler) lengthen(p *Plan) {
	if s.original == 0 {
		return
	}
	grown := func(m *Seq) bool { return len(m.tokens) > s.original && !m.long }
	for _, q := range slices.Clone(s.running) {
		if slices.ContainsFunc(q.members(), grown) {
			s.preempt(p, q)
		}
	}
	for _, q := range s.waiting {
		for _, m := range q.members() {
			if grown(m) {
				s.pool.Give(m.row) // a context's
				m.long = true
				m.row.Resalt(longSalt)
			}
		}
	}
}

// promptTokens is how many prompt tokens the step may compute. served says that it preempted some for a waiting one.
func (s *Scheduler) promptTokens(p *Plan, served bool) int {
	most := s.settings.MaxBatchPrefillTokens
	if s.pace == nil || p.DecodeRows == 0 {
		return most
	}
	prompts := s.wanting()
	if prompts == 0 {
		return most
	}
	least := 0
	if served {
		least = 1 // else others were preempted in vain
	}
	return min(most, max(s.pace(p.DecodeRows, prompts), least))
}

// wanting counts the requests that have prompts to be computed or that could be admitted. Each counts as one, whatever
// it has: for several outputs its prompt is computed once, and a program would get more of each step for more contexts.
func (s *Scheduler) wanting() (n int) {
	s.asked++
	count := func(q *Seq) {
		if r := q.request; r != nil {
			if r.asked == s.asked {
				return
			}
			r.asked = s.asked
		}
		n++
	}
	for _, q := range s.prompts() {
		if s.yielding && q.beneath() { // they have their tokens
			continue
		}
		count(q)
	}
	room := s.settings.MaxBatchSize - s.Running()
	for _, q := range s.waiting {
		if room <= 0 {
			break
		}
		room -= q.slots()
		if s.yielding && q.beneath() {
			continue
		}
		count(q)
	}
	return n
}

// planDecode plans one token for each running row that has only one to compute, in order.
// Where the cache is full, the row that was admitted last is preempted, so never one that
// is in the plan already.
func (s *Scheduler) planDecode(p *Plan) {
	for i := 0; i < len(s.running); i++ {
		q := s.running[i]
		if q.parked || s.pauses(q) {
			continue
		}
		if q.rows != nil {
			s.planGroupDecode(p, q)
		} else if q.uncomputed() == 1 && s.takeBlocks(p, q, q) {
			p.DecodeRows++
			p.Rows = append(p.Rows, Row{Seq: q, Start: q.row.Len(), Len: 1})
		}
		if q.state != running { // it was preempted, so it was the last
			return
		}
	}
}

// takeBlocks allocates blocks for all tokens of m, a row of q or q itself, preempting
// the last sequences while there are too few. It returns false if that was q.
func (s *Scheduler) takeBlocks(p *Plan, q, m *Seq) bool {
	for !s.pool.CanTake(m.row, len(m.tokens)) {
		if s.reclaim() {
			continue
		}
		s.preempt(p, s.running[len(s.running)-1])
		if q.state != running {
			return false
		}
	}
	p.Copies, _ = s.pool.Take(m.row, len(m.tokens), p.Copies)
	return true
}

// preempt releases the blocks of a running sequence and moves it to the queue, where
// its rank puts it before the sequences of its client that never ran.
func (s *Scheduler) preempt(p *Plan, q *Seq) {
	s.stepBack(q)
	p.Preempted += len(q.members())
}

// stepBack moves a running sequence to the queue.
func (s *Scheduler) stepBack(q *Seq) {
	s.running.remove(q)
	for _, m := range q.members() {
		s.pool.Give(m.row)
	}
	q.state = waiting
	s.waiting.insert(q)
}

// budget is what a step has left for prompts.
type budget struct {
	tokens int // tokens to compute
	logits int // prompt positions to score
}

// planPrompts spends the budget: on running sequences that have more than one token to
// compute, and on sequences that it admits from the queue, in order. It skips those that
// were preempted while parked: they have nothing to compute yet. A running sequence goes
// before the queue, unless the next of the queue is of another client and got less. Those that give way are admitted
// when they may compute something or, without that, in their turn before others that wait.
func (s *Scheduler) planPrompts(p *Plan, b *budget) {
	prompts, next := s.prompts(), s.waiting.next()
	open := s.admitsNew()
	for b.tokens > 0 && (len(prompts) > 0 || next != nil) {
		if next != nil && s.yielding && next.beneath() && s.left <= 0 && !s.aboveWaits() {
			next = nil
			continue
		}
		if len(prompts) > 0 {
			q := prompts[0]
			if next == nil || next.client == q.client || s.before(q, next) {
				s.planPrefill(p, q, b)
				prompts = prompts[1:]
				continue
			}
		}
		if s.admit(p, next, b, open) {
			next = s.waiting.next()
		} else {
			next = nil
		}
	}
	if p.Admitted > 0 {
		s.sinceAdmit = 0
	} else {
		s.sinceAdmit++
	}
}

// planPrefill continues a running sequence that has more than one token to compute. It
// holds blocks for all of its tokens since it was admitted.
func (s *Scheduler) planPrefill(p *Plan, q *Seq, b *budget) {
	if len(q.rows) > 1 {
		s.planChunks(p, q, b)
		return
	}
	m := q.members()[0]
	if n := s.skipCached(m); q.admissions == 1 { // other sequences computed these meanwhile
		q.cached += n
		p.CachedTokens += n
	}
	s.planChunk(p, m, b)
}

// planChunk plans as many of the sequence's tokens as the budget allows, without cutting
// runs whose tokens see each other. The rows of a group leave one token, which they
// compute together.
func (s *Scheduler) planChunk(p *Plan, q *Seq, b *budget) {
	start, n := q.row.Len(), q.uncomputed()
	if len(q.Handle().rows) > 1 {
		n--
	}
	if n = min(s.mayCompute(q, n), b.tokens); n < 1 {
		return
	}
	if q.needsScores() {
		if b.logits == 0 {
			return
		}
		n = min(n, max(q.scored-start, 0)+b.logits)
	}
	if most, least := llm.Whole(q.Handle().embeddings, start, start+n); most > start {
		n = most - start
	} else if n = least - start; p.PrefillTokens > 0 {
		return // it gets a step of its own, beyond the budget if it must
	}
	s.use(q, n)
	b.tokens -= n
	p.PrefillTokens += n
	if q.needsScores() {
		b.logits -= max(min(start+n, q.prompt-1)-max(start, q.scored), 0)
	}
	p.Rows = append(p.Rows, Row{Seq: q, Start: start, Len: n})
}

// skipCached skips the tokens that the cache holds and returns their number. A sequence
// whose prompt is scored needs the logits of all positions from the first scored one on.
func (s *Scheduler) skipCached(q *Seq) int {
	if q.needsScores() {
		return s.pool.Find(q.row, q.tokens[:q.scored+1])
	}
	return s.pool.Find(q.row, q.tokens)
}

// admit starts the next sequence of the queue, if there is room in the batch, and blocks
// for all its tokens plus a spare block per running row. open is admitsNew's.
func (s *Scheduler) admit(p *Plan, q *Seq, b *budget, open bool) bool {
	first := q.members()[0]
	fresh := q.admissions == 0
	if fresh && !q.returns && !open || first.needsScores() && b.logits == 0 || !s.batchFits(q, s.Running()) {
		return false
	}
	cached, fits := s.reserveBlocks(p, q, first)
	if !fits {
		return false
	}
	s.waiting.remove(q)
	q.state = running
	q.admissions++
	s.running.insert(q)
	if fresh {
		q.cached = cached
		p.Admitted += q.slots()
		p.PromptTokens += q.promptTokens()
		p.CachedTokens += cached
	}
	q.granted = max(s.left, 0)
	if len(q.rows) > 1 {
		s.admitGroup(p, q, b)
	} else {
		s.planChunk(p, first, b)
	}
	if s.yielding && q.beneath() {
		s.left = q.granted
	}
	return true
}

// batchFits reports whether the batch has room for q beside running sequences that count
// as the given number. Alone, each has.
func (s *Scheduler) batchFits(q *Seq, slots int) bool {
	return slots == 0 || slots+q.slots() <= s.settings.MaxBatchSize
}

// reserveBlocks allocates the blocks of a waiting sequence and returns how many of its
// tokens the cache held; ok is false if there are too few blocks. For a group of
// several rows it only checks: the rows allocate one after the other.
func (s *Scheduler) reserveBlocks(p *Plan, q, first *Seq) (cached int, ok bool) {
	kept := q.rested != nil
	s.wake(q) // its own blocks are not to be taken for it
	cached, blocks := s.findBlocks(q, first)
	for blocks+s.spareBlocks() > s.pool.Available() {
		if s.reclaim() {
			continue
		}
		if kept {
			s.rest(q)
		} else {
			s.pool.Give(first.row)
		}
		return 0, false
	}
	if len(q.rows) <= 1 {
		p.Copies, _ = s.pool.Take(first.row, len(first.tokens), p.Copies)
	}
	return cached, true
}

// findBlocks takes what the cache holds for a waiting sequence whose first row is given,
// and returns how many tokens it then has and how many more blocks it needs.
func (s *Scheduler) findBlocks(q, first *Seq) (cached, blocks int) {
	if len(q.rows) > 1 {
		return 0, s.blocksNeeded(q)
	}
	s.skipCached(first)
	cached = first.row.Len() // with what a context kept
	return cached, s.pool.Needs(first.row, len(first.tokens))
}

// spareBlocks returns how many blocks are kept for the running rows to grow: one for each that may still need one.
func (s *Scheduler) spareBlocks() (n int) {
	for _, r := range s.running {
		n += s.spareOf(r)
	}
	return n
}

// spareOf is the part of spareBlocks for one sequence or group.
func (s *Scheduler) spareOf(q *Seq) (n int) {
	for _, m := range q.members() {
		if s.pool.Needs(m.row, m.prompt+m.max-1) > 0 { // the last token is never fed back
			n++
		}
	}
	return n
}

// admitsNew reports whether new prompts may start: see WaitingServedRatio.
func (s *Scheduler) admitsNew() bool {
	waiting, running := len(s.waiting)-s.waiting.parked(), len(s.running)-s.running.parked()
	return running == 0 || s.sinceAdmit >= s.settings.MaxWaitingTokens ||
		waiting >= int(float64(running)*s.settings.WaitingServedRatio)
}

// hasPlaces reports whether tokens of the plan have positions other than their indices.
func (p *Plan) hasPlaces() bool {
	return slices.ContainsFunc(p.Rows, func(r Row) bool { return llm.HasPlaces(r.Seq.Handle().embeddings) })
}

// hasMutual reports whether tokens of the plan see tokens behind them.
func (p *Plan) hasMutual() bool {
	return slices.ContainsFunc(p.Rows, func(r Row) bool {
		return llm.HasMutual(r.Seq.Handle().embeddings, r.Start, r.Start+r.Len)
	})
}

// fillStep writes the planned rows into the flat arrays of llm.Step.
func (s *Scheduler) fillStep(p *Plan) {
	size := s.pool.BlockSize()
	st := &p.Step
	clear(st.Embeddings) // which hold their requests' memory
	*st = llm.Step{
		Tokens: st.Tokens[:0], CuSeqlens: append(st.CuSeqlens[:0], 0), PastLens: st.PastLens[:0],
		BlockTable: st.BlockTable[:0], SlotMapping: st.SlotMapping[:0], LogitRows: st.LogitRows[:0],
		Adapters: st.Adapters[:0], Embeddings: st.Embeddings[:0],
		Places: st.Places[:0], KeyEnds: st.KeyEnds[:0], Long: st.Long[:0],
	}
	adapted, places, mutual, long := false, p.hasPlaces(), p.hasMutual(), false
	for _, r := range p.Rows {
		st.MaxBlocks = max(st.MaxBlocks, s.pool.BlocksFor(r.Start+r.Len+len(r.Drafts)))
	}
	for i := range p.Rows {
		r := &p.Rows[i]
		q, known, first := r.Seq, r.Start+r.Len, len(st.Tokens)-r.Start
		end := known + len(r.Drafts)
		q.Handle().charge(r.Len) // accept adds the drafts that stay
		if q.beneath() {
			p.Beneath += r.Len
		}
		adapter := q.Handle().adapter
		st.Adapters = append(st.Adapters, adapter)
		adapted = adapted || adapter != llm.NoAdapter
		st.Long = append(st.Long, q.long)
		long = long || q.long
		blocks := q.row.Blocks()
		st.Tokens = append(append(st.Tokens, q.tokens[r.Start:known]...), r.Drafts...)
		for _, e := range q.Handle().embeddings {
			if part := e.Cut(r.Start, end); part.N > 0 {
				part.At += first
				st.Embeddings = append(st.Embeddings, part)
			}
		}
		if places {
			st.Places = llm.AppendPlaces(st.Places, q.Handle().embeddings, r.Start, end)
		}
		if mutual {
			st.KeyEnds = llm.AppendKeyEnds(st.KeyEnds, q.Handle().embeddings, r.Start, end)
		}
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
		if q.needsScores() {
			r.FirstScore = max(r.Start, q.scored)
			r.Scores = max(min(known, q.prompt-1)-r.FirstScore, 0)
			for pos := r.FirstScore; pos < r.FirstScore+r.Scores; pos++ {
				st.LogitRows = append(st.LogitRows, int32(first+pos))
			}
		}
		if known == len(q.tokens) {
			r.Samples = q.self[:]
			if len(q.followers) > 0 {
				r.Samples = append([]*Seq{q}, q.followers...)
			}
			for pos := known - 1; pos < end; pos++ {
				st.LogitRows = append(st.LogitRows, int32(first+pos))
			}
			p.Samples += len(r.Samples)
		}
	}
	if !adapted {
		st.Adapters = st.Adapters[:0]
	}
	if !long {
		st.Long = st.Long[:0]
	}
}
