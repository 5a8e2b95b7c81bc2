package engine

import (
	"fmt"
	"io"
	"time"

	"tgi/runtime/llm"
	"tgi/runtime/sample"
	"tgi/runtime/sched"
)

// places returns how many sequences it counts as.
func (q *sequence) places() int { return max(q.params.NumBeams, 1) }

// enlist assigns the first of tasks to the beams, one each, and returns how many
// these are.
func (g *search) enlist(tasks []pickTask) int {
	for i, b := range g.beams {
		tasks[i].beam, tasks[i].rank = b, i
	}
	return len(g.beams)
}

// branch finds the tokens that may follow one beam.
func (t *pickTask) branch(e *Engine, h sample.History) error {
	list, top, err := t.beam.chain.Branches(h, t.logits, sample.Beam{Score: t.beam.score, Rank: t.rank, N: t.q.search.keep})
	t.branches, t.top = list, e.topTokens(top)
	return err
}

// turn takes a search one token further. It returns what the scheduler must know,
// and leaves in the first task what the reader gets when the search ended.
func (e *Engine) turn(tasks []pickTask, at time.Time) (r sched.Result) {
	q := tasks[0].q
	g := q.search
	var err error
	for i := range tasks {
		if err == nil {
			err = tasks[i].err
		}
	}
	for i := range tasks[1:] {
		tasks[1+i].q = nil // the first stands for all
	}
	var next []choice
	if err == nil {
		g.rank(tasks)
		next = g.choose(func(c choice) bool { return e.concludes(q, c) })
		err = e.grow(g, next)
	}
	if err == nil && len(next) > 0 {
		for _, c := range next {
			r.Beams = append(r.Beams, sched.Branch{From: c.from, Token: c.branch.Token})
		}
		tasks[0].q = nil
		return r
	}
	delete(e.lives, q.seq)
	tasks[0].last = e.outcome(q, err, at)
	return sched.Result{}
}

// concludes reports whether a choice ends its sequence by its token or its text.
func (e *Engine) concludes(q *sequence, c choice) bool {
	tok := c.branch.Token
	if c.branch.Stop || e.eos[tok] && !q.params.IgnoreEOS {
		return true
	}
	if len(q.params.Stop) == 0 {
		return false
	}
	// A detokenizer cannot be forked, so the text is made again from its start.
	text := newTranscript(e.codec, q.seq.Prompt(), q.params.Stop)
	for _, l := range c.path.picks() {
		if _, stop, _ := text.add(l.pick.Token, e.codec.Special(l.pick.Token)); stop != "" {
			return true
		}
	}
	return false
}

// grow makes the chosen branches the beams of the search: the first that continues
// a beam takes over its chain, the others get forks of it, and chains that nobody
// continues are closed.
func (e *Engine) grow(g *search, next []choice) error {
	old := g.beams
	g.beams = make([]*beam, len(next))
	children := make([][]int, len(old))
	for i, c := range next {
		g.beams[i] = &beam{path: c.path, score: c.branch.Score}
		children[c.from] = append(children[c.from], i)
	}
	errs := make([]error, len(old))
	e.parallel(len(old), func(i int) {
		if len(children[i]) == 0 {
			closeOnce(&old[i].done)
			return
		}
		errs[i] = guard(func() error { return g.inherit(old[i], children[i]) })
		if g.beams[children[i][0]].done == nil { // it did not come to hand them over
			closeOnce(&old[i].done)
		}
	})()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// inherit gives the chain of a beam and forks of it to the beams that continue it.
func (g *search) inherit(from *beam, children []int) (err error) {
	first := g.beams[children[0]]
	for _, i := range children[1:] {
		b := g.beams[i]
		if b.chain, b.done, err = from.chain.Fork(); err != nil {
			return err
		}
	}
	first.chain, first.done, from.done = from.chain, from.done, nil
	for _, i := range children {
		if err := g.beams[i].chain.Follow(g.beams[i].path.pick.Token); err != nil {
			return err
		}
	}
	return nil
}

// outcome returns what the reader of a search gets at its end: the events of the
// best sequences, one after the other, or an error for each.
func (e *Engine) outcome(q *sequence, err error, at time.Time) (out []item) {
	g := q.search
	if err == nil && len(g.found) == 0 {
		err = fmt.Errorf("%w: %w: masks and processors forbid every token behind all beams", llm.ErrPlugin, sample.ErrNoToken)
	}
	for i := range max(g.params.NumReturn, 1) {
		err := err
		if err == nil && i >= len(g.found) {
			err = fmt.Errorf("%w: %w: masks and processors leave %d sequences, %d are to be returned",
				llm.ErrPlugin, sample.ErrNoToken, len(g.found), g.params.NumReturn)
		}
		if err != nil {
			out = append(out, item{event: Event{Index: i}, err: err})
			continue
		}
		w := &sequence{stream: q.stream, index: i, params: q.params, seq: q.seq,
			text: newTranscript(e.codec, q.seq.Prompt(), q.params.Stop)}
		for _, l := range g.found[i].path.picks() {
			ev := w.accept(e, l.pick, at)
			ev.Top = l.top
			if ev.Finish != nil {
				ev.Finish.Score = float32(g.found[i].score)
			}
			out = append(out, item{event: ev})
		}
	}
	return out
}

// emitSearch hands a search that ended to its reader.
func (e *Engine) emitSearch(t *pickTask) {
	if t.err != nil && t.last == nil { // the forward pass failed
		t.last = e.outcome(t.q, t.err, time.Now())
	}
	t.q.release()
	for _, it := range t.last {
		t.q.stream.push(it)
	}
	e.end(t.q.stream, t.q.places(), io.EOF)
}
