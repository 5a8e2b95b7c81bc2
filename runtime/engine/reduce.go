package engine

import (
	"fmt"
	"sync/atomic"

	"tgi/runtime/llm"
	"tgi/runtime/sched"
)

// Reducer is a Model whose logits lie where a row is expensive to read, as on a device. The engine then asks for what
// each pick needs (llm.Reduction), and for whole rows only where a plugin, a beam search, log-probabilities of a prompt
// or the settings of a request need them, or where what was reduced does not decide. The tokens are the same as those
// of a Model, as package sample says.
type Reducer interface {
	Model
	// Compute is Forward without the logits, which stay where they are until the next Compute. It may return before the
	// step is computed; Fetch then returns the step's error.
	Compute(s *llm.Step) error
	// Fetch waits for the step of the last Compute and returns the logits of the rows with the given indices among its
	// LogitRows, in their order, [len(rows)*Vocab], and the answers to list, in its order. Both may be empty. The
	// results are valid until the next Fetch or Compute, and the logits may be overwritten, which does not change those
	// of the step. It is called at least once after each Compute that succeeded, and once more if what was reduced does
	// not decide every pick.
	Fetch(rows []int, list []llm.Reduction) (logits []float32, answers []llm.Reduced, err error)
}

// WholeRows counts the rows of logits that a Reducer handed out whole, by why: for the first pick that needed the row.
type WholeRows struct {
	// Prompt is log-probabilities of a prompt or what a program looks at, Beams a beam search, Plugin user code that
	// edits or chooses from rows, LateMask a grammar's mask that was not known in time, Watermark a watermark, Settings
	// others that look at all of a row, such as typical_p, and Undecided a pick that the candidates did not decide.
	Prompt, Beams, Plugin, LateMask, Watermark, Settings, Undecided int64
}

// WholeRows returns what was counted since the engine started. It may be called from any goroutine.
func (e *Engine) WholeRows() WholeRows {
	n := func(w wholeReason) int64 { return e.reduce.counts[w].Load() }
	return WholeRows{Prompt: n(wholePrompt), Beams: n(wholeBeams), Plugin: n(wholePlugin), LateMask: n(wholeLateMask),
		Watermark: n(wholeWatermark), Settings: n(wholeSettings), Undecided: n(wholeUndecided)}
}

// wholeReason is why a row is fetched whole; see WholeRows.
type wholeReason int

const (
	wholePrompt wholeReason = iota
	wholeBeams
	wholePlugin
	wholeLateMask
	wholeWatermark
	wholeSettings
	wholeUndecided
	wholeReasons
)

// whole returns why the task needs its row.
func (t *pickTask) whole(q *sequence) wholeReason {
	switch {
	case q.probe != nil:
		return wholePrompt
	case q.search != nil:
		return wholeBeams
	case q.inFlight != nil && len(q.guests) == 0:
		return wholeLateMask
	case q.inFlight != nil || t.chain.EditedByPlugins():
		return wholePlugin
	case t.chain.Watermarks():
		return wholeWatermark
	}
	return wholeSettings
}

// fetched is what the engine has of a step's logits.
type fetched struct {
	vocab   int
	logits  []float32
	places  []int         // of each logit row in logits, -1 for none; nil if all are there
	reduced []llm.Reduced // for the tasks that asked, in their order
}

// at returns the place of a logit row in logits, or -1.
func (f *fetched) at(row int) int {
	if f.places == nil {
		return row
	}
	return f.places[row]
}

// row returns a logit row, nil if it was not needed.
func (f *fetched) row(row int) []float32 {
	at := f.at(row)
	if at < 0 {
		return nil
	}
	return f.logits[at*f.vocab : (at+1)*f.vocab : (at+1)*f.vocab]
}

// reduceMemory is used by each step again.
type reduceMemory struct {
	tasks  []*pickTask // that may ask
	places []int
	rows   []int
	list   []llm.Reduction
	counts [wholeReasons]atomic.Int64 // of rows
}

// compute is the part of forward for a Reducer. wait returns when all masks are known, but for those of sequences that
// are in flight.
func (e *Engine) compute(plan *sched.Plan, wait func()) (fetched, error) {
	if err := e.reducer.Compute(&plan.Step); err != nil {
		return fetched{}, fmt.Errorf("%w: %w", llm.ErrBackend, err)
	}
	wait()
	m := &e.reduce
	e.ask(plan)
	m.places, m.rows, m.list = m.places[:0], m.rows[:0], m.list[:0]
	for range plan.Step.LogitRows {
		m.places = append(m.places, -1)
	}
	for i := range plan.Rows {
		for j := range plan.Rows[i].Scores {
			m.need(plan.Rows[i].Logit+j, wholePrompt)
		}
	}
	e.eachTask(plan, func(n *seqStep, t *pickTask, row, _ int) {
		switch {
		case n.q.inFlight != nil: // others may write to the task
			m.need(row, t.whole(n.q))
		case len(t.asked) > 0:
			for _, q := range t.asked {
				q.Row = row
				m.list = append(m.list, q)
			}
		case t.err == nil:
			m.need(row, t.whole(n.q))
		}
	})
	logits, reduced, err := e.fetch(m.rows, m.list)
	return fetched{vocab: e.shape.Vocab, logits: logits, places: m.places, reduced: reduced}, err
}

// need adds a logit row to those that are fetched.
func (m *reduceMemory) need(row int, why wholeReason) {
	if m.places[row] < 0 {
		m.places[row] = len(m.rows)
		m.rows = append(m.rows, row)
		m.counts[why].Add(1)
	}
}

// ask has the tasks whose picks need no whole row say what they need.
func (e *Engine) ask(plan *sched.Plan) {
	m := &e.reduce
	m.tasks = m.tasks[:0]
	e.eachTask(plan, func(n *seqStep, t *pickTask, _, _ int) {
		if n.q.inFlight == nil && n.q.search == nil && n.q.probe == nil && n.q.mix == nil && t.err == nil {
			m.tasks = append(m.tasks, t)
		}
	})
	e.parallel(len(m.tasks), func(i int) {
		t := m.tasks[i]
		t.prepare() // does nothing if it was done
		if t.err == nil {
			t.err = catchPanic(func() error {
				t.asked, _ = t.chain.Reductions(t.history, 0, t.asked)
				return nil
			})
		}
	})()
	clear(m.tasks)
}

// fetch is Reducer.Fetch, which it holds to its contract.
func (e *Engine) fetch(rows []int, list []llm.Reduction) (logits []float32, reduced []llm.Reduced, err error) {
	logits, reduced, err = e.reducer.Fetch(rows, list)
	if err == nil && (len(logits) != len(rows)*e.shape.Vocab || len(reduced) != len(list)) {
		err = fmt.Errorf("%d logits for %d rows of %d, and %d answers to %d questions", len(logits), len(rows),
			e.shape.Vocab, len(reduced), len(list))
	}
	for i := range reduced {
		if r := &reduced[i]; err == nil && (r.Count < 0 || len(r.Candidates) != min(r.Count, llm.MaxCandidates)) {
			err = fmt.Errorf("%d candidates of %d tokens", len(r.Candidates), r.Count)
		}
	}
	if err != nil {
		return nil, nil, fmt.Errorf("%w: %w", llm.ErrBackend, err)
	}
	return logits, reduced, nil
}

// pickFromRows picks for the tasks that what was reduced left undecided.
func (e *Engine) pickFromRows(plan *sched.Plan) (err error) {
	m := &e.reduce
	m.tasks, m.rows = m.tasks[:0], m.rows[:0]
	e.eachTask(plan, func(n *seqStep, t *pickTask, row, _ int) {
		if n.q.inFlight == nil && t.more {
			m.tasks, m.rows = append(m.tasks, t), append(m.rows, row)
		}
	})
	if len(m.tasks) == 0 {
		return nil
	}
	m.counts[wholeUndecided].Add(int64(len(m.rows)))
	var logits []float32
	err = e.guard(func() error { logits, _, err = e.fetch(m.rows, nil); return err })
	if err != nil {
		return err
	}
	e.parallel(len(m.tasks), func(i int) {
		t := m.tasks[i]
		t.asked, t.more = t.asked[:0], false
		t.rows = append(t.rows[:0], logits[i*e.shape.Vocab:(i+1)*e.shape.Vocab])
		e.drawNow(t)
	})()
	clear(m.tasks)
	return nil
}

// guard calls f, which calls the model, and records whether the model works.
func (e *Engine) guard(f func() error) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("%w: panic: %v", llm.ErrBackend, r)
		}
		e.mu.Lock()
		e.health = err
		e.mu.Unlock()
	}()
	return f()
}
