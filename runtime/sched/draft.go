package sched

import (
	"fmt"
	"slices"

	"tgi/runtime/llm"
)

// Drafts are guesses of the next tokens of a sequence. A step computes them behind the sequence's own last token, so
// that their logits are there if the guesses turn out right: Result.Tokens then holds several. The cache keeps what it
// computed for tokens that stay, and nothing of the others.
//
// Drafts are asked for and given between Commit and Plan. They are the first to go where blocks are short: nobody is
// preempted for them, and they take what admissions have left.

// DefaultDraftTokens is the default of Settings.MaxBatchDraftTokens.
const DefaultDraftTokens = 64

// DraftRoom returns how many draft tokens the next plan may compute for a sequence at most, if there are blocks. It is
// 0 for one that has more to compute than its last token, waits, is parked or is a group, or has to give way to others.
func (s *Scheduler) DraftRoom(q *Seq) int { return s.draftRoom(q, s.yields()) }

// draftRoom is DraftRoom; yields is yields's.
func (s *Scheduler) draftRoom(q *Seq, yields bool) int {
	if q.state != running || q.parked || q.rows != nil || len(q.followers) > 0 || q.uncomputed() != 1 ||
		q.needsScores() || yields && q.beneath() {
		return 0
	}
	room := q.prompt + q.max - len(q.tokens) - 1 // behind the last one nothing is picked
	if s.original > 0 && !q.long {
		room = min(room, s.original-len(q.tokens))
	}
	return max(min(room, s.settings.MaxBatchDraftTokens), 0)
}

// Room is how many draft tokens the next plan may compute for a sequence.
type Room struct {
	Seq  *Seq
	Room int
}

// DraftRooms returns the sequences with DraftRoom, in order of rank, and how many rows the next plan computes one token
// for, if it preempts none, but for those that have to give way. The list is valid until the next call.
func (s *Scheduler) DraftRooms() (list []Room, rows int) {
	s.rooms = s.rooms[:0]
	yields := s.yields()
	for _, q := range s.running {
		if q.parked || yields && q.beneath() {
			continue
		}
		if q.rows != nil {
			rows += len(q.rows)
		} else if q.uncomputed() == 1 {
			rows++
		}
		if n := s.draftRoom(q, yields); n > 0 {
			s.rooms = append(s.rooms, Room{q, n})
		}
	}
	return s.rooms, rows
}

// Draft gives the next plan guesses of what follows a sequence. They are copied. Those beyond DraftRoom are left out.
func (s *Scheduler) Draft(q *Seq, tokens []llm.Token) {
	if s.planned || len(q.drafts) > 0 {
		panic("BUG: sched: Draft inside a step, or twice before it")
	}
	tokens = tokens[:min(len(tokens), s.DraftRoom(q))]
	if len(tokens) == 0 {
		return
	}
	q.drafts = append(q.drafts, tokens...)
	s.drafted = append(s.drafted, q)
}

// planDrafts adds the drafts to the rows of the plan, as far as there are blocks.
func (s *Scheduler) planDrafts(p *Plan) {
	if len(s.drafted) == 0 {
		return
	}
	left := s.settings.MaxBatchDraftTokens
	for i := range p.Rows {
		r := &p.Rows[i]
		q := r.Seq
		if len(q.drafts) == 0 || r.Start+r.Len != len(q.tokens) {
			continue
		}
		// its row can write to the blocks that it holds: Take was called for its own tokens
		room := (len(q.row.Blocks())+s.pool.Available())*s.pool.BlockSize() - len(q.tokens)
		n := min(len(q.drafts), left, room)
		if n < 1 {
			continue
		}
		p.Copies, _ = s.pool.Take(q.row, len(q.tokens)+n, p.Copies)
		r.Drafts = q.keepDrafts(n)
		left -= n
		p.DraftTokens += n
	}
	for _, q := range s.drafted {
		q.drafts = q.drafts[:0]
	}
	s.drafted = s.drafted[:0]
}

// keepDrafts writes the first n drafts behind the sequence's tokens, where Drafted and the step see them.
func (q *Seq) keepDrafts(n int) []llm.Token {
	known := len(q.tokens)
	q.tokens = append(q.tokens, q.drafts[:n]...)[:known]
	return q.tokens[known : known+n : known+n]
}

// Drafted is Output with the first n drafts of the plan behind it.
func (q *Seq) Drafted(n int) []llm.Token {
	end := len(q.tokens) + n
	return q.tokens[q.prompt:end:end]
}

// accept appends the picked tokens. All but the last are the first of the drafts that were computed, and the cache
// keeps them. A token that ends the sequence is not appended.
func (s *Scheduler) accept(q *Seq, drafts []llm.Token, r Result) {
	stay := len(r.Tokens) - 1
	if stay > 0 && (stay > len(drafts) || !slices.Equal(r.Tokens[:stay], drafts[:stay])) {
		panic(fmt.Sprintf("BUG: sched: picked %v of drafts %v", r.Tokens, drafts))
	}
	q.Handle().charge(max(stay, 0)) // the other drafts were the server's idea
	known := len(q.tokens)
	if r.End {
		q.tokens = append(q.tokens, r.Tokens[:max(stay, 0)]...)
	} else {
		q.tokens = append(q.tokens, r.Tokens...)
	}
	if len(drafts) == 0 || q.state != running { // or it lost them to preemption
		return
	}
	if stay > 0 {
		s.pool.Commit(q.row, q.tokens[:known+stay])
	}
	s.pool.Trim(q.row, len(q.tokens))
}

// show lets others find what a sequence, or twins, withheld of the output.
func (s *Scheduler) show(q *Seq, r Result) {
	if !q.withholds {
		return
	}
	for _, m := range q.members() {
		s.pool.Show(m.row, m.tokens, min(m.prompt+r.Shown, len(m.tokens)))
	}
}

// Truncate takes back all but the first n tokens of a sequence; n counts the prompt's, which stay, but for a context
// that rests. Like Abort, it must not be called between Plan and Commit. It takes no block; the next step computes the
// last token again, whose logits are needed. Beams and parked sequences cannot be truncated, and followers have
// nothing to take back. Twins lose the same tokens of their output; n counts the prompt of the first.
func (s *Scheduler) Truncate(q *Seq, n int) {
	known := q.prompt + len(q.Output())
	switch {
	case s.planned || q.state == ended || q.rows != nil && !q.twins || q.group != nil || q.parked || len(q.drafts) > 0:
		panic("BUG: sched: Truncate inside a step, or of a sequence that is parked, drafted for, beams or has ended")
	case n < q.prompt && q.state != resting || n < 0 || n > known:
		panic(fmt.Sprintf("BUG: sched: Truncate to %d tokens of %d+%d", n, q.prompt, known-q.prompt))
	case n == known:
		return
	}
	for _, m := range q.members() {
		s.truncateRow(m, m.prompt+n-q.prompt)
	}
}

// truncateRow is Truncate for a sequence with a row.
func (s *Scheduler) truncateRow(m *Seq, n int) {
	m.tokens = m.tokens[:n:n]
	least := n - 1
	if m.state == resting { // what comes next may be another token
		m.prompt, least = n, n
	}
	if m.long && n <= s.original { // which has other keys and values
		if q := m.Handle(); q.state == running {
			s.stepBack(q)
		}
		s.pool.Give(m.row)
		m.long = false
		m.row.Resalt("")
	}
	s.pool.Truncate(m.row, min(m.row.Len(), least), n)
}
