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

// branch finds the tokens that may follow one beam.
func (t *pickTask) branch(e *Engine) error {
	list, top, err := t.chain.Branches(t.history, t.logits, sample.Beam{Score: t.beam.score, Rank: t.rank, N: t.search.keep})
	t.branches, t.top = list, e.topTokens(top)
	return err
}

// advance takes a search one token further: n.next is how it goes on, nothing when it
// is over. each runs what the beams do to grow.
func (n *turn) advance(each func(int, func(int))) {
	n.err = guard(func() error {
		for _, t := range n.tasks {
			if t.err != nil {
				return t.err
			}
		}
		g := n.q.search
		g.rank(n.tasks)
		n.next = g.choose(func(c choice) bool { return n.e.concludes(n.q, c) })
		return g.grow(n.next, each)
	})
}

// concludeSearch returns what the scheduler must know of a search that was taken
// further, and leaves in n what the reader gets when it ended.
func (e *Engine) concludeSearch(n *turn, at time.Time) (r sched.Result) {
	if n.err == nil && len(n.next) > 0 {
		for _, c := range n.next {
			r.Beams = append(r.Beams, sched.Branch{From: c.from, Token: c.branch.Token})
		}
		return r
	}
	delete(e.lives, n.q.seq)
	n.last = e.outcome(n.q, n.err, at)
	return r
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
func (g *search) grow(next []choice, each func(int, func(int))) error {
	old := g.beams
	g.beams = make([]*beam, len(next))
	children := make([][]int, len(old))
	for i, c := range next {
		g.beams[i] = &beam{path: c.path, score: c.branch.Score}
		children[c.from] = append(children[c.from], i)
	}
	errs := make([]error, len(old))
	each(len(old), func(i int) {
		if len(children[i]) == 0 {
			closeOnce(&old[i].done)
			return
		}
		errs[i] = guard(func() error { return g.inherit(old[i], children[i]) })
		if g.beams[children[i][0]].done == nil { // it did not come to hand them over
			closeOnce(&old[i].done)
		}
	})
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

// emitSearch hands a search that ended to its reader; of one that goes on there is
// nothing to tell.
func (e *Engine) emitSearch(n *turn) {
	if n.last == nil && n.err != nil { // the forward pass failed
		n.last = e.outcome(n.q, n.err, time.Now())
	}
	if n.last == nil {
		return
	}
	n.q.release()
	for _, it := range n.last {
		n.q.stream.push(it)
	}
	e.end(n.q.stream, n.q.places(), io.EOF)
}
