package sched

import (
	"fmt"
	"slices"

	"tgi/runtime/kv"
	"tgi/runtime/llm"
)

// A group holds the sequences of one beam search, or twins (twins.go). The queues see it as one sequence.
// Instead of a cache row of its own it has member rows: one until the prompt is
// computed, then as many as Result.Beams says. Its rows step together, so that they
// can be compared, and are preempted and recomputed together. Rows share the blocks of
// their common prefix and copy on write after it.

// Branch is one row of a group's next step.
type Branch struct {
	// From is the row that it continues: an index into Seq.Rows.
	From int
	// Token is appended to that row's tokens.
	Token llm.Token
}

// Rows returns a group's present rows in the order of the Branches that made them; nil
// for a sequence that is not a group. The view is valid until the next Commit.
func (q *Seq) Rows() []*Seq { return q.rows }

// Handle returns what Add returned: the group of a row, or else the sequence itself.
func (q *Seq) Handle() *Seq {
	if q.group != nil {
		return q.group
	}
	return q
}

// members returns the sequences that have a cache row: a group's rows, or the sequence.
func (q *Seq) members() []*Seq {
	if q.rows != nil {
		return q.rows
	}
	return q.self[:]
}

// slots returns how many running sequences q counts as. Groups that follow it do not run when it does.
func (q *Seq) slots() int {
	if q.twins {
		return q.width
	}
	return max(q.width, 1+len(q.followers))
}

// CheckBeams is Check for a beam search, whose sequences must all fit at the same time:
// into the batch, and into the cache with blocks of blockSize tokens.
func (s Settings) CheckBeams(prompt, maxNew, beams, blockSize int) error {
	if err := s.Check(prompt, maxNew, 1); err != nil {
		return err
	}
	if most := min(s.MaxConcurrentRequests, s.MaxBatchSize); beams > most {
		return fmt.Errorf("%w: num_beams must be at most %d, got %d", llm.ErrInvalid, most, beams)
	}
	// The last token of a sequence is never fed back and needs no slot. At worst all
	// beams diverge right after the prompt; with one token each, none is fed back.
	shared := prompt / blockSize
	each := (prompt+maxNew-1+blockSize-1)/blockSize - shared
	total := s.MaxBatchTotalTokens / blockSize
	if maxNew > 1 && each > 0 && beams > (total-shared)/each {
		return fmt.Errorf("%w: %d beams of %d prompt tokens and %d new ones need %d cache blocks of %d tokens, there are %d",
			llm.ErrTooLong, beams, prompt, maxNew, shared+beams*each, blockSize, total)
	}
	return nil
}

// addGroup is Add for a beam search.
func (s *Scheduler) addGroup(j Job) (*Seq, error) {
	if err := s.settings.CheckBeams(len(j.Prompt), j.MaxNew, j.Beams, s.pool.BlockSize()); err != nil {
		return nil, err
	}
	s.nextID++
	g := &Seq{id: s.nextID, state: waiting, tokens: j.Prompt, prompt: len(j.Prompt), max: j.MaxNew, width: j.Beams,
		adapter: j.Adapter, embeddings: j.Embeddings}
	g.self[0] = g
	first := &Seq{
		id: g.id, state: inGroup, group: g,
		tokens: j.Prompt[:len(j.Prompt):len(j.Prompt)], prompt: len(j.Prompt), max: j.MaxNew,
		row: j.newRow(len(j.Prompt)), score: j.Score,
	}
	first.self[0] = first
	g.rows = []*Seq{first}
	s.enqueue(&j, g.self[:])
	return g, nil
}

// planGroupDecode plans a token for each row of a group, or nothing while a row has
// more to compute. If the group itself is preempted, the plan holds none of its rows.
func (s *Scheduler) planGroupDecode(p *Plan, g *Seq) {
	rows, copies := len(p.Rows), len(p.Copies)
	if !s.restoreRows(p, g) {
		return
	}
	for _, m := range g.rows {
		if !s.takeBlocks(p, g, m) {
			p.Rows, p.Copies = p.Rows[:rows], p.Copies[:copies]
			return
		}
		p.Rows = append(p.Rows, Row{Seq: m, Start: m.row.Len(), Len: 1})
	}
	s.use(g, len(g.rows))
	p.DecodeRows += len(g.rows)
}

// restoreRows gives blocks to the rows of a group that lost them to preemption, once
// the prefixes that they share with other rows are computed. It reports whether every
// row has exactly one token left to compute.
func (s *Scheduler) restoreRows(p *Plan, g *Seq) (even bool) {
	var ready []*Seq
	for i, m := range g.rows {
		if len(m.row.Blocks()) == 0 && s.sharePrefix(p, g, i) {
			ready = append(ready, m)
		}
	}
	for _, m := range ready { // after the lookups: allocating first could evict what they find
		if !s.takeBlocks(p, g, m) {
			return false
		}
	}
	for _, m := range g.rows {
		if m.uncomputed() != 1 {
			return false
		}
	}
	return true
}

// sharePrefix makes row i share the computed part of its tokens. It returns false if
// the row has to wait for another row that computes their common prefix: computed
// twice, the prefix would need twice the blocks, and CheckBeams counts them once.
func (s *Scheduler) sharePrefix(p *Plan, g *Seq, i int) bool {
	row := g.rows[i]
	if from, n := s.longestPrefix(g, i); n > 0 {
		if from.row.Len() < n {
			return false
		}
		s.pool.Adopt(row.row, from.row, n)
	}
	if n := s.skipCached(row); g.twins && g.admissions == 1 {
		p.CachedTokens += n
		if i == 0 {
			g.cached += n
		}
	}
	return true
}

// longestPrefix returns the row before row i that shares the longest prefix with it, in
// whole blocks, and the number of tokens of that prefix.
func (s *Scheduler) longestPrefix(g *Seq, i int) (from *Seq, n int) {
	m := g.rows[i].tokens
	for _, f := range g.rows[:i] {
		if f.long != g.rows[i].long {
			continue
		}
		same := 0
		for same < min(len(m), len(f.tokens))-1 && f.tokens[same] == m[same] {
			same++
		}
		if same -= same % s.pool.BlockSize(); same > n {
			from, n = f, same
		}
	}
	return from, n
}

// blocksNeeded returns how many blocks a group without blocks needs for all its tokens.
func (s *Scheduler) blocksNeeded(g *Seq) (blocks int) {
	for i, m := range g.rows {
		_, n := s.longestPrefix(g, i)
		blocks += s.pool.BlocksFor(len(m.tokens)) - n/s.pool.BlockSize()
	}
	return blocks
}

// admitGroup plans the first step of a group that was admitted again. The pool has
// blocks for all of its rows.
func (s *Scheduler) admitGroup(p *Plan, g *Seq, b *budget) {
	if s.restoreRows(p, g) {
		s.planGroupDecode(p, g)
		return
	}
	s.planChunks(p, g, b)
}

// planChunks plans tokens for the rows of a group that have more than one to compute.
func (s *Scheduler) planChunks(p *Plan, g *Seq, b *budget) {
	if g.twins && s.planTwins(p, g, b) {
		return
	}
	for _, m := range g.rows {
		if b.tokens > 0 && m.uncomputed() > 1 && len(m.row.Blocks()) > 0 {
			s.planChunk(p, m, b)
		}
	}
}

// replaceRows replaces the rows of a group by the given branches; without any the group
// ends.
func (s *Scheduler) replaceRows(g *Seq, next []Branch) {
	rows := make([]*Seq, len(next))
	taken := make([]bool, len(g.rows))
	for i, b := range next {
		m := g.rows[b.From]
		if !taken[b.From] { // the first branch takes over the row, the others fork it
			taken[b.From], rows[i] = true, m
			continue
		}
		f := *m
		f.tokens, f.row = slices.Clone(m.tokens), s.pool.Fork(m.row)
		rows[i] = &f
		f.self[0] = rows[i]
	}
	for i, m := range g.rows {
		if !taken[i] {
			s.pool.Give(m.row)
		}
	}
	for i, b := range next {
		rows[i].tokens = append(rows[i].tokens, b.Token)
	}
	g.rows = rows
	if len(rows) == 0 {
		s.end(g)
	}
}

// checkGroup verifies the invariants of a group and appends its cache rows to held.
func checkGroup(g *Seq, held []*kv.Row) ([]*kv.Row, error) {
	if n := len(g.rows); n < 1 || n > g.width || g.twins && n != g.width {
		return held, fmt.Errorf("BUG: sched: group %d has %d rows, at most %d are allowed", g.id, n, g.width)
	}
	for i, m := range g.rows {
		if m.group != g || m.state != inGroup || m.self[0] != m || len(m.Output()) != len(g.rows[0].Output()) ||
			len(m.tokens) > m.prompt+m.max || !m.uncomputedOK() {
			return held, fmt.Errorf("BUG: sched: row %d of group %d has state %d, %d of %d+%d tokens, %d left",
				i, g.id, m.state, len(m.tokens), m.prompt, m.max, m.uncomputed())
		}
		if n := len(m.row.Blocks()); g.state == waiting && n != 0 {
			return held, fmt.Errorf("BUG: sched: row %d of group %d waits and holds %d blocks", i, g.id, n)
		}
		held = append(held, m.row)
	}
	return held, nil
}
