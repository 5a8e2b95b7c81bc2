package engine

import (
	"sync"
	"time"

	"tgi/runtime/sched"
)

// The sequences whose chains have guests may be late: the engine waits for their picks
// only so long. Who is not done then is parked, the others go on, and it joins the step
// after the one in which it is done. The work of a sequence in a step is a turn. It
// runs on the workers of the guestPool and touches nothing of the engine's goroutine:
// its logits are a copy, and of a parked sequence's tokens none changes.

// minPatience is the least that "as long as a quarter of a forward pass" means.
const minPatience = time.Millisecond

// flight is the state of a turn whose user code runs beside the engine.
type flight struct {
	// launched is when the logits were there.
	launched time.Time

	mu      sync.Mutex
	jobs    int           // that were submitted and did not end
	left    int           // tasks that have not picked
	took    time.Duration // from launched to done
	done    bool          // nothing is left to do
	parked  bool          // the engine went on without it: it wants to hear of the end
	dropped bool          // nobody wants the outcome
	closed  bool          // the user code of a dropped one was closed
}

// early is where a task's preparations are.
type early uint8

const (
	notEarly  early = iota // there are none, or they are not to be waited for
	preparing              // they were submitted
	armed                  // and so were the logits meanwhile
	prepared
)

// submit has f run on a worker, if the turn is still wanted by then.
func (n *turn) submit(f func()) {
	n.mu.Lock()
	n.jobs++
	n.mu.Unlock()
	n.e.guests.submit(n.q.guests, func() {
		n.mu.Lock()
		dropped := n.dropped
		n.mu.Unlock()
		if !dropped {
			f()
		}
		n.mu.Lock()
		n.jobs--
		n.mu.Unlock()
		n.free()
	})
}

// prepare starts what a task can do without logits.
func (n *turn) prepare(t *pickTask) {
	t.early = preparing
	n.submit(func() {
		t.prepare()
		n.mu.Lock()
		ready := t.early == armed
		t.early = prepared
		n.mu.Unlock()
		if ready {
			n.draw(t)
		}
	})
}

// launch has a task pick, which has its logits now.
func (n *turn) launch(t *pickTask) {
	n.mu.Lock()
	n.launched = time.Now()
	waits := t.early == preparing
	if waits {
		t.early = armed
	}
	n.mu.Unlock()
	if !waits {
		n.submit(func() { n.draw(t) })
	}
}

// draw picks for a task. The last of a search takes the search a token further.
func (n *turn) draw(t *pickTask) {
	t.draw()
	n.mu.Lock()
	n.left--
	last, dropped := n.left == 0, n.dropped
	n.mu.Unlock()
	if !last || dropped {
		return
	}
	if n.q.search != nil {
		n.advance(oneByOne)
	}
	n.finish()
}

// oneByOne is how a worker runs what the engine runs on several.
func oneByOne(n int, f func(int)) {
	for i := range n {
		f(i)
	}
}

// finish says that the turn is over.
func (n *turn) finish() {
	n.mu.Lock()
	n.done, n.took = true, time.Since(n.launched)
	parked := n.parked
	n.mu.Unlock()
	if parked {
		n.e.mu.Lock()
		n.e.finished = append(n.e.finished, n)
		n.e.mu.Unlock()
	}
	n.e.poke()
}

// park has the engine go on without the turn unless it is done.
func (n *turn) park() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.parked = !n.done
	return n.parked
}

// drop says that nobody wants the outcome any more. The user code is closed when
// nothing of it runs.
func (n *turn) drop() {
	n.mu.Lock()
	n.dropped = true
	n.mu.Unlock()
	n.free()
}

// free closes the user code of a turn that was dropped and has ended.
func (n *turn) free() {
	n.mu.Lock()
	last := n.dropped && n.jobs == 0 && !n.closed
	n.closed = n.closed || last
	n.mu.Unlock()
	if last {
		n.q.close()
	}
}

// due reports whether the turn is expected to be done by the given time, by what the
// sequence's turns took of late, and is not yet.
func (n *turn) due(by time.Time) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return !n.done && !n.launched.Add(n.q.pace).After(by)
}

// settle takes a turn that is done back into the hands of the engine.
func (e *Engine) settle(n *turn) {
	q := n.q
	q.turn = nil
	q.pace = mean(q.pace, n.took)
	for _, g := range q.guests {
		e.paces[g] = mean(e.paces[g], n.took)
	}
	for _, t := range n.tasks {
		e.spare = append(e.spare, t.logits)
		t.logits = nil
	}
}

// buffer returns memory for a row of logits.
func (e *Engine) buffer() []float32 {
	n := len(e.spare)
	if n == 0 {
		return make([]float32, e.shape.Vocab)
	}
	b := e.spare[n-1]
	e.spare = e.spare[:n-1]
	return b
}

// patience is how long the engine waits for user code when other rows could go on: what
// the settings say, else a quarter of what a forward pass takes.
func (e *Engine) patience() time.Duration {
	if e.wait > 0 {
		return e.wait
	}
	return max(minPatience, min(e.pass, e.lastPass)/4)
}

// timed takes the duration of a forward pass into account.
func (e *Engine) timed(d time.Duration) {
	e.lastPass, e.pass = d, mean(e.pass, d)
}

// mean returns a mean of durations that forgets the old ones; 0 is none yet.
func mean(old, d time.Duration) time.Duration {
	if old == 0 {
		return d
	}
	return old + (d-old)/4
}

// await waits for the step's user code while the engine has patience, and not for what
// is expected to take longer.
func (e *Engine) await(plan *sched.Plan) {
	flying := 0
	for _, n := range e.turns {
		if n.q.turn != nil {
			flying++
		}
	}
	if flying == 0 {
		return
	}
	e.demand.set(len(plan.Rows) - flying)
	until := time.Now().Add(e.patience())
	var timer *time.Timer
	for _, n := range e.turns {
		for n.q.turn != nil && n.due(until) {
			if timer == nil {
				timer = time.NewTimer(time.Until(until))
				defer timer.Stop()
			}
			select {
			case <-e.wake:
			case <-timer.C:
				return
			}
		}
	}
}

// resolve has parked sequences whose turns are done go on.
func (e *Engine) resolve() {
	e.mu.Lock()
	list := e.finished
	e.finished = nil
	e.mu.Unlock()
	at := time.Now()
	for _, n := range list {
		if n.q.turn != n { // it was dropped since
			continue
		}
		e.settle(n)
		e.sched.Resolve(n.q.seq, e.conclude(n, at))
	}
	e.emit()
}
