package engine

import (
	"runtime"
	"time"

	"tgi/runtime/sched"
)

// Where one sequence is all that an engine has, nobody else waits while its guards are asked: then the step goroutine
// asks them itself, which wakes no other. Whoever wants something of the engine meanwhile (signal) gives the guards
// what is left of the usual time. If they are not done by then, another goroutine takes the step over where it is, and
// is the step goroutine from then on; the one before ends as a worker does, when its job has ended.

// handover is a step whose guards are asked on the step goroutine.
type handover struct {
	plan  *sched.Plan
	t     timing
	until time.Time   // how long others wait
	timer *time.Timer // of takeOver; nil while nobody else wants anything
}

// alone reports whether the engine has nothing but the sequence, whose guards are not known to be slow.
func (e *Engine) alone(q *sequence) bool {
	return e.looping && len(e.active) == 1 && len(e.seqSteps) == 1 && e.disk.slots() == 0 &&
		q.latency <= e.guestTimeout()
}

// askHere asks the guards of a sequence that is alone, unless other user code runs still, of sequences that are over.
// It does not return if another goroutine took the step over.
func (e *Engine) askHere(n *seqStep, plan *sched.Plan, t timing) (asked bool) {
	j := e.guests.begin(n.q.guests)
	if j == nil {
		return false
	}
	e.demand.set(0)
	h := &handover{plan: plan, t: t, until: n.launched.Add(e.guestTimeout())}
	e.mu.Lock()
	e.handover = h
	if e.closed != nil || len(e.inbox)+len(e.orders)+len(e.cancels)+len(e.finished) > 0 {
		e.hurry()
	}
	e.mu.Unlock()
	n.judge()
	e.mu.Lock()
	mine := e.handover == h
	if mine {
		e.handover = nil
	}
	e.mu.Unlock()
	e.guests.end(j)
	if !mine {
		runtime.Goexit()
	}
	if h.timer != nil {
		h.timer.Stop()
	}
	return true
}

// hurry bounds the time of the guards that are asked on the step goroutine, if any are. e.mu is held.
func (e *Engine) hurry() {
	if h := e.handover; h != nil && h.timer == nil {
		h.timer = time.AfterFunc(time.Until(h.until), func() { e.takeOver(h) })
	}
}

// takeOver goes on with a step without its guards, and then with the next ones, unless the guards are done.
func (e *Engine) takeOver(h *handover) {
	e.mu.Lock()
	late := e.handover == h
	if late {
		e.handover = nil
	}
	e.mu.Unlock()
	if late {
		e.endStep(h.plan, h.t)
		e.loop()
	}
}
