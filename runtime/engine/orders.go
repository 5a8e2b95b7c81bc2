package engine

import (
	"context"
	"fmt"

	"tgi/runtime/llm"
	"tgi/runtime/sched"
)

// orderOp is what an order is about.
type orderOp uint8

const (
	opOpen orderOp = iota
	opNew
	opFork
	opAppend
	opTruncate
	opStart
	opDrop
	opClose
)

// order is what a program does, in the inbox of the step goroutine.
type order struct {
	op         orderOp
	session    *Session
	context    *Context
	from       *Context
	tokens     []llm.Token
	embeddings []llm.Embedding
	n          int
	span       *Span
}

// order puts orders into the inbox. The error says that the engine is closed.
func (e *Engine) order(list ...order) error {
	e.mu.Lock()
	err := e.closed
	if err == nil {
		e.orders = append(e.orders, list...)
	}
	e.mu.Unlock()
	e.signal()
	return err
}

// obey carries an order out. A context whose span failed has no sequence: nothing more becomes of it.
func (e *Engine) obey(o order) {
	c := o.context
	switch o.op {
	case opOpen:
		e.sessions[o.session] = true
		return
	case opClose:
		e.endSession(o.session, context.Canceled)
		return
	}
	s := c.session
	switch {
	case !e.sessions[s], c.seq == nil && o.op == opStart: // it was closed, or the context has ended
		if o.op == opStart {
			o.span.q.close()
		}
	case o.op == opNew:
		r := s.request
		e.adopt(c, e.sched.Open(sched.Job{Prompt: o.tokens, Salt: r.Salt, Client: r.Client, Share: r.Share,
			Beneath: r.Beneath, Priority: r.Priority, Adapter: r.Adapter, Embeddings: o.embeddings,
			Request: &s.shared, Withhold: r.Guarded, Known: common(r.Prompt, o.tokens)}))
	case o.op == opFork && o.from.seq != nil:
		e.adopt(c, e.sched.Fork(o.from.seq, len(o.from.seq.Tokens())))
	case c.seq == nil:
	case o.op == opAppend:
		e.sched.Append(c.seq, o.tokens)
	case o.op == opTruncate:
		e.sched.Truncate(c.seq, o.n)
	case o.op == opStart && s.running < s.request.Slots:
		e.startSpan(o.span)
	case o.op == opStart:
		s.starts = append(s.starts, o.span)
	case o.op == opDrop:
		e.dropContext(c)
	}
}

// common is how many tokens two lists begin with.
func common(a, b []llm.Token) (n int) {
	for n < min(len(a), len(b)) && a[n] == b[n] {
		n++
	}
	return n
}

// adopt gives a context its sequence.
func (e *Engine) adopt(c *Context, q *sched.Seq) {
	c.seq = q
	c.session.contexts[c] = true
}

// startSpan lets the scheduler run a span.
func (e *Engine) startSpan(sp *Span) {
	q, c := sp.q, sp.owner
	if err := e.sched.Resume(c.seq, sp.maxNew, sp.score); err != nil { // Start's check is the same
		q.close()
		c.session.push(SpanEvent{Span: sp, Err: fmt.Errorf("BUG: engine: accepted span: %w", err)})
		return
	}
	c.session.running++
	q.seq = c.seq
	for _, g := range q.guests {
		q.latency = max(q.latency, e.guestLatency[g])
	}
	e.active[q.seq] = q
}

// spanOver frees the slot of a span that the scheduler had, for the next that waits. err ended the context too.
func (e *Engine) spanOver(sp *Span, err error) {
	s := sp.owner.session
	if err != nil {
		e.forget(sp.owner)
	}
	s.running--
	for len(s.starts) > 0 && s.running < s.request.Slots {
		next := s.starts[0]
		s.starts = s.starts[1:]
		e.startSpan(next)
	}
}

// forget is adopt undone.
func (e *Engine) forget(c *Context) {
	delete(c.session.contexts, c)
	c.seq = nil
}

// dropContext ends a context and what it does.
func (e *Engine) dropContext(c *Context) {
	s := c.session
	for i, sp := range s.starts {
		if sp.owner == c {
			s.starts = append(s.starts[:i:i], s.starts[i+1:]...)
			sp.q.close()
			break
		}
	}
	if q := e.active[c.seq]; q != nil {
		e.abort(q.stream, context.Canceled)
		return
	}
	e.sched.Abort(c.seq)
	e.forget(c)
}

// endSession ends all contexts of a session; the program hears of it by done.
func (e *Engine) endSession(s *Session, cause error) {
	if !e.sessions[s] {
		return
	}
	delete(e.sessions, s)
	for _, sp := range s.starts {
		sp.q.close()
	}
	s.starts = nil
	for c := range s.contexts {
		if q := e.active[c.seq]; q != nil {
			e.abort(q.stream, cause)
		} else {
			e.sched.Abort(c.seq)
		}
	}
	clear(s.contexts)
	e.release(s.request.Slots)
	close(s.done)
}

// tokenless returns the event of a sequence that picks no token.
func tokenless() Event { return Event{Finish: &llm.Finish{}} }

// read takes what the probe is for from the logits behind the last token.
func (p *probe) read(row []float32) {
	if p.look {
		p.row = append([]float32(nil), row...)
	}
}

// result is what the scheduler does with a span that ended, with the picked tokens. A token that ended the text is no
// part of the context, and an error ends the context.
func (q *sequence) result(tokens []llm.Token, err error) sched.Result {
	if err != nil {
		return sched.Result{Tokens: tokens, End: true}
	}
	return sched.Result{Tokens: tokens, Rest: true, End: q.dropped || q.probe != nil || q.denied}
}

// spanEvent is what the program gets of an event of a span.
func (q *sequence) spanEvent(it item) SpanEvent {
	ev := SpanEvent{Span: q.span, Event: it.event, Err: it.err}
	if q.seq != nil {
		ev.Cached = q.seq.Cached()
	}
	if ev.Last() {
		ev.Dropped, ev.Denied, ev.Computed = q.dropped, q.denied, q.seq.Spent()
	}
	if p := q.probe; p != nil {
		ev.Row, ev.Logprobs = p.row, p.logprobs
	}
	return ev
}
