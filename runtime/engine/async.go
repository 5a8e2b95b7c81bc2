package engine

import (
	"runtime"
	"sync"
	"time"

	"tgi/runtime/sched"
)

// Sequences whose chains have guests, or whose mask takes long, may be late: they are in flight, and the engine waits
// for their picks only for a limited time. Then it parks those that are not done and continues with the others; a
// parked sequence joins the step after the one in which it is done. The work of a sequence in a step is a seqStep. In
// flight it runs on the workers of the guestPool, a mask that takes long on a goroutine of its own, and shares nothing
// with the step goroutine: its logits are a copy, and the tokens of a parked sequence do not change. Where guests only
// guard a sequence its token is picked in the step, like others, and only the guards are asked beside it.

// minGuestTimeout is the lower bound of a quarter of a forward pass.
const minGuestTimeout = time.Millisecond

// yields is how often the step goroutine lets others run before it sleeps until user code is done: most of it takes
// some microseconds, and going to sleep beside a timer wakes other threads.
const yields = 64

// asyncState is the state of a seqStep whose work runs beside the step goroutine.
type asyncState struct {
	// launched is when the logits were available.
	launched time.Time

	mu      sync.Mutex
	aside   bool          // a mask takes long
	jobs    int           // submitted jobs that have not ended
	left    int           // tasks that have not picked
	took    time.Duration // from launched to done
	done    bool          // all tasks have picked
	awaited bool          // counted in Engine.awaiting until it is done or parked
	parked  bool          // the engine continued without it; run reports to Engine.finished
	dropped bool          // the outcome is not wanted any more
	closed  bool          // dropped, and the user code was closed
}

// prepState is the progress of a task's preparations.
type prepState uint8

const (
	noPrep       prepState = iota // none, or none that draw has to wait for
	prepRunning                   // submitted
	prepThenDraw                  // submitted, and the logits have arrived meanwhile
	prepDone
)

// submit runs f on a worker, unless the step is dropped by then. f reports whether the step is done.
func (n *seqStep) submit(f func() (done bool)) {
	n.mu.Lock()
	n.jobs++
	n.mu.Unlock()
	n.e.guests.submit(n.q.guests, func() { n.run(f) })
}

// run is a job. The last one of a step that is done leaves the step alone afterwards: the step goroutine may use its
// memory again.
func (n *seqStep) run(f func() (done bool)) {
	n.mu.Lock()
	dropped := n.dropped
	n.mu.Unlock()
	done := !dropped && f()
	e := n.e
	n.mu.Lock()
	n.jobs--
	done = done && !n.dropped
	parked, wakes := done && n.parked, false
	if done {
		n.done, n.took = true, time.Since(n.launched)
		wakes = parked || n.awaited && e.awaiting.Add(-1) == 0
	}
	unused := n.unused()
	n.mu.Unlock()
	switch {
	case unused:
		n.q.close()
		return
	case parked:
		e.mu.Lock()
		e.finished = append(e.finished, n)
		e.mu.Unlock()
	}
	if wakes {
		e.signal()
	}
}

// unused reports once that the step was dropped and its jobs have ended. n.mu is held.
func (n *seqStep) unused() bool {
	last := n.dropped && n.jobs == 0 && !n.closed
	n.closed = n.closed || last
	return last
}

// prepare starts the work of a task that needs no logits.
func (n *seqStep) prepare(t *pickTask) {
	t.prep = prepRunning
	n.submit(func() (done bool) {
		if t.tryMask() {
			return n.finishPrep(t)
		}
		n.maskLater(t)
		return false
	})
}

// maskLater computes a task's mask that takes long. It may wait for a processor there, so
// it is not one of the pool's jobs, which are bounded in number.
func (n *seqStep) maskLater(t *pickTask) {
	n.mu.Lock()
	n.aside = true
	if t.prep == noPrep {
		t.prep = prepRunning
	}
	n.jobs++
	n.mu.Unlock()
	n.e.guests.wg.Go(func() {
		n.run(func() (done bool) {
			t.mask()
			n.submit(func() bool { return n.finishPrep(t) })
			return false
		})
	})
}

// mask computes a task's mask, however long that takes.
func (t *pickTask) mask() {
	t.err = catchPanic(func() error { t.chain.Mask(); return nil })
}

// finishPrep does what is left to prepare when a task's mask is known, and draws if its
// logits have arrived. It reports whether the step is done.
func (n *seqStep) finishPrep(t *pickTask) (done bool) {
	t.prepare()
	n.mu.Lock()
	ready := t.prep == prepThenDraw
	t.prep = prepDone
	n.mu.Unlock()
	return ready && n.draw(t)
}

// launch starts the pick of a task, whose logits have arrived.
func (n *seqStep) launch(t *pickTask) {
	n.mu.Lock()
	n.launched = time.Now()
	waits := t.prep == prepRunning
	if waits {
		t.prep = prepThenDraw
	}
	n.mu.Unlock()
	if !waits {
		n.submit(func() bool { return n.draw(t) })
	}
}

// askGuards starts the part of the guards, whose task has picked.
func (n *seqStep) askGuards(t *pickTask) {
	t.rows = t.rows[:0] // they are the step's
	n.launched = time.Now()
	n.jobs++
	if n.e.alone(n.q) {
		n.e.solo = n
		return
	}
	n.e.guests.enqueue(n.q.guests, n.judge)
}

// judge is the job of the guards.
func (n *seqStep) judge() {
	n.run(func() (done bool) {
		t := n.tasks[0]
		t.err = catchPanic(func() (err error) {
			if t.settles {
				_, err = t.settle()
			} else {
				_, err = t.guardPick(t.picks[0])
			}
			return err
		})
		return true
	})
}

// draw picks for a task. The last task of a search advances the search. It reports whether the step is done.
func (n *seqStep) draw(t *pickTask) (done bool) {
	t.draw()
	n.mu.Lock()
	n.left--
	last, dropped := n.left == 0, n.dropped
	n.mu.Unlock()
	if !last || dropped {
		return false
	}
	if n.q.search != nil {
		n.advance(sequential)
	}
	return true
}

// sequential calls f(0) … f(n-1) in order, as Engine.parallel does on several goroutines.
func sequential(n int, f func(int)) {
	for i := range n {
		f(i)
	}
}

// park marks the step as parked, unless it is done, and reports whether it did.
func (n *seqStep) park() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.parked = !n.done; n.parked && n.awaited {
		n.awaited = false
		n.e.awaiting.Add(-1)
	}
	return n.parked
}

// drop discards the outcome. The user code is closed as soon as none of it runs.
func (n *seqStep) drop() {
	n.mu.Lock()
	n.dropped = true
	unused := n.unused()
	n.mu.Unlock()
	if unused {
		n.q.close()
	}
}

// await counts the step in Engine.awaiting if it is not done but, by the sequence's mean latency, expected to be by the
// given time.
func (n *seqStep) await(by time.Time) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if !n.done && !n.launched.Add(n.q.latency).After(by) {
		n.awaited = true
		n.e.awaiting.Add(1)
	}
}

// collect takes a done step back from the workers and records its latency.
func (e *Engine) collect(n *seqStep) {
	q := n.q
	q.inFlight = nil
	n.mu.Lock()
	again := !n.parked && n.jobs == 0
	n.mu.Unlock()
	if !again { // a job may still look at it
		q.task, q.ownStep = nil, nil
	}
	q.latency = movingAverage(q.latency, n.took)
	for _, g := range q.guests {
		e.guestLatency[g] = movingAverage(e.guestLatency[g], n.took)
	}
	for _, t := range n.tasks {
		e.freeLogits = append(e.freeLogits, t.rows...)
		clear(t.rows)
		t.rows = t.rows[:0]
	}
}

// logitsBuffer returns a buffer for a row of logits, [Vocab].
func (e *Engine) logitsBuffer() []float32 {
	n := len(e.freeLogits)
	if n == 0 {
		return make([]float32, e.shape.Vocab)
	}
	b := e.freeLogits[n-1]
	e.freeLogits = e.freeLogits[:n-1]
	return b
}

// guestTimeout is how long the engine waits for user code while other rows could
// continue: Config.GuestWait, or else a quarter of a forward pass.
func (e *Engine) guestTimeout() time.Duration {
	if e.guestWait > 0 {
		return e.guestWait
	}
	return max(minGuestTimeout, min(e.meanForward, e.lastForward)/4)
}

// recordForward records the duration of a forward pass.
func (e *Engine) recordForward(d time.Duration) {
	e.lastForward, e.meanForward = d, movingAverage(e.meanForward, d)
}

// movingAverage returns the exponential moving average with weight 1/4 for d; an old
// value of 0 means that d is the first.
func movingAverage(old, d time.Duration) time.Duration {
	if old == 0 {
		return d
	}
	return old + (d-old)/4
}

// awaitGuests waits for the step's user code, at most for guestTimeout, and not for code
// that is expected to take longer.
func (e *Engine) awaitGuests(plan *sched.Plan, t timing) {
	if n := e.solo; n != nil {
		if e.solo = nil; e.askHere(n, plan, t) {
			return
		}
		e.guests.submit(n.q.guests, n.judge)
	}
	flying := 0
	for _, n := range e.seqSteps {
		if n.q.inFlight != nil {
			flying++
		}
	}
	if flying == 0 {
		return
	}
	e.demand.set(len(plan.Rows) - flying)
	until := time.Now().Add(e.guestTimeout())
	e.awaiting.Add(1) // so that nobody reaches 0 while they are counted
	for _, n := range e.seqSteps {
		if n.q.inFlight != nil {
			n.await(until)
		}
	}
	if e.awaiting.Add(-1) == 0 {
		return
	}
	for range yields {
		if runtime.Gosched(); e.awaiting.Load() == 0 {
			return
		}
	}
	e.guests.watch()
	timer := time.NewTimer(time.Until(until))
	defer timer.Stop()
	for e.awaiting.Load() > 0 {
		select {
		case <-e.wake:
		case <-timer.C:
			return
		}
	}
}

// resumeParked gives the scheduler the tokens of parked sequences whose steps are done.
func (e *Engine) resumeParked() {
	e.mu.Lock()
	list := e.finished
	e.finished = nil
	e.mu.Unlock()
	at := time.Now()
	for _, n := range list {
		if n.q.inFlight != n { // dropped meanwhile
			continue
		}
		e.collect(n)
		e.sched.Resolve(n.q.seq, e.applyPick(n, at))
		e.rewind(n)
	}
	e.emit()
}
