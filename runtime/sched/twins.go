package sched

import (
	"fmt"
	"slices"

	"tgi/runtime/llm"
)

// Twins are a group whose rows have prompts of their own and one output: each token that is picked is appended to all.
// They share what their prompts have in common in whole blocks. Where several such groups start from the same prompts,
// the others follow the first until it has computed them, and find them in the cache.

// CheckTwins is Check for n groups of twins with prompts of the given lengths. The rows of a group must all fit at the
// same time, into the batch and into the cache with blocks of blockSize tokens.
func (s Settings) CheckTwins(prompts []int, maxNew, n, blockSize int) error {
	blocks, total := 0, s.MaxBatchTotalTokens/blockSize
	for _, prompt := range prompts {
		if err := s.Check(prompt, maxNew, n); err != nil {
			return err
		}
		blocks += (prompt + maxNew - 1 + blockSize - 1) / blockSize // the last token is never fed back
	}
	width := len(prompts)
	switch {
	case width > s.MaxBatchSize:
		return fmt.Errorf("%w: %d prompts for one text, at most %d sequences run (max_batch_size)", llm.ErrInvalid,
			width, s.MaxBatchSize)
	case n > s.MaxConcurrentRequests/width:
		return fmt.Errorf("%w: %d texts of %d prompts each, at most %d sequences may run or wait "+
			"(max_concurrent_requests)", llm.ErrInvalid, n, width, s.MaxConcurrentRequests)
	case blocks > total:
		return fmt.Errorf("%w: %d prompts of %v tokens and %d new ones need %d cache blocks of %d tokens, there are %d",
			llm.ErrTooLong, width, prompts, maxNew, blocks, blockSize, total)
	}
	return nil
}

// addTwins is Add for groups of twins.
func (s *Scheduler) addTwins(j Job) ([]*Seq, error) {
	prompts := append([][]llm.Token{j.Prompt}, j.Twins...)
	lengths := make([]int, len(prompts))
	for i, p := range prompts {
		lengths[i] = len(p)
	}
	if err := s.settings.CheckTwins(lengths, j.MaxNew, j.N, s.pool.BlockSize()); err != nil {
		return nil, err
	}
	if len(j.Embeddings) > 0 {
		return nil, fmt.Errorf("%w: twins have no embeddings", llm.ErrInvalid)
	}
	groups := make([]*Seq, j.N)
	for i := range groups {
		s.nextID++
		g := &Seq{id: s.nextID, state: following, tokens: j.Prompt, prompt: len(j.Prompt), max: j.MaxNew,
			width: len(prompts), twins: true, adapter: j.Adapter, withholds: j.Withhold}
		g.self[0] = g
		for k, p := range prompts {
			m := &Seq{id: g.id, state: inGroup, group: g, tokens: p[:len(p):len(p)], prompt: len(p), max: j.MaxNew,
				row: j.newRow(len(p)), score: j.Score && k == 0 && i == 0}
			m.self[0] = m
			g.rows = append(g.rows, m)
		}
		groups[i] = g
	}
	lead := groups[0]
	lead.state = waiting
	lead.followers = slices.Clone(groups[1:])
	for _, f := range lead.followers {
		f.leader = lead
	}
	s.enqueue(&j, groups)
	return groups, nil
}

// planTwins plans all that the rows of twins have left to compute, if the budget is enough: then their first token is
// picked in the same step.
func (s *Scheduler) planTwins(p *Plan, g *Seq, b *budget) bool {
	tokens := 0
	for _, m := range g.rows {
		if tokens += m.uncomputed(); len(m.row.Blocks()) == 0 || m.needsScores() {
			return false
		}
	}
	if tokens == len(g.rows) || tokens > s.mayCompute(g, b.tokens) { // one each: planGroupDecode has them
		return false
	}
	s.use(g, tokens)
	b.tokens -= tokens
	p.PrefillTokens += tokens
	for _, m := range g.rows {
		p.Rows = append(p.Rows, Row{Seq: m, Start: m.row.Len(), Len: m.uncomputed()})
	}
	return true
}

// promptTokens counts the tokens of a sequence's prompt, or of those of twins.
func (q *Seq) promptTokens() (n int) {
	if !q.twins {
		return q.prompt
	}
	for _, m := range q.rows {
		n += m.prompt
	}
	return n
}

// releaseFollowers puts the groups that follow g, whose prompts are computed, into the queue.
func (s *Scheduler) releaseFollowers(g *Seq) {
	for _, f := range g.followers {
		f.state, f.leader = waiting, nil
		s.waiting.insert(f)
	}
	g.followers = nil
}

// waitingFollowers counts the rows of groups that follow those of a queue.
func waitingFollowers(l queue) (n int) {
	for _, q := range l {
		if q.twins {
			n += q.width * len(q.followers)
		}
	}
	return n
}

// applyGroup applies a result to a group.
func (s *Scheduler) applyGroup(g *Seq, r Result) {
	switch {
	case !g.twins:
		s.replaceRows(g, r.Beams)
	case r.End:
		s.show(g, r)
		s.end(g)
	default:
		for _, m := range g.rows {
			m.tokens = append(m.tokens, r.Tokens...)
		}
		s.show(g, r)
	}
}
