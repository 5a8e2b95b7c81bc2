// Package embed turns texts, as token ids, into vectors. A Batcher has one goroutine, which runs step after step: the
// texts that wait, whoever sent them, up to a number of tokens, one behind the other without padding. Clients take
// turns by the tokens that were computed for them (start-time fair queueing, as in package sched), so that one who
// sends thousands of texts does not delay another's first.
//
// A text is computed in one step and its result does not depend on what else is in it. While models generate on the
// same processors, steps are short, and between two the batcher rests as long as the step took.
//
// Locks: Batcher.mu is a leaf.
package embed

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"sync"
	"time"

	"tgi/runtime/llm"
)

// Text is one input.
type Text struct {
	// IDs are the tokens, at least one and at most Shape.MaxTokens.
	IDs []llm.Token
	// Second, if not 0, is the index of the first token of the second kind: of a pair's second text, where the model
	// tells them apart.
	Second int
	// Skip is how many tokens, from the first, are not pooled.
	Skip int
}

// Want is what a request wants of each text.
type Want int

// Vector is the text's vector, or its scores, behind all stages. Tokens are the vectors of all tokens, one behind the
// other.
const (
	Vector Want = iota
	Tokens
)

// Shape describes a model.
type Shape struct {
	// Width is that of a token's vector, Out that of a text's.
	Width, Out int
	// MaxTokens is the most tokens of a text.
	MaxTokens int
	// Pooling are the ways whose results are put one behind the other.
	Pooling []Pooling
	// Sparse, if not nil, takes the place of Pooling: the stages give Out scores for each token.
	Sparse *Sparse
}

// Step is what a model computes at once: the tokens of some texts, one text behind the other.
type Step struct {
	IDs []int64
	// Starts are the indices of the texts' first tokens, and the number of tokens.
	Starts []int64
	// Places are the tokens' places in their texts, Types their kinds.
	Places, Types []int64
	// Rows are the indices of tokens whose vectors are wanted.
	Rows []int64
}

// Model computes. One goroutine calls its methods.
type Model interface {
	Shape() Shape
	// Forward returns the vectors of the step's Rows, [len(Rows)*Width], valid until the next call.
	Forward(ctx context.Context, s *Step) ([]float32, error)
	// Stages returns what becomes of n pooled vectors, [n*Out]. It may return the argument.
	Stages(ctx context.Context, pooled []float32, n int) ([]float32, error)
}

// Config configures a Batcher.
type Config struct {
	// MaxBatchTokens is the most tokens of a step, unless one text has more.
	MaxBatchTokens int
	// Busy reports whether models generate on the same processors; nil is never.
	Busy func() bool
	// BusyStep is how long a step should take then.
	BusyStep time.Duration
}

// Stats is a snapshot.
type Stats struct {
	// Steps, Texts and Tokens count what was computed; Waiting counts texts that wait.
	Steps, Texts, Tokens, Waiting int
}

// Batcher runs texts. It is safe for concurrent use.
type Batcher struct {
	model  Model
	shape  Shape
	config Config
	single bool                    // all ways of pooling need one token each
	cancel context.CancelCauseFunc // ends the goroutine
	wake   chan struct{}
	done   chan struct{}

	mu      sync.Mutex
	clients map[string]*client
	waiting int
	stats   Stats
	health  error
	closed  bool

	// The fields below belong to the goroutine.
	rate float64 // tokens in a second, a moving average
}

// client is one client's texts that wait.
type client struct {
	queue []*item
	// served is the virtual time: tokens that were computed for it, over its share.
	served, share float64
}

// item is a text of a request.
type item struct {
	text Text
	want Want
	req  *request
	at   int // index in the request
}

// request waits for its texts.
type request struct {
	out   [][]float32
	left  int
	err   error
	ready chan struct{} // closed when left is 0, or err is set
}

// New starts a Batcher; the caller must Close it.
func New(m Model, c Config) *Batcher {
	b := &Batcher{model: m, shape: m.Shape(), config: c, wake: make(chan struct{}, 1), done: make(chan struct{}),
		clients: map[string]*client{}, single: true}
	for _, p := range b.shape.Pooling {
		_, one := p.row(1, 0)
		b.single = b.single && one
	}
	b.single = b.single && b.shape.Sparse == nil
	var ctx context.Context
	ctx, b.cancel = context.WithCancelCause(context.Background())
	go b.loop(ctx)
	return b
}

// Shape returns the model's.
func (b *Batcher) Shape() Shape { return b.shape }

// Run returns what is wanted of the texts, in their order. It fails with llm.ErrClosed, an error that wraps
// llm.ErrBackend, or ctx's cause; then those of its texts that wait are dropped.
func (b *Batcher) Run(ctx context.Context, of llm.Client, texts []Text, want Want) ([][]float32, error) {
	for i, t := range texts {
		if len(t.IDs) < 1 || len(t.IDs) > b.shape.MaxTokens {
			return nil, fmt.Errorf("%w: text %d has %d tokens, want 1 to %d", llm.ErrInvalid, i, len(t.IDs),
				b.shape.MaxTokens)
		}
	}
	r := &request{out: make([][]float32, len(texts)), left: len(texts), ready: make(chan struct{})}
	if len(texts) == 0 {
		return r.out, nil
	}
	if err := b.add(of, r, texts, want); err != nil {
		return nil, err
	}
	select {
	case <-r.ready:
		if r.err != nil {
			return nil, r.err
		}
		return r.out, nil
	case <-ctx.Done():
		b.drop(of.Name, r)
		return nil, context.Cause(ctx)
	}
}

// add queues a request's texts.
func (b *Batcher) add(of llm.Client, r *request, texts []Text, want Want) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return llm.ErrClosed
	}
	c := b.clients[of.Name]
	if c == nil {
		c = &client{}
		b.clients[of.Name] = c
	}
	if c.share = of.Share; !(c.share > 0) {
		c.share = 1
	}
	if len(c.queue) == 0 { // who comes back has saved nothing up
		c.served = max(c.served, b.clock())
	}
	for i := range texts {
		c.queue = append(c.queue, &item{texts[i], want, r, i})
	}
	b.waiting += len(texts)
	select {
	case b.wake <- struct{}{}:
	default:
	}
	return nil
}

// clock is the least virtual time of the clients that wait, 0 if none does. mu is held.
func (b *Batcher) clock() float64 {
	now := math.Inf(1)
	for _, c := range b.clients {
		if len(c.queue) > 0 {
			now = min(now, c.served)
		}
	}
	if math.IsInf(now, 1) {
		return 0
	}
	return now
}

// forget removes clients that do not wait and had no more than the others. mu is held.
func (b *Batcher) forget() {
	now := b.clock()
	maps.DeleteFunc(b.clients, func(_ string, c *client) bool {
		return len(c.queue) == 0 && (b.waiting == 0 || c.served <= now)
	})
}

// drop removes the texts of a request that nobody waits for.
func (b *Batcher) drop(name string, r *request) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if c := b.clients[name]; c != nil {
		before := len(c.queue)
		c.queue = slices.DeleteFunc(c.queue, func(i *item) bool { return i.req == r })
		b.waiting -= before - len(c.queue)
	}
}

// loop runs steps until ctx ends.
func (b *Batcher) loop(ctx context.Context) {
	defer close(b.done)
	for {
		busy := b.config.Busy != nil && b.config.Busy()
		items := b.next(b.budget(busy))
		if len(items) == 0 {
			select {
			case <-b.wake:
			case <-ctx.Done():
			}
		}
		if ctx.Err() != nil {
			b.failAll(items)
			return
		}
		if len(items) == 0 {
			continue
		}
		began := time.Now()
		tokens, err := b.step(ctx, items)
		took := time.Since(began)
		b.finish(items, tokens, err)
		if err == nil {
			b.rate += (float64(tokens)/max(took.Seconds(), 1e-6) - b.rate) / 4
		}
		if busy && b.config.Busy() {
			rest(ctx, took)
		}
	}
}

// longestRest bounds how long the batcher rests between two steps.
const longestRest = time.Second

// rest leaves the processors to others.
func rest(ctx context.Context, d time.Duration) {
	t := time.NewTimer(min(d, longestRest))
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

// leastTokens is the least that a step may have, however slow the model is.
const leastTokens = 16

// budget is how many tokens the next step may have.
func (b *Batcher) budget(busy bool) int {
	if !busy || b.config.BusyStep == 0 {
		return b.config.MaxBatchTokens
	}
	return min(b.config.MaxBatchTokens, max(leastTokens, int(b.rate*b.config.BusyStep.Seconds())))
}

// next takes texts of the clients that had least, up to a number of tokens, but at least one.
func (b *Batcher) next(budget int) []*item {
	b.mu.Lock()
	defer b.mu.Unlock()
	defer b.forget()
	var items []*item
	for tokens := 0; b.waiting > 0; {
		var first *client
		for _, c := range b.clients {
			if len(c.queue) > 0 && (first == nil || c.served < first.served) {
				first = c
			}
		}
		n := len(first.queue[0].text.IDs)
		if len(items) > 0 && tokens+n > budget {
			break
		}
		items = append(items, first.queue[0])
		first.queue[0] = nil
		first.queue = first.queue[1:]
		first.served += float64(n) / first.share
		tokens += n
		b.waiting--
	}
	return items
}

// step computes texts and puts their results into their requests.
func (b *Batcher) step(ctx context.Context, items []*item) (tokens int, err error) {
	s := &Step{Starts: []int64{0}}
	rows := make([][2]int, len(items)) // of each text, in the result
	for i, it := range items {
		at := len(s.IDs)
		for place, id := range it.text.IDs {
			kind := int64(0)
			if it.text.Second > 0 && place >= it.text.Second {
				kind = 1
			}
			s.IDs = append(s.IDs, int64(id))
			s.Places = append(s.Places, int64(place))
			s.Types = append(s.Types, kind)
		}
		s.Starts = append(s.Starts, int64(len(s.IDs)))
		from := len(s.Rows)
		for _, row := range b.rows(it) {
			s.Rows = append(s.Rows, int64(at+row))
		}
		rows[i] = [2]int{from, len(s.Rows)}
	}
	hidden, err := b.model.Forward(ctx, s)
	if err != nil {
		return 0, fmt.Errorf("%w: %w", llm.ErrBackend, err)
	}
	if err := b.results(ctx, items, rows, hidden); err != nil {
		return 0, fmt.Errorf("%w: %w", llm.ErrBackend, err)
	}
	return len(s.IDs), nil
}

// rows are the tokens of a text whose vectors its result needs.
func (b *Batcher) rows(it *item) []int {
	n := len(it.text.IDs)
	var out []int
	if b.single && it.want == Vector {
		for _, p := range b.shape.Pooling {
			row, _ := p.row(n, it.text.Skip)
			out = append(out, row)
		}
		return out
	}
	for i := range n {
		out = append(out, i)
	}
	return out
}

// results pools the vectors of each text's rows.
func (b *Batcher) results(ctx context.Context, items []*item, rows [][2]int, hidden []float32) error {
	w, modes := b.shape.Width, b.shape.Pooling
	var pooled []float32
	var owners []*item
	for i, it := range items {
		own := hidden[rows[i][0]*w : rows[i][1]*w]
		if it.want == Tokens {
			it.req.out[it.at] = slices.Clone(own)
			continue
		}
		if s := b.shape.Sparse; s != nil {
			v, err := s.pool(own, w, b.shape.Out, func(part []float32, n int) ([]float32, error) {
				return b.model.Stages(ctx, part, n)
			})
			if err != nil {
				return err
			}
			it.req.out[it.at] = v
			continue
		}
		owners = append(owners, it)
		for m, p := range modes {
			v := make([]float32, w)
			if b.single {
				copy(v, own[m*w:(m+1)*w])
			} else {
				p.pool(v, own, w, it.text.Skip)
			}
			pooled = append(pooled, v...)
		}
	}
	if len(owners) == 0 {
		return nil
	}
	out, err := b.model.Stages(ctx, pooled, len(owners))
	if err != nil {
		return err
	}
	n := b.shape.Out
	for i, it := range owners {
		it.req.out[it.at] = slices.Clone(out[i*n : (i+1)*n])
	}
	return nil
}

// finish tells requests that texts of theirs are done.
func (b *Batcher) finish(items []*item, tokens int, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.health = err
	b.stats.Steps++
	b.stats.Texts += len(items)
	b.stats.Tokens += tokens
	for _, it := range items {
		b.end(it, err)
	}
	if err == nil {
		return
	}
	for _, c := range b.clients { // the other texts of a request that failed
		before := len(c.queue)
		c.queue = slices.DeleteFunc(c.queue, func(i *item) bool { return i.req.err != nil })
		b.waiting -= before - len(c.queue)
	}
}

// end counts a text as done. mu is held.
func (b *Batcher) end(it *item, err error) {
	r := it.req
	if r.left == 0 {
		return
	}
	if r.left--; err != nil {
		r.err, r.left = err, 0
	}
	if r.left == 0 {
		close(r.ready)
	}
}

// failAll ends the requests of items, and those that wait.
func (b *Batcher) failAll(items []*item) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, c := range b.clients {
		items = append(items, c.queue...)
	}
	for _, it := range items {
		b.end(it, llm.ErrClosed)
	}
	b.clients, b.waiting = map[string]*client{}, 0
}

// Stats returns what was done so far.
func (b *Batcher) Stats() Stats {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := b.stats
	s.Waiting = b.waiting
	return s
}

// Healthy returns nil, or the error of the last step.
func (b *Batcher) Healthy() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.health
}

// Close ends the requests with llm.ErrClosed and waits for the step that runs. It may be called twice.
func (b *Batcher) Close() {
	b.mu.Lock()
	b.closed = true
	b.mu.Unlock()
	b.cancel(llm.ErrClosed)
	<-b.done
}
