package engine

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"tgi/runtime/llm"
	"tgi/runtime/sample"
	"tgi/runtime/sched"
)

// slots returns how many sequences q counts as.
func (q *sequence) slots() int { return max(q.params.NumBeams, 1) * q.mix.rows() }

// branch computes the tokens that may follow one beam.
func (t *pickTask) branch(e *Engine) error {
	list, top, err := t.chain.Branches(t.history, t.rows[0], sample.Beam{Score: t.beam.score, Rank: t.rank,
		N: t.search.keep})
	t.branches, t.top = list, e.topTokens(top, "")
	return err
}

// advance takes a search one token further. n.next are its next beams, empty when the
// search has ended. each runs the work of the beams.
func (n *seqStep) advance(each func(int, func(int))) {
	n.err = catchPanic(func() error {
		for _, t := range n.tasks {
			if t.err != nil {
				return t.err
			}
		}
		g := n.q.search
		g.rank(n.tasks)
		n.next = g.choose(func(c *candidate) bool { return n.e.endsSequence(n.q, c) })
		return g.expand(n.next, each)
	})
}

// applySearch returns the scheduler's result for a search that advanced. If the search
// has ended, it leaves the reader's events in n.last.
func (e *Engine) applySearch(n *seqStep, at time.Time) (r sched.Result) {
	n.q.stream.count(len(n.tasks), 0)
	if n.err == nil && len(n.next) > 0 {
		for _, c := range n.next {
			r.Beams = append(r.Beams, sched.Branch{From: c.from, Token: c.branch.Token})
		}
		return r
	}
	delete(e.active, n.q.seq)
	n.last = e.searchResult(n.q, n.err, at)
	return r
}

// endsSequence reports whether a candidate ends its sequence by its token or its text. If not, it sets the candidate's
// tail.
func (e *Engine) endsSequence(q *sequence, c *candidate) (ended bool) {
	tok := c.branch.Token
	if c.branch.Stop || e.eos[tok] && !q.params.IgnoreEOS {
		return true
	}
	if len(q.params.Stop) == 0 {
		return false
	}
	c.tail, ended = q.search.beams[c.from].tail.add(e.codec, tok, q.params.Stop)
	return ended
}

// textTail is the end of a beam's text, from which follows whether the next token completes a stop string. A
// transcript cannot be forked, and decoding each candidate from its start would cost more with each token.
type textTail struct {
	context []llm.Token // the last ones that a detokenizer would have seen
	text    string      // one byte less than the longest stop string
}

// add appends a token. stopped says that the text now contains a stop string, which no text before it did.
func (t textTail) add(c Codec, tok llm.Token, stops []string) (next textTail, stopped bool) {
	next = t
	if c.Special(tok) {
		next.text += c.Text(tok)
	} else {
		next.text += c.Stream(t.context).Next(tok)
		next.context = append(slices.Clone(lastTokens(t.context, detokContext-1)), tok)
	}
	longest := 1
	for _, s := range stops {
		if s != "" && strings.Contains(next.text, s) {
			return next, true
		}
		longest = max(longest, len(s))
	}
	next.text = next.text[max(len(next.text)-(longest-1), 0):]
	return next, false
}

// expand makes the chosen branches the beams of the search. The first branch that
// continues a beam takes over its chain, the others get forks of it. Chains without a
// branch are closed.
func (g *search) expand(next []candidate, each func(int, func(int))) error {
	old := g.beams
	g.beams = make([]*beam, len(next))
	children := make([][]int, len(old))
	for i, c := range next {
		g.beams[i] = &beam{path: c.path, score: c.branch.Score, tail: c.tail}
		children[c.from] = append(children[c.from], i)
	}
	errs := make([]error, len(old))
	each(len(old), func(i int) {
		if len(children[i]) == 0 {
			closeOnce(&old[i].done)
			return
		}
		errs[i] = catchPanic(func() error { return g.forkChain(old[i], children[i]) })
		if g.beams[children[i][0]].done == nil { // forkChain failed before it handed the chain over
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

// forkChain gives the chain of a beam, and forks of it, to the beams that continue it.
func (g *search) forkChain(from *beam, children []int) (err error) {
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

// searchResult returns the items for the reader of a search that has ended: the events
// of the best sequences, one after the other, or an error for each.
func (e *Engine) searchResult(q *sequence, err error, at time.Time) (out []item) {
	g := q.search
	if err == nil && len(g.hypotheses) == 0 {
		err = &sample.DeadEnd{Why: "grammar and plugins together forbid every token behind all beams"}
	}
	for i := range max(g.params.NumReturn, 1) {
		err := err
		if err == nil && i >= len(g.hypotheses) {
			err = &sample.DeadEnd{Why: fmt.Sprintf("grammar and plugins together leave %d sequences, %d are to be "+
				"returned", len(g.hypotheses), g.params.NumReturn)}
		}
		if err != nil {
			out = append(out, item{event: Event{Index: i}, err: err})
			continue
		}
		w := &sequence{stream: q.stream, index: i, params: q.params, seq: q.seq,
			text: newTranscript(e.codec, q.seq.Prompt(), q.params.Stop, 0)}
		for _, l := range g.hypotheses[i].path.nodes() {
			ev := w.event(w.take(e, l.pick), at)
			ev.Top = l.top
			if ev.Finish != nil {
				ev.Finish.Score = float32(g.hypotheses[i].score)
			}
			out = append(out, item{event: ev})
			q.stream.count(0, 1)
		}
	}
	return out
}

// emitSearch sends the result of a search that has ended to its reader.
func (e *Engine) emitSearch(n *seqStep) {
	if n.last == nil && n.err != nil { // the forward pass failed
		n.last = e.searchResult(n.q, n.err, time.Now())
	}
	if n.last == nil {
		return
	}
	n.q.release()
	e.release(n.q.slots())
	for _, it := range n.last {
		n.q.stream.push(it)
	}
	e.end(n.q.stream, n.q.slots(), io.EOF)
}
