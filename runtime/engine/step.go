package engine

import (
	"errors"
	"fmt"
	"io"
	"time"

	"tgi/runtime/llm"
	"tgi/runtime/sched"
)

// step runs one step and reports whether there was anything to do.
func (e *Engine) step() bool {
	begin := time.Now()
	e.drainInbox()
	more := e.exchange()
	e.resumeParked()
	e.draft()
	plan := e.sched.Plan()
	e.demand.set(len(plan.Rows))
	if len(plan.Rows) == 0 {
		if len(e.active) > 0 && e.sched.Parked() == 0 {
			e.closeWith(fmt.Errorf("%w: BUG: engine: %d sequences and nothing to do", llm.ErrClosed, len(e.active)))
		}
		if len(e.active) == 0 {
			e.freeLogits = nil
			clear(e.guestLatency)
		}
		e.recordStats(plan, 0)
		return more
	}

	t := timing{begin: begin, parkedBefore: e.sched.Parked(), forward: time.Now()}
	e.recordStart(plan, t.forward) // not begin: a request may have been submitted since
	logits, err := e.forward(plan)
	t.picked = time.Now()
	if err == nil {
		e.recordForward(t.picked.Sub(t.forward))
		// Guesses are part of what a step without prompts computes.
		e.pace.observe(plan.DecodeRows, plan.PrefillTokens, t.picked.Sub(t.forward))
		e.guests.postpone()
		err = e.pick(plan, logits)
		if err == nil && plan.PrefillTokens == 0 { // before user code is waited for: that is no cost of tokens
			e.costs.Observe(plan.DecodeRows+plan.DraftTokens, time.Since(t.forward))
		}
	}
	waits := time.Now()
	if t.err = err; err == nil {
		e.awaitGuests(plan, t)
	}
	waited := time.Since(waits)
	e.endStep(plan, t)
	if err == nil {
		e.yield.observe(plan, time.Since(begin)-waited)
	}
	return true
}

// endStep hands out what a step gave, but for the sequences whose user code is not done.
func (e *Engine) endStep(plan *sched.Plan, t timing) {
	e.guests.watch()
	if t.err != nil {
		e.dropPlan(plan, t.err)
	} else {
		t.late = e.commit(plan)
	}
	e.demand.set(0)
	stats := e.recordStats(plan, time.Since(t.begin))
	e.emit()
	if e.observer != nil {
		t.end = time.Now()
		e.observer.Step(newReport(plan, t, stats, e.drafts, e.second.takeErr()))
	}
	e.drafts = DraftCounts{}
}

// drainInbox adds new requests to the scheduler, carries out the orders of programs, and aborts the cancelled.
func (e *Engine) drainInbox() {
	e.mu.Lock()
	inbox, cancels, orders := e.inbox, e.cancels, e.orders
	e.inbox, e.cancels, e.orders = nil, nil, nil
	e.mu.Unlock()
	for _, j := range inbox {
		if !e.load(j) {
			e.add(j)
		}
	}
	for _, o := range orders {
		e.obey(o)
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
		Prompt: j.prompt, MaxNew: p.MaxNewTokens, N: len(st.seqs), Beams: p.NumBeams, Score: p.PromptLogprobs,
		Twins: j.twins, Salt: j.salt, Client: j.client, Share: j.share, Beneath: j.beneath, Priority: j.priority,
		Adapter: j.adapter, Embeddings: j.embeddings, Withhold: st.seqs[0].guards != nil,
	})
	if err != nil { // Submit's check is the same
		e.abort(st, fmt.Errorf("BUG: engine: accepted request: %w", err))
		return
	}
	for i, q := range seqs {
		st.seqs[i].seq = q
		for _, g := range st.seqs[i].guests { // known slow guests are not waited for again at each new request
			st.seqs[i].latency = max(st.seqs[i].latency, e.guestLatency[g])
		}
		e.active[q] = st.seqs[i]
	}
}

// abort ends the active sequences of a stream. Calls of their user code that are in
// progress end later.
func (e *Engine) abort(st *Stream, cause error) {
	running := false
	e.stopLoad(st)
	for _, q := range st.seqs {
		running = running || q.inFlight != nil
		if e.active[q.seq] == q {
			delete(e.active, q.seq)
			e.sched.Abort(q.seq)
		}
	}
	st.release()
	e.freeSlots(st, st.live)
	e.end(st, st.live, cause)
	if running && st.cancel != nil {
		_ = catchPanic(func() error { st.cancel(); return nil })
	}
}

// end records that n of a stream's sequences ended, and the stream with the last. Their slots were released.
func (e *Engine) end(st *Stream, n int, final error) {
	if n == 0 {
		return
	}
	if st.live -= n; st.live > 0 {
		return
	}
	if st.session == nil {
		st.end(final)
		return
	}
	if final == io.EOF {
		final = nil
	}
	e.spanOver(st.seqs[0].span, errors.Join(final, st.failed))
}

// freeSlots gives the slots of n of a stream's sequences back. Those of a session are taken until its end.
func (e *Engine) freeSlots(st *Stream, n int) {
	if st.session == nil {
		e.release(n)
	}
}

// recordStart records when the requests of the plan left the queue.
func (e *Engine) recordStart(plan *sched.Plan, at time.Time) {
	for i := range plan.Rows {
		if st := e.active[plan.Rows[i].Seq.Handle()].stream; st.started.IsZero() {
			st.started = at
		}
	}
}

// forward runs the model on the plan. Meanwhile masks, and other user code that depends
// only on known tokens, are computed; those of sequences with guests may take longer
// than the forward pass.
func (e *Engine) forward(plan *sched.Plan) (got fetched, err error) {
	e.begin(plan)
	wait := e.prepare()
	defer wait()
	err = e.guard(func() error {
		if len(plan.Copies) > 0 {
			if err := e.model.CopyBlocks(plan.Copies); err != nil {
				return fmt.Errorf("%w: copy blocks: %w", llm.ErrBackend, err)
			}
		}
		if e.reducer != nil {
			got, err = e.compute(plan, wait)
			return err
		}
		logits, err := e.model.Forward(&plan.Step)
		if err != nil {
			return fmt.Errorf("%w: %w", llm.ErrBackend, err)
		}
		if want := len(plan.Step.LogitRows) * e.shape.Vocab; len(logits) != want {
			return fmt.Errorf("%w: %d logits for %d rows of %d", llm.ErrBackend, len(logits), want/e.shape.Vocab,
				e.shape.Vocab)
		}
		got = fetched{vocab: e.shape.Vocab, logits: logits}
		return nil
	})
	return got, err
}

// dropPlan ends the sequences of a plan whose forward pass failed.
func (e *Engine) dropPlan(plan *sched.Plan, err error) {
	for _, s := range e.sched.Drop(plan) {
		e.ended = append(e.ended, &seqStep{q: e.active[s], err: err})
		delete(e.active, s)
	}
}

// commit applies the picks to texts, ended sequences and the scheduler. It parks the
// sequences whose user code is not done and returns how many.
func (e *Engine) commit(plan *sched.Plan) (late int) {
	e.results = e.results[:0]
	at := time.Now()
	for _, n := range e.seqSteps {
		r := sched.Result{Pending: true}
		switch {
		case n.q.inFlight == nil:
			r = e.applyPick(n, at)
		case n.park():
			late++
		default:
			e.collect(n)
			r = e.applyPick(n, at)
		}
		e.results = append(e.results, r)
		for range n.samples() - 1 { // the first result is the group's
			e.results = append(e.results, sched.Result{})
		}
	}
	e.sched.Commit(plan, e.results)
	for _, n := range e.seqSteps {
		e.keepPrompt(n.q.stream)
		if n.q.inFlight == nil {
			e.rewind(n)
		}
	}
	clear(e.seqSteps)
	return late
}

// applyPick makes the events of the picked tokens, or adds them to a search. It returns the result for the scheduler
// and leaves the events to emit.
func (e *Engine) applyPick(n *seqStep, at time.Time) sched.Result {
	e.ended = append(e.ended, n)
	if n.q.search != nil {
		e.generated++
		return e.applySearch(n, at)
	}
	t := n.tasks[0]
	n.err = t.err
	e.generated += len(t.picks)
	e.countDrafts(t)
	end := n.err != nil
	given := t.events()
	n.q.stream.count(len(t.picks)*n.q.mix.rows(), len(given))
	for _, x := range given {
		n.events = append(n.events, n.q.event(x, at))
		if x.fin.Reason != llm.FinishNone {
			end, n.q.dropped = true, x.pick.Stop || e.eos[x.pick.Token] && !n.q.params.IgnoreEOS
		}
	}
	if (n.q.probe != nil || n.q.denied) && n.err == nil {
		n.events, end = append(n.events, tokenless()), true
	}
	if end {
		delete(e.active, n.q.seq)
	}
	if end && n.q.span != nil {
		return n.q.result(t.tokens(), n.err)
	}
	r := sched.Result{Tokens: t.tokens(), End: end}
	if n.q.guards != nil {
		r.Shown = n.q.guards.plain
	}
	return r
}

// emit sends the events of completed steps to their streams. By now the blocks of ended
// sequences are free, and their slots are free before the reader sees the last event.
func (e *Engine) emit() {
	for _, n := range e.ended {
		if n.q.search != nil {
			e.emitSearch(n)
			continue
		}
		st := n.q.stream
		for i := range n.events {
			if n.events[i].Finish != nil {
				n.q.release()
				e.freeSlots(st, n.q.slots())
			}
			st.push(item{event: n.events[i]})
			if n.events[i].Finish != nil {
				e.end(st, n.q.slots(), io.EOF)
			}
		}
		if n.err != nil {
			n.q.release()
			e.freeSlots(st, n.q.slots())
			st.push(item{event: Event{Index: n.q.index}, err: n.err})
			e.end(st, n.q.slots(), io.EOF)
		}
	}
	clear(e.ended)
	e.ended = e.ended[:0]
}

// failAll ends everything that was accepted.
func (e *Engine) failAll(err error) {
	e.drainInbox()
	for _, q := range e.active {
		e.abort(q.stream, err)
	}
	e.failLoads(err)
	for s := range e.sessions {
		e.endSession(s, err)
	}
}

// recordStats updates the statistics and, with Config.Verify, checks the invariants. A
// violated invariant could leak one request's text to another, so it closes the engine.
func (e *Engine) recordStats(plan *sched.Plan, took time.Duration) Stats {
	e.mu.Lock()
	if len(plan.Rows) > 0 {
		e.stats.Steps++
		e.stats.StepTime += took
		e.stats.PrefillTokens += plan.PrefillTokens
		e.stats.PromptTokens += plan.PromptTokens
		e.stats.CachedTokens += plan.CachedTokens
		e.stats.Preempted += plan.Preempted
	}
	e.stats.Waiting, e.stats.Running = e.sched.Waiting(), e.sched.Running()
	e.stats.Waiting += e.disk.slots()
	e.stats.Parked = e.sched.Parked()
	e.stats.KVUsed, e.stats.KVCached, e.stats.KVTotal = e.sched.Cache()
	e.stats.KVTokens = e.stats.KVUsed * e.shape.BlockSize
	e.stats.Generated = e.generated
	stats := e.stats
	e.mu.Unlock()
	if e.verify {
		if err := e.checkInvariants(); err != nil {
			e.closeWith(fmt.Errorf("%w: %w", llm.ErrClosed, err))
		}
	}
	return stats
}

// checkInvariants verifies the scheduler's invariants and that engine and scheduler hold
// the same sequences.
func (e *Engine) checkInvariants() error {
	lives := 0
	for _, q := range e.active {
		lives += q.slots()
	}
	if n := e.sched.Waiting() + e.sched.Running(); n != lives {
		return errors.Join(fmt.Errorf("BUG: engine: %d sequences, %d in the scheduler", lives, n), e.sched.Check())
	}
	return errors.Join(e.sched.Check(), e.second.check())
}
