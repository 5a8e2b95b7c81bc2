package engine

import (
	"fmt"
	"sync"
	"sync/atomic"

	"tgi/runtime/llm"
	"tgi/runtime/sample"
	"tgi/runtime/sched"
)

// pickTask is one sequence, or one beam of a search, that picks in this step.
type pickTask struct {
	q      *sequence
	seq    *sched.Seq
	logits []float32
	pick   sample.Pick
	err    error // ends the sequence
	event  Event

	beam     *beam // nil without a search
	rank     int   // of the beam
	branches []sample.Branch
	top      []TopToken
	last     []item // what the reader of a search that ended gets
}

func (t *pickTask) chain() *sample.Chain {
	if t.beam != nil {
		return t.beam.chain
	}
	return t.q.chain
}

// prepare starts what the step's sequences can do before their logits are known
// and returns a function that waits for it.
func (e *Engine) prepare() (wait func()) {
	var early []*pickTask
	for i := range e.samples {
		if e.samples[i].chain().Prepares() {
			early = append(early, &e.samples[i])
		}
	}
	return e.parallel(len(early), func(i int) {
		t := early[i]
		t.err = guard(func() error { return t.chain().Prepare(t.history()) })
	})
}

// pick draws the tokens of the plan's samples and rates its prompt positions.
func (e *Engine) pick(plan *sched.Plan, logits []float32) {
	v := e.shape.Vocab
	e.scores = e.scores[:0]
	e.forks = e.forks[:0]
	k := 0
	for i := range plan.Rows {
		r := &plan.Rows[i]
		if r.Scores > 0 {
			e.scores = append(e.scores, r)
		}
		at := (r.Logit + r.Scores) * v
		for j := range r.Samples {
			// A pick overwrites its logits: all but the first get a copy.
			if j == 0 {
				e.samples[k].logits = logits[at : at+v : at+v]
			} else {
				n := len(e.forks)
				e.forks = append(e.forks, logits[at:at+v]...)
				e.samples[k].logits = e.forks[n:]
			}
			k++
		}
	}
	n := len(e.scores)
	run := func(i int) {
		if i < n {
			r := e.scores[i]
			e.rate(e.lives[r.Seq.Handle()], r, logits[r.Logit*v:])
			return
		}
		e.samples[i-n].draw(e)
	}
	if total := n + len(e.samples); total == 1 { // the usual single stream pays for no goroutine
		run(0)
	} else {
		e.parallel(total, run)()
	}
}

// draw picks the token of one sequence, or finds those of one beam.
func (t *pickTask) draw(e *Engine) {
	if t.err != nil { // its preparations failed
		return
	}
	h := t.history()
	if t.beam != nil {
		t.err = guard(func() error { return t.branch(e, h) })
		return
	}
	t.err = guard(func() (err error) {
		t.pick, err = t.q.chain.Pick(h, t.logits)
		return err
	})
}

func (t *pickTask) history() sample.History {
	return sample.History{Prompt: t.seq.Prompt(), Output: t.seq.Output()}
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
