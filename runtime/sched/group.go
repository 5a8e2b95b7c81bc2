package sched

import (
	"fmt"
	"slices"

	"tgi/runtime/kv"
	"tgi/runtime/llm"
)

// A group is the sequences of one beam search. In the queues it is one sequence,
// with rows in the place of a cache of its own: one row until the prompt is
// computed, then as many as Result.Beams says. Its rows step together, so that
// they can be compared, step back together and are computed again together. Rows
// share the blocks that their common beginnings fill; what follows is copied when
// it is first written to.

// Branch is a row with which a group goes on.
type Branch struct {
	// From is the row that it continues: an index into Seq.Rows.
	From int
	// Token is appended to that row's tokens.
	Token llm.Token
}

// Rows returns the sequences that a group consists of now, in the order of the
// Branches that made them; nil for a sequence that is no group. It is a view that
// ends with the next Commit.
func (q *Seq) Rows() []*Seq { return q.rows }

// Handle returns what Add returned: the group of a row, otherwise the sequence itself.
func (q *Seq) Handle() *Seq {
	if q.group != nil {
		return q.group
	}
	return q
}

// parts returns what has a cache of its own: a group's rows, or the sequence.
func (q *Seq) parts() []*Seq {
	if q.rows != nil {
		return q.rows
	}
	return q.self[:]
}

// places returns how many running sequences it counts as.
func (q *Seq) places() int { return max(q.width, 1+len(q.followers)) }

// CheckBeams is Check for a beam search, which needs room for all its sequences at
// the same time: in the batch, and in the cache with blocks of blockSize tokens.
func (s Settings) CheckBeams(prompt, maxNew, beams, blockSize int) error {
	if err := s.Check(prompt, maxNew, 1); err != nil {
		return err
	}
	if most := min(s.MaxConcurrentRequests, s.MaxBatchSize); beams > most {
		return fmt.Errorf("%w: num_beams must be at most %d, got %d", llm.ErrInvalid, most, beams)
	}
	// The last token of a sequence is never fed back and needs no place. At worst
	// all beams part right behind the prompt; with one token each none is fed back.
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
	if err := s.set.CheckBeams(len(j.Prompt), j.MaxNew, j.Beams, s.pool.BlockSize()); err != nil {
		return nil, err
	}
	s.nextID++
	g := &Seq{id: s.nextID, state: waiting, tokens: j.Prompt, prompt: len(j.Prompt), max: j.MaxNew, width: j.Beams}
	g.self[0] = g
	first := &Seq{
		id: g.id, state: inGroup, group: g,
		tokens: j.Prompt[:len(j.Prompt):len(j.Prompt)], prompt: len(j.Prompt), max: j.MaxNew,
		row: kv.NewRow(j.Salt), score: j.Score,
	}
	first.self[0] = first
	g.rows = []*Seq{first}
	s.waiting.insert(g)
	return g, nil
}

// decodeGroup plans a token for each row of a group, or none while one has more to
// compute. When the group must step back itself nothing of it is left in the plan.
func (s *Scheduler) decodeGroup(p *Plan, g *Seq) {
	rows, copies := len(p.Rows), len(p.Copies)
	if !s.seatAll(p, g) {
		return
	}
	for _, m := range g.rows {
		if !s.room(p, g, m) {
			p.Rows, p.Copies = p.Rows[:rows], p.Copies[:copies]
			return
		}
		p.Rows = append(p.Rows, Row{Seq: m, Start: m.row.Len(), Len: 1})
	}
	p.DecodeRows += len(g.rows)
}

// seatAll gives blocks to those rows of a group that have none since it stepped
// back, where what they share with others is computed. It reports whether all rows
// have computed their tokens but one.
func (s *Scheduler) seatAll(p *Plan, g *Seq) (even bool) {
	var ready []*Seq
	for i, m := range g.rows {
		if len(m.row.Blocks()) == 0 && s.seat(g, i) {
			ready = append(ready, m)
		}
	}
	for _, m := range ready { // after all have found theirs, which could be taken otherwise
		if !s.room(p, g, m) {
			return false
		}
	}
	for _, m := range g.rows {
		if m.left() != 1 {
			return false
		}
	}
	return true
}

// seat has row i share what is computed of its tokens. It reports false when it
// has to wait for a row that computes what both begin with: computed twice it would
// take twice the blocks, and CheckBeams counts them once.
func (s *Scheduler) seat(g *Seq, i int) bool {
	m := g.rows[i]
	if from, n := s.likest(g, i); n > 0 {
		if from.row.Len() < n {
			return false
		}
		s.pool.Adopt(m.row, from.row, n)
	}
	s.find(m)
	return true
}

// likest returns the row before row i of a group that has the longest beginning in
// common with it, in whole blocks, and how many tokens these hold.
func (s *Scheduler) likest(g *Seq, i int) (from *Seq, n int) {
	m := g.rows[i].tokens
	for _, f := range g.rows[:i] {
		same := 0
		for same < len(m)-1 && f.tokens[same] == m[same] {
			same++
		}
		if same -= same % s.pool.BlockSize(); same > n {
			from, n = f, same
		}
	}
	return from, n
}

// needs returns how many blocks a group that holds none needs for all its tokens.
func (s *Scheduler) needs(g *Seq) (blocks int) {
	for i, m := range g.rows {
		_, n := s.likest(g, i)
		blocks += s.pool.BlocksFor(len(m.tokens)) - n/s.pool.BlockSize()
	}
	return blocks
}

// admitGroup plans what a group of several rows can compute at once after it was
// admitted again: there are blocks for all of it.
func (s *Scheduler) admitGroup(p *Plan, g *Seq, b *budget) {
	if s.seatAll(p, g) {
		s.decodeGroup(p, g)
		return
	}
	s.chunks(p, g, b)
}

// chunks plans tokens for the rows of a group that have more than one to compute.
func (s *Scheduler) chunks(p *Plan, g *Seq, b *budget) {
	for _, m := range g.rows {
		if b.tokens > 0 && m.left() > 1 && len(m.row.Blocks()) > 0 {
			s.chunk(p, m, b)
		}
	}
}

// regroup has a group go on with the given rows, or end when there is none.
func (s *Scheduler) regroup(g *Seq, next []Branch) {
	rows := make([]*Seq, len(next))
	taken := make([]bool, len(g.rows))
	for i, b := range next {
		m := g.rows[b.From]
		if !taken[b.From] { // the first to continue it takes its place
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

// checkGroup verifies the books of a group; held are the rows of the cache that it holds.
func checkGroup(g *Seq, held []*kv.Row) ([]*kv.Row, error) {
	if n := len(g.rows); n < 1 || n > g.width {
		return held, fmt.Errorf("BUG: sched: group %d has %d rows, at most %d are allowed", g.id, n, g.width)
	}
	for i, m := range g.rows {
		if m.group != g || m.state != inGroup || m.self[0] != m || len(m.tokens) != len(g.rows[0].tokens) ||
			len(m.tokens) > m.prompt+m.max || !m.even() {
			return held, fmt.Errorf("BUG: sched: row %d of group %d has state %d, %d of %d+%d tokens, %d left",
				i, g.id, m.state, len(m.tokens), m.prompt, m.max, m.left())
		}
		if n := len(m.row.Blocks()); g.state == waiting && n != 0 {
			return held, fmt.Errorf("BUG: sched: row %d of group %d waits and holds %d blocks", i, g.id, n)
		}
		held = append(held, m.row)
	}
	return held, nil
}
