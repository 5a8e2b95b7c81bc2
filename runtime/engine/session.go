package engine

import (
	"context"
	"fmt"
	"sync"
	"time"

	"tgi/runtime/llm"
	"tgi/runtime/sample"
	"tgi/runtime/sched"
)

// A program owns a Session: contexts (sched.Open) that it forks, changes and lets generate. What it does are orders,
// values that cross to the step goroutine in the inbox; what comes of them are SpanEvents, which cross back. So a
// program never holds a step up, and its contexts' tokens are known on both sides.

// SessionRequest asks for a session.
type SessionRequest struct {
	// Slots is how many of its contexts may run at once, at least 1. They are taken of MaxConcurrentRequests until
	// Close; further ones wait for those of the session.
	Slots int
	// Client, Share, Beneath, Priority, Salt and Adapter are as in Request.
	Client, Salt string
	Share        float64
	Beneath      bool
	Priority     int
	Adapter      llm.Adapter
	// Guarded says that guards read what the program emits: nobody else finds anything of its contexts in the cache but
	// what they begin with of Prompt.
	Guarded bool
	Prompt  []llm.Token
}

// Session is the contexts of one program. Its methods and those of its contexts are called from one goroutine at a
// time, but Close from any.
type Session struct {
	engine  *Engine
	request SessionRequest
	done    chan struct{} // closed when the step goroutine is through with it

	mu     sync.Mutex
	queue  []SpanEvent
	head   int
	ready  chan struct{} // holds a token when there may be something new
	held   []order       // that the step goroutine has not got
	closed bool

	// The fields below belong to the step goroutine.
	contexts map[*Context]bool // with a seq
	running  int               // spans that the scheduler has
	starts   []*Span           // that wait for one of these to end
	shared   sched.Request     // of its contexts
}

// Context is a text of a session: tokens that are computed where they are needed. It rests, or one Span of it is under
// way, which ends with its last SpanEvent.
type Context struct {
	session *Session
	tokens  []llm.Token
	fixed   int // tokens at the front that embeddings belong to
	span    *Span
	failed  bool // its last span did: it is of no more use

	seq *sched.Seq // the step goroutine's
}

// Span is what a context generates, or is asked for, between two rests.
type Span struct {
	// Context is whose span it is; nil if that was dropped.
	Context *Context

	owner  *Context // the same, for the step goroutine
	q      *sequence
	maxNew int
	score  int
}

// SpanRequest says how a context goes on.
type SpanRequest struct {
	Params llm.Params
	// Plugins is the span's user code. The engine owns it and calls its Close when the span ends or is refused.
	Plugins sample.Plugins
	// Cancel and Prediction are as in Request.
	Cancel     func()
	Prediction []llm.Token
	// Deny are tokens of the vocabulary that the first one must not be, By who says so: see sample.Chain.Deny. Where
	// none is left the span ends without a token.
	Deny []llm.Token
	By   string
}

// SpanEvent is a token of a span, or the result of one that generates none.
type SpanEvent struct {
	Span *Span
	// Event is the token, with Finish in the last. Its Index means nothing, and there is no token in the event of Look
	// and Score.
	Event Event
	// Dropped says that the token ended the span and is no part of the context.
	Dropped bool
	// Denied says that the span ended since all tokens that might be its first are denied. The event has none.
	Denied bool
	// Computed is how many tokens the model computed for the span, in its last event.
	Computed int
	// Cached is how many of the context's tokens the cache held when the span began.
	Cached int
	// Row is what Look asked for [Vocab], Logprobs what Score did; the receiver owns them.
	Row, Logprobs []float32
	// Err ended the span, and the context with it.
	Err error
}

// Last reports whether the event is its span's last.
func (e *SpanEvent) Last() bool { return e.Err != nil || e.Event.Finish != nil }

// probe is what Look and Score want of a sequence that picks no token.
type probe struct {
	look     bool
	row      []float32 // a copy of the last logits
	from     int       // the first token that is scored
	logprobs []float32 // of it and those behind it
}

// OpenSession returns a session without contexts; the caller must Close it. Errors wrap llm.ErrOverloaded or
// llm.ErrClosed.
func (e *Engine) OpenSession(r SessionRequest) (*Session, error) {
	s := &Session{engine: e, request: r, done: make(chan struct{}), ready: make(chan struct{}, 1),
		contexts: make(map[*Context]bool)}
	if err := e.reserve(r.Slots); err != nil {
		return nil, err
	}
	if err := e.order(order{op: opOpen, session: s}); err != nil {
		e.release(r.Slots)
		return nil, err
	}
	return s, nil
}

// maxHeld is how many orders are held at most.
const maxHeld = 256

// order keeps an order until the program waits: what it starts before, begins in the same step. One that ends something
// goes out at once.
func (s *Session) order(o order) {
	s.mu.Lock()
	s.held = append(s.held, o)
	out := o.op == opDrop || s.closed || len(s.held) == maxHeld
	s.mu.Unlock()
	if out {
		s.flush()
	}
}

// flush gives the step goroutine the orders that were held.
func (s *Session) flush() {
	s.mu.Lock()
	list := s.held
	s.held = nil
	s.mu.Unlock()
	if len(list) == 0 || s.engine.order(list...) == nil {
		return
	}
	for _, o := range list { // the engine is closed
		if o.op == opStart {
			o.span.q.close()
		}
	}
}

// New returns a context of tokens, which it keeps. Embeddings are as in Request, and stay where they are.
func (s *Session) New(tokens []llm.Token, embeddings []llm.Embedding) *Context {
	c := &Context{session: s, tokens: tokens[:len(tokens):len(tokens)]}
	if n := len(embeddings); n > 0 {
		c.fixed = embeddings[n-1].End()
	}
	s.order(order{op: opNew, session: s, context: c, tokens: c.tokens, embeddings: embeddings})
	return c
}

// Ends reports whether a token is one with which the model ends a text.
func (s *Session) Ends(t llm.Token) bool { return s.engine.eos[t] }

// Tokens returns the context's tokens: a view that must not be changed.
func (c *Context) Tokens() []llm.Token { return c.tokens[:len(c.tokens):len(c.tokens)] }

// Running reports whether a span of the context is under way.
func (c *Context) Running() bool { return c.span != nil }

// Failed reports whether a span of the context failed. Only Drop may follow.
func (c *Context) Failed() bool { return c.failed }

// Fixed is the least number of tokens that Truncate may leave: those that embeddings belong to.
func (c *Context) Fixed() int { return c.fixed }

// Fork returns a context of the same tokens, which shares what was computed of them. c rests.
func (c *Context) Fork() *Context {
	c.mustRest()
	f := &Context{session: c.session, tokens: c.Tokens(), fixed: c.fixed}
	c.session.order(order{op: opFork, context: f, from: c})
	return f
}

// Append appends tokens of the vocabulary, which are copied. c rests.
func (c *Context) Append(tokens []llm.Token) {
	c.mustRest()
	n := len(c.tokens)
	c.tokens = append(c.tokens, tokens...) // in place: forks and views end at their length
	c.session.order(order{op: opAppend, context: c, tokens: c.tokens[n:]})
}

// Truncate leaves the first n tokens. c rests.
func (c *Context) Truncate(n int) {
	c.mustRest()
	c.tokens = c.tokens[:n:n]
	c.session.order(order{op: opTruncate, context: c, n: n})
}

// Drop ends the context, and a span that is under way without a further event.
func (c *Context) Drop() {
	c.failed = true
	if c.span != nil {
		c.span.Context, c.span = nil, nil
	}
	c.session.order(order{op: opDrop, context: c})
}

func (c *Context) mustRest() {
	if c.span != nil || c.failed {
		panic("BUG: engine: a context is changed while it runs, or after it failed")
	}
}

// Start lets the context generate. Its tokens are the prompt. Errors wrap llm.ErrInvalid or llm.ErrTooLong. c rests.
func (c *Context) Start(r SpanRequest) (sp *Span, err error) {
	c.mustRest()
	e := c.session.engine
	q := &sequence{params: r.Params, done: r.Plugins.Close}
	defer func() { // also if user code panics
		if sp == nil {
			q.close()
		}
	}()
	if err := e.settings.Check(len(c.tokens), r.Params.MaxNewTokens, 1); err != nil {
		return nil, err
	}
	if len(r.Plugins.Guards) > 0 {
		return nil, fmt.Errorf("%w: guards decide what goes to a client, and a program's contexts do not", llm.ErrInvalid)
	}
	if q.chain, err = sample.New(r.Params, e.shape.Vocab, e.ends, r.Plugins); err != nil {
		return nil, err
	}
	if len(r.Deny) > 0 {
		if err := e.checkTokens("denied", r.Deny); err != nil {
			return nil, err
		}
		q.chain.Deny(r.Deny, r.By)
	}
	q.guests = q.chain.Guests()
	q.text = newTranscript(e.codec, c.tokens, r.Params.Stop, 0)
	e.beginDrafting(q, Request{Prediction: r.Prediction}, r.Plugins)
	q.modelled = q.modelled && c.fixed == 0 // what stands for an image is no token
	return c.start(&Span{q: q, maxNew: r.Params.MaxNewTokens}, r.Cancel), nil
}

// Look asks for the logits behind the context's last token: SpanEvent.Row. Errors are those of Start. c rests.
func (c *Context) Look() (*Span, error) { return c.ask(&probe{look: true}, 0) }

// Score asks for the log-probabilities, of the model's own distribution, of the context's last n tokens, n below their
// number: SpanEvent.Logprobs. Errors are those of Start. c rests.
func (c *Context) Score(n int) (*Span, error) {
	if c.session.engine.shape.LastOnly {
		return nil, fmt.Errorf("%w: the model's graph gives no logits of a prompt", llm.ErrInvalid)
	}
	return c.ask(&probe{from: len(c.tokens) - n, logprobs: make([]float32, n)}, n)
}

func (c *Context) ask(p *probe, score int) (*Span, error) {
	c.mustRest()
	if err := c.session.engine.settings.Check(len(c.tokens), 1, 1); err != nil {
		return nil, err
	}
	q := &sequence{params: llm.Params{MaxNewTokens: 1}, probe: p}
	return c.start(&Span{q: q, maxNew: 1, score: score}, nil), nil
}

func (c *Context) start(sp *Span, cancel func()) *Span {
	s := c.session
	sp.Context, sp.owner, sp.q.span = c, c, sp
	sp.q.stream = &Stream{engine: s.engine, live: 1, submitted: time.Now(), cancel: cancel, session: s,
		seqs: []*sequence{sp.q}}
	c.span = sp
	s.order(order{op: opStart, session: s, context: c, span: sp})
	return sp
}

// Next returns the next event of any span, waiting for it until ctx is done. Once the engine is closed it returns
// llm.ErrClosed. The span's context has the token then, and rests after the last event.
func (s *Session) Next(ctx context.Context) (SpanEvent, error) {
	s.flush()
	for {
		if ev, ok := s.pop(); ok {
			return ev, nil
		}
		select {
		case <-s.ready:
		case <-s.done:
			return SpanEvent{}, llm.ErrClosed
		case <-s.engine.done:
			return SpanEvent{}, llm.ErrClosed
		case <-ctx.Done():
			return SpanEvent{}, context.Cause(ctx)
		}
	}
}

// pop returns the first event of a context that was not dropped, and applies it to the context.
func (s *Session) pop() (SpanEvent, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.head < len(s.queue) {
		ev := s.queue[s.head]
		s.queue[s.head] = SpanEvent{}
		if s.head++; s.head == len(s.queue) {
			s.queue, s.head = s.queue[:0], 0
		}
		c := ev.Span.Context
		if c == nil {
			continue
		}
		if ev.Err == nil && ev.Span.q.probe == nil && !ev.Dropped && !ev.Denied {
			c.tokens = append(c.tokens, ev.Event.Token)
		}
		if ev.Last() {
			c.span, c.failed = nil, ev.Err != nil
		}
		return ev, true
	}
	return SpanEvent{}, false
}

// push hands an event of a span to the program.
func (s *Session) push(ev SpanEvent) {
	s.mu.Lock()
	s.queue = append(s.queue, ev)
	s.mu.Unlock()
	select {
	case s.ready <- struct{}{}:
	default:
	}
}

// Close ends all spans and contexts, and waits until the engine has let go of them, which takes a step at most.
func (s *Session) Close() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.flush()
	_ = s.engine.order(order{op: opClose, session: s})
	select {
	case <-s.done:
	case <-s.engine.done:
	}
}
