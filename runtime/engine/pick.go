package engine

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"tgi/runtime/llm"
	"tgi/runtime/sample"
	"tgi/runtime/sched"
)

// seqStep is the work of one sequence in one step: its pick or, with a search, the picks
// of all its beams.
type seqStep struct {
	e     *Engine
	q     *sequence
	tasks []*pickTask // one, or one for each beam of a search in their order
	// The outcome: events, of which an error that ends the sequence may come last; a search's next beams; and, if the
	// search has ended, the items for the reader.
	events []Event
	err    error
	next   []candidate
	last   []item

	asyncState // where it is in flight
}

// pickTask is the pick of one sequence, or of one beam of a search.
type pickTask struct {
	chain   *sample.Chain
	history sample.History
	rows    [][]float32     // of logits: that of the last token, and those of the drafts behind it, or of the twins
	asked   []llm.Reduction // instead of rows; empty if those are needed
	reduced []llm.Reduced   // the answers
	more    bool            // they do not decide
	err     error           // of the pick behind those in picks
	prep    prepState
	apart   bool // the guards are asked behind the step's picks, by workers of the guestPool
	asks    bool // they are to be asked
	settles bool // about what is held, behind no pick

	// Without a search: the sequence, its drafts, its output with all of these behind it, and what was picked. All
	// picks but the last equal the drafts.
	q       *sequence
	drafts  []llm.Token
	drafted []llm.Token
	picks   []picked
	out     []llm.Token // their tokens
	cut     int         // how many tokens of the output a guard left; -1 for all

	e        *Engine
	search   *search // nil without one
	beam     *beam
	rank     int // of the beam
	branches []sample.Branch
	top      []TopToken
}

// begin creates the steps of the plan's samples.
func (e *Engine) begin(plan *sched.Plan) {
	e.seqSteps = e.seqSteps[:0]
	for i := range plan.Rows {
		r := &plan.Rows[i]
		for _, s := range r.Samples {
			q := e.active[s.Handle()]
			switch {
			case q.seq.Rows() != nil && q.seq.Rows()[0] != s: // once for all rows of the group
			case q.search != nil:
				e.seqSteps = append(e.seqSteps, q.beginSearch(e))
			default:
				e.seqSteps = append(e.seqSteps, q.begin(e, s, r.Drafts))
			}
		}
	}
}

// begin returns the step of a sequence. It reuses the memory of the last, unless that was parked.
func (q *sequence) begin(e *Engine, s *sched.Seq, drafts []llm.Token) *seqStep {
	if q.ownStep == nil {
		q.task, q.ownStep = new(pickTask), new(seqStep)
	}
	t, n := q.task, q.ownStep
	*t = pickTask{chain: q.chain, history: historyOf(s), asked: t.asked[:0], rows: t.rows[:0], e: e, q: q,
		drafts: drafts, drafted: s.Drafted(len(drafts)), picks: t.picks[:0], out: t.out, cut: -1,
		apart: q.onlyGuards && len(drafts) == 0}
	if q.guards != nil {
		q.guards.given = q.guards.given[:0]
	}
	*n = seqStep{e: e, q: q, tasks: append(n.tasks[:0], t), events: n.events[:0]}
	n.left = 1
	if len(q.guests) > 0 && !t.apart {
		q.inFlight = n
	}
	return n
}

// beginSearch returns the step of a search.
func (q *sequence) beginSearch(e *Engine) *seqStep {
	n := &seqStep{e: e, q: q}
	for i, b := range q.search.beams {
		n.tasks = append(n.tasks, &pickTask{chain: b.chain, history: historyOf(q.seq.Rows()[i]), e: e, search: q.search,
			beam: b, rank: i})
	}
	if n.left = len(n.tasks); len(q.guests) > 0 {
		q.inFlight = n
	}
	return n
}

// historyOf returns a view of a sequence's tokens, valid until the scheduler gets the
// next one.
func historyOf(q *sched.Seq) sample.History {
	return sample.History{Prompt: q.Prompt(), Output: q.Output()}
}

// prepare starts the work that needs no logits. It returns a function that waits for the
// sequences without guests, but not for masks that take long: their sequences are in flight
// from then on.
func (e *Engine) prepare() (wait func()) {
	type own struct {
		n *seqStep
		t *pickTask
	}
	var early []own
	for _, n := range e.seqSteps {
		for _, t := range n.tasks {
			switch {
			case n.q.probe != nil || !t.chain.Prepares():
			case n.q.inFlight != nil:
				n.prepare(t)
			default:
				early = append(early, own{n, t})
			}
		}
	}
	masked := e.parallel(len(early), func(i int) {
		if n, t := early[i].n, early[i].t; t.tryMask() {
			t.prepare()
		} else {
			n.maskLater(t)
		}
	})
	return func() {
		masked()
		for _, x := range early {
			if x.n.aside {
				x.n.q.inFlight = x.n
			}
		}
	}
}

// tryMask computes a task's mask, and returns false if that takes long.
func (t *pickTask) tryMask() (done bool) {
	t.err = catchPanic(func() error { done = t.chain.TryMask(); return nil })
	return done || t.err != nil
}

// prepare does the work of a task that needs no logits.
func (t *pickTask) prepare() {
	if t.err == nil {
		t.err = catchPanic(func() error { return t.chain.Prepare(t.history) })
	}
}

// pick passes the logits on to the sequences with guests, picks the tokens of the others
// and scores the plan's prompt positions. Errors are the model's.
func (e *Engine) pick(plan *sched.Plan, got fetched) error {
	defer e.guests.serve() // of what drawNow left to it
	e.picks, e.scores, e.forkedLogits = e.picks[:0], e.scores[:0], e.forkedLogits[:0]
	for i := range plan.Rows {
		if r := &plan.Rows[i]; r.Scores > 0 {
			e.scores = append(e.scores, r)
		}
	}
	e.eachTask(plan, func(n *seqStep, t *pickTask, row, sample int) {
		if n.q.inFlight == nil && len(t.asked) > 0 {
			t.reduced, got.reduced = got.reduced[:len(t.asked)], got.reduced[len(t.asked):]
			e.picks = append(e.picks, t)
			return
		}
		for i := range 1 + len(t.drafts) {
			e.assign(n, t, got.row(row+i), sample > 0)
		}
		switch {
		case len(t.rows) < n.q.mix.rows(): // more rows of the same task come
		case n.q.inFlight != nil:
			n.launch(t)
		default:
			e.picks = append(e.picks, t)
		}
	})
	n := len(e.scores)
	run := func(i int) {
		if i < n {
			r := e.scores[i]
			e.scorePrompt(e.active[r.Seq.Handle()], r, got.logits[got.at(r.Logit)*e.shape.Vocab:])
			return
		}
		e.drawNow(e.picks[i-n])
	}
	if total := n + len(e.picks); total == 1 { // a single stream needs no goroutine
		run(0)
	} else {
		e.pickAndAsk(total, run)
	}
	if err := e.pickFromRows(plan); err != nil {
		return err
	}
	for _, n := range e.seqSteps {
		if n.q.inFlight == nil && n.q.search != nil {
			n.advance(func(n int, f func(int)) { e.parallel(n, f)() })
		}
	}
	return nil
}

// pickAndAsk calls f(0) … f(n-1) as parallel does, and waits for them. The goroutines then ask guards, as workers of
// the guestPool: no others have to be woken for that.
func (e *Engine) pickAndAsk(n int, f func(int)) {
	var next atomic.Int64
	var picks sync.WaitGroup
	picks.Add(n)
	for range min(n, e.workers) {
		e.guests.wg.Go(func() {
			for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
				f(i)
				picks.Done()
			}
			e.guests.help()
		})
	}
	picks.Wait()
}

// eachTask calls f with the tasks of the plan's samples in their order, with the index of their row of logits and of
// their sample in the row.
func (e *Engine) eachTask(plan *sched.Plan, f func(n *seqStep, t *pickTask, row, sample int)) {
	k, b := 0, 0 // the seqStep and its task that come next
	for i := range plan.Rows {
		r := &plan.Rows[i]
		for j := range r.Samples {
			n := e.seqSteps[k]
			f(n, n.tasks[min(b, len(n.tasks)-1)], r.Logit+r.Scores, j)
			if b++; b == n.samples() {
				k, b = k+1, 0
			}
		}
	}
}

// assign gives a task a row of logits. fork says that other tasks pick from the same row, so this one gets a copy: a
// pick overwrites its logits. So does one in flight, which may pick after the step.
func (e *Engine) assign(n *seqStep, t *pickTask, row []float32, fork bool) {
	switch {
	case n.q.inFlight != nil:
		own := e.logitsBuffer()
		copy(own, row)
		row = own
	case fork:
		at := len(e.forkedLogits)
		e.forkedLogits = append(e.forkedLogits, row...)
		row = e.forkedLogits[at:]
	}
	t.rows = append(t.rows, row)
}

// drawNow picks within the step. From then on the sequence is in flight if guests are asked about the pick.
func (e *Engine) drawNow(t *pickTask) {
	if t.draw(); t.asks {
		t.q.inFlight = t.q.ownStep
		t.q.inFlight.askGuards(t)
	}
}

// draw picks the tokens of one sequence, or computes the branches of one beam.
func (t *pickTask) draw() {
	if t.err != nil { // prepare failed
		return
	}
	if t.q != nil && t.q.probe != nil {
		t.q.probe.read(t.rows[0])
		return
	}
	t.err = catchPanic(func() error {
		if t.beam != nil {
			return t.branch(t.e)
		}
		if len(t.asked) > 0 {
			p, decided, err := t.chain.PickReduced(t.history, t.reduced)
			if t.more = !decided; decided && err == nil {
				_, err = t.add(p)
			}
			return err
		}
		return t.pickAll()
	})
}

// pickAll picks from the row of the last token, and from that of each draft as long as the pick before it was that
// draft: so a chain sees what it would see without drafts, one position after the other. A mask behind the first that
// takes long is left to a later step.
func (t *pickTask) pickAll() error {
	if t.q.mix != nil {
		t.q.mix.how.Combine(t.rows)
	}
	for i, row := range t.rows[:1+len(t.drafts)] {
		if i > 0 {
			at := len(t.drafted) - len(t.drafts) + i
			t.history.Output = t.drafted[:at:at]
			if !t.chain.TryMask() {
				return nil
			}
		}
		p, err := t.chain.Pick(t.history, row)
		if err != nil && t.q.guards != nil {
			return t.fail(err)
		}
		if t.q.span != nil && errors.Is(err, sample.ErrBanned) {
			t.q.denied = true
			return nil
		}
		if err != nil {
			return err
		}
		if t.q.guards != nil {
			t.q.guards.lift(t.chain.Lifted())
		}
		if over, err := t.add(p); over || err != nil || i < len(t.drafts) && p.Token != t.drafts[i] {
			return err
		}
	}
	return nil
}

// add adds a pick to the sequence's text, and reports whether the step ends with it.
func (t *pickTask) add(p sample.Pick) (over bool, err error) {
	if p.Explained != nil {
		t.explain(p.Explained, p.Token)
	}
	x := t.q.take(t.e, p)
	t.picks = append(t.picks, x)
	if t.apart && t.q.guards.asksBehind(x) {
		t.asks = true
		return true, nil
	}
	if t.q.guards != nil {
		return t.guardPick(x)
	}
	return x.fin.Reason != llm.FinishNone, nil
}

// scorePrompt sets the log-probabilities of the prompt tokens of q that follow the row's
// scored positions, and the likeliest tokens at these positions.
func (e *Engine) scorePrompt(q *sequence, r *sched.Row, logits []float32) {
	v := e.shape.Vocab
	if p := q.probe; p != nil {
		for j := range r.Scores {
			i := r.FirstScore + j + 1
			p.logprobs[i-p.from] = sample.PromptLogprob(logits[j*v:(j+1)*v], r.Seq.Prompt()[i])
		}
		return
	}
	for j := range r.Scores {
		next := &q.stream.prefill[r.FirstScore+j+1]
		at := logits[j*v : (j+1)*v]
		if n := q.params.PromptTopN; n > 0 {
			var top []sample.Candidate
			next.Logprob, top = sample.PromptTop(at, next.Token, n)
			next.Top = e.topTokens(top, "")
		} else {
			next.Logprob = sample.PromptLogprob(at, next.Token)
		}
	}
}

// catchPanic calls f, which may run user code, and returns a panic as an error that
// wraps llm.ErrPlugin.
func catchPanic(f func() error) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("%w: panic: %v", llm.ErrPlugin, r)
		}
	}()
	return f()
}

// parallel starts f(0) … f(n-1) on at most e.workers goroutines and returns a function
// that waits for them.
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
