package engine

import (
	"errors"
	"fmt"
	"io"
	"time"

	"tgi/runtime/llm"
	"tgi/runtime/sched"
)

// step does one step and reports whether there was anything to do.
func (e *Engine) step() bool {
	begin := time.Now()
	e.drainInbox()
	e.resolve()
	plan := e.sched.Plan()
	e.demand.set(len(plan.Rows))
	if len(plan.Rows) == 0 {
		if len(e.lives) > 0 && e.sched.Parked() == 0 {
			e.shut(fmt.Errorf("%w: BUG: engine: %d sequences and nothing to do", llm.ErrClosed, len(e.lives)))
		}
		if len(e.lives) == 0 {
			e.spare = nil
			clear(e.paces)
		}
		e.note(plan)
		return false
	}
	e.start(plan, begin)

	t := timing{begin: begin, satOut: e.sched.Parked(), forward: time.Now()}
	logits, err := e.forward(plan)
	t.picked, t.err = time.Now(), err
	if err != nil {
		e.dropPlan(plan, err)
	} else {
		e.timed(t.picked.Sub(t.forward))
		e.pick(plan, logits)
		e.await(plan)
		t.late = e.commit(plan)
	}
	e.demand.set(0)
	stats := e.note(plan)
	e.emit()
	if e.observer != nil {
		t.end = time.Now()
		e.observer.Step(newReport(plan, t, stats))
	}
	return true
}

// drainInbox adds new requests to the scheduler and aborts the cancelled.
func (e *Engine) drainInbox() {
	e.mu.Lock()
	inbox, cancels := e.inbox, e.cancels
	e.inbox, e.cancels = nil, nil
	e.mu.Unlock()
	for _, j := range inbox {
		e.add(j)
	}
	for _, c := range cancels {
		e.abort(c.stream, c.cause)
	}
}

// add hands a request to the scheduler.
func (e *Engine) add(j *job) {
	st := j.stream
	p := st.seqs[0].params
	seqs, err := e.sched.Add(sched.Job{
		Prompt: j.prompt, MaxNew: p.MaxNewTokens, N: len(st.seqs), Beams: p.NumBeams, Score: p.PromptLogprobs, Salt: j.salt,
	})
	if err != nil { // Submit's check is the same
		e.abort(st, fmt.Errorf("BUG: engine: accepted request: %w", err))
		return
	}
	for i, q := range seqs {
		st.seqs[i].seq = q
		for _, g := range st.seqs[i].guests { // many short requests are not each waited for
			st.seqs[i].pace = max(st.seqs[i].pace, e.paces[g])
		}
		e.lives[q] = st.seqs[i]
	}
}

// abort ends the sequences of a stream that still live. Calls of their user code that
// are under way end later.
func (e *Engine) abort(st *Stream, cause error) {
	running := false
	for _, q := range st.seqs {
		running = running || q.turn != nil
		if e.lives[q.seq] == q {
			delete(e.lives, q.seq)
			e.sched.Abort(q.seq)
		}
	}
	st.release()
	e.end(st, st.live, cause)
	if running && st.cancel != nil {
		_ = guard(func() error { st.cancel(); return nil })
	}
}

// end records that n of a stream's sequences ended, and the stream with the last.
func (e *Engine) end(st *Stream, n int, final error) {
	if n == 0 {
		return
	}
	e.release(n)
	if st.live -= n; st.live == 0 {
		st.end(final)
	}
}

// start notes for which requests the waiting is over.
func (e *Engine) start(plan *sched.Plan, at time.Time) {
	for i := range plan.Rows {
		if st := e.lives[plan.Rows[i].Seq.Handle()].stream; st.started.IsZero() {
			st.started = at
		}
	}
}

// forward has the model compute the plan. Masks, and whatever else of the user
// code depends only on tokens that are known already, are computed meanwhile; those of
// sequences with guests may take longer.
func (e *Engine) forward(plan *sched.Plan) (logits []float32, err error) {
	e.begin(plan)
	wait := e.prepare()
	defer wait()
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("%w: panic: %v", llm.ErrBackend, r)
		}
		e.mu.Lock()
		e.health = err
		e.mu.Unlock()
	}()
	if len(plan.Copies) > 0 {
		if err := e.model.CopyBlocks(plan.Copies); err != nil {
			return nil, fmt.Errorf("%w: copy blocks: %w", llm.ErrBackend, err)
		}
	}
	logits, err = e.model.Forward(&plan.Step)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", llm.ErrBackend, err)
	}
	if want := len(plan.Step.LogitRows) * e.shape.Vocab; len(logits) != want {
		return nil, fmt.Errorf("%w: %d logits for %d rows of %d", llm.ErrBackend, len(logits), want/e.shape.Vocab, e.shape.Vocab)
	}
	return logits, nil
}

// dropPlan ends the sequences of a plan whose forward pass failed.
func (e *Engine) dropPlan(plan *sched.Plan, err error) {
	for _, s := range e.sched.Drop(plan) {
		e.ended = append(e.ended, &turn{q: e.lives[s], err: err})
		delete(e.lives, s)
	}
}

// commit applies what was picked: text, ends, and the scheduler's books. Sequences
// whose turns are not done are parked; it returns how many.
func (e *Engine) commit(plan *sched.Plan) (late int) {
	e.results = e.results[:0]
	at := time.Now()
	for _, n := range e.turns {
		r := sched.Result{Pending: true}
		switch {
		case n.q.turn == nil:
			r = e.conclude(n, at)
		case n.park():
			late++
		default:
			e.settle(n)
			r = e.conclude(n, at)
		}
		e.results = append(e.results, r)
		for range n.tasks[1:] { // the first stands for all
			e.results = append(e.results, sched.Result{})
		}
	}
	clear(e.turns)
	e.sched.Commit(plan, e.results)
	return late
}

// conclude takes what was picked into the sequence's text, or search. It returns what
// the scheduler must know and leaves the turn to emit.
func (e *Engine) conclude(n *turn, at time.Time) sched.Result {
	e.ended = append(e.ended, n)
	if n.q.search != nil {
		return e.concludeSearch(n, at)
	}
	t := n.tasks[0]
	n.err = t.err
	end := n.err != nil
	if !end {
		n.event = n.q.accept(e, t.pick, at)
		end = n.event.Finish != nil
	}
	if end {
		delete(e.lives, n.q.seq)
	}
	return sched.Result{Token: t.pick.Token, End: end}
}

// emit hands the events of turns that ended to their streams. The blocks of what ended
// are free by now and its place is open again before its reader hears of the end.
func (e *Engine) emit() {
	for _, n := range e.ended {
		if n.q.search != nil {
			e.emitSearch(n)
			continue
		}
		st := n.q.stream
		if n.err == nil && n.event.Finish == nil {
			st.push(item{event: n.event})
			continue
		}
		if n.err != nil {
			n.event = Event{Index: n.q.index}
		}
		n.q.release()
		st.push(item{event: n.event, err: n.err})
		e.end(st, 1, io.EOF)
	}
	clear(e.ended)
	e.ended = e.ended[:0]
}

// failAll ends everything that was accepted.
func (e *Engine) failAll(err error) {
	e.drainInbox()
	for _, q := range e.lives {
		e.abort(q.stream, err)
	}
}

// note keeps the figures of a step and, when asked to, checks the books. A book that
// does not balance could hand one request's text to another, so it closes the engine.
func (e *Engine) note(plan *sched.Plan) Stats {
	e.mu.Lock()
	if len(plan.Rows) > 0 {
		e.stats.Steps++
		e.stats.Preempted += plan.Preempted
	}
	e.stats.Waiting, e.stats.Running = e.sched.Waiting(), e.sched.Running()
	e.stats.Parked = e.sched.Parked()
	e.stats.KVUsed, e.stats.KVCached, e.stats.KVTotal = e.sched.Cache()
	stats := e.stats
	e.mu.Unlock()
	if e.verify {
		if err := e.checkBooks(); err != nil {
			e.shut(fmt.Errorf("%w: %w", llm.ErrClosed, err))
		}
	}
	return stats
}

// checkBooks verifies the scheduler's books and that both sides know the same sequences.
func (e *Engine) checkBooks() error {
	lives := 0
	for _, q := range e.lives {
		lives += q.places()
	}
	if n := e.sched.Waiting() + e.sched.Running(); n != lives {
		return errors.Join(fmt.Errorf("BUG: engine: %d sequences, %d in the scheduler", lives, n), e.sched.Check())
	}
	return e.sched.Check()
}
