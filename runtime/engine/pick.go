package engine

import (
	"fmt"
	"sync"
	"sync/atomic"

	"tgi/runtime/llm"
	"tgi/runtime/sample"
	"tgi/runtime/sched"
)

// turn is what one sequence does in one step: its pick, or with a search those of all
// its beams.
type turn struct {
	e     *Engine
	q     *sequence
	tasks []*pickTask // one; of a search one for each beam, in their order
	// What it comes to: an event, an error that ends the sequence, and of a search its
	// next beams and, when it ended, what the reader gets.
	event Event
	err   error
	next  []choice
	last  []item

	flight // where the sequence has guests
}

// pickTask is the pick of one sequence, or of one beam of a search.
type pickTask struct {
	chain   *sample.Chain
	history sample.History
	logits  []float32
	pick    sample.Pick
	err     error
	early   early

	e        *Engine // set with the three below
	search   *search // nil without one
	beam     *beam
	rank     int // of the beam
	branches []sample.Branch
	top      []TopToken
}

// begin collects what the plan's samples do.
func (e *Engine) begin(plan *sched.Plan) {
	e.turns = e.turns[:0]
	for i := range plan.Rows {
		for _, s := range plan.Rows[i].Samples {
			q := e.lives[s.Handle()]
			if q.search == nil {
				e.turns = append(e.turns, q.begin(e, s))
			} else if q.seq.Rows()[0] == s { // the first stands for all
				e.turns = append(e.turns, q.beginSearch(e))
			}
		}
	}
}

// begin returns the turn of a sequence. One that never runs beside the engine uses the
// same memory each time.
func (q *sequence) begin(e *Engine, s *sched.Seq) *turn {
	t, n := &q.task, &q.own
	if len(q.guests) > 0 {
		t, n = new(pickTask), new(turn)
		q.turn = n
	}
	*t = pickTask{chain: q.chain, history: historyOf(s)}
	*n = turn{e: e, q: q, tasks: append(n.tasks[:0], t)}
	n.left = 1
	return n
}

// beginSearch returns the turn of a search.
func (q *sequence) beginSearch(e *Engine) *turn {
	n := &turn{e: e, q: q}
	for i, b := range q.search.beams {
		n.tasks = append(n.tasks, &pickTask{chain: b.chain, history: historyOf(q.seq.Rows()[i]), e: e, search: q.search, beam: b, rank: i})
	}
	if n.left = len(n.tasks); len(q.guests) > 0 {
		q.turn = n
	}
	return n
}

// historyOf returns a view of a sequence's tokens that stays as it is until the
// scheduler is told the next.
func historyOf(q *sched.Seq) sample.History {
	return sample.History{Prompt: q.Prompt(), Output: q.Output()}
}

// prepare starts what the step's sequences can do before their logits are known. It
// returns a function that waits for those without guests.
func (e *Engine) prepare() (wait func()) {
	var early []*pickTask
	for _, n := range e.turns {
		for _, t := range n.tasks {
			switch {
			case !t.chain.Prepares():
			case n.q.turn != nil:
				n.prepare(t)
			default:
				early = append(early, t)
			}
		}
	}
	return e.parallel(len(early), func(i int) { early[i].prepare() })
}

// prepare does what a task can do without logits.
func (t *pickTask) prepare() {
	t.err = guard(func() error { return t.chain.Prepare(t.history) })
}

// pick hands their logits to the sequences with guests, draws the tokens of the others
// and rates the plan's prompt positions.
func (e *Engine) pick(plan *sched.Plan, logits []float32) {
	e.draws, e.scores, e.forks = e.draws[:0], e.scores[:0], e.forks[:0]
	v := e.shape.Vocab
	k, b := 0, 0 // the turn and its task whose sample is next
	for i := range plan.Rows {
		r := &plan.Rows[i]
		if r.Scores > 0 {
			e.scores = append(e.scores, r)
		}
		at := (r.Logit + r.Scores) * v
		for j := range r.Samples {
			n := e.turns[k]
			e.assign(n, n.tasks[b], logits[at:at+v:at+v], j > 0)
			if b++; b == len(n.tasks) {
				k, b = k+1, 0
			}
		}
	}
	n := len(e.scores)
	run := func(i int) {
		if i < n {
			r := e.scores[i]
			e.rate(e.lives[r.Seq.Handle()], r, logits[r.Logit*v:])
			return
		}
		e.draws[i-n].draw()
	}
	if total := n + len(e.draws); total == 1 { // the usual single stream pays for no goroutine
		run(0)
	} else {
		e.parallel(total, run)()
	}
	for _, n := range e.turns {
		if n.q.turn == nil && n.q.search != nil {
			n.advance(func(n int, f func(int)) { e.parallel(n, f)() })
		}
	}
}

// assign gives a task its row of logits, which fork says others pick from as well. A
// pick overwrites its logits.
func (e *Engine) assign(n *turn, t *pickTask, row []float32, fork bool) {
	switch {
	case n.q.turn != nil:
		t.logits = e.buffer()
		copy(t.logits, row)
		n.launch(t)
		return
	case fork:
		at := len(e.forks)
		e.forks = append(e.forks, row...)
		row = e.forks[at:]
	}
	t.logits = row
	e.draws = append(e.draws, t)
}

// draw picks the token of one sequence, or finds those of one beam.
func (t *pickTask) draw() {
	if t.err != nil { // its preparations failed
		return
	}
	t.err = guard(func() (err error) {
		if t.beam != nil {
			return t.branch(t.e)
		}
		t.pick, err = t.chain.Pick(t.history, t.logits)
		return err
	})
}

// rate sets the log-probabilities of the prompt tokens of q that follow the row's
// scored positions, and the likeliest tokens in their places.
func (e *Engine) rate(q *sequence, r *sched.Row, logits []float32) {
	v := e.shape.Vocab
	for j := range r.Scores {
		next := &q.stream.prefill[r.FirstScore+j+1]
		at := logits[j*v : (j+1)*v]
		if n := q.params.PromptTopN; n > 0 {
			var top []sample.Candidate
			next.Logprob, top = sample.PromptTop(at, next.Token, n)
			next.Top = e.topTokens(top)
		} else {
			next.Logprob = sample.PromptLogprob(at, next.Token)
		}
	}
}

// guard calls f, which may run foreign code, and turns a panic in it into an error
// that wraps llm.ErrPlugin.
func guard(f func() error) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("%w: panic: %v", llm.ErrPlugin, r)
		}
	}()
	return f()
}

// parallel runs f(0) … f(n-1) on as many goroutines as there are workers and
// returns a function that waits for them.
func (e *Engine) parallel(n int, f func(int)) (wait func()) {
	var next atomic.Int64
	var wg sync.WaitGroup
	for range min(n, e.workers) {
		wg.Go(func() {
			for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
				f(i)
			}
		})
	}
	return wg.Wait
}
