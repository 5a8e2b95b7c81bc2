// Package engine turns requests into tokens: one goroutine per model that runs
// step after step. A step reads
//
//	drain the inbox, Plan, Forward, pick, await, Commit, emit
//
// and each of these is a function of its own. The goroutine owns the scheduler, the
// cache's books and the model; requests, cancellations and events cross to it and
// from it as values, and it never waits for a reader.
//
// User code never holds up a step for longer than the engine has patience: the sequence
// that it belongs to is parked, and joins a later step with the token that it would
// have got in this one.
//
// A beam search is one sequence of the scheduler with several rows. Its beams are
// ranked together behind each step; their chains fork where more than one token
// follows a beam, and nothing is handed out before the best sequences are known.
//
// The reasons behind it: docs/rationale/runtime.md.
package engine

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"sync"
	"time"

	"tgi/runtime/llm"
	"tgi/runtime/sched"
)

// Shape is what the engine must know of a model.
type Shape struct {
	// Vocab is the number of logits per row.
	Vocab int
	// BlockSize is how many tokens a cache block holds; Blocks how many there are.
	BlockSize, Blocks int
	// MaxLen is the longest sequence, prompt and output.
	MaxLen int
}

// Model computes steps. Its methods are called by one goroutine, Shape always
// with the same answer.
type Model interface {
	Shape() Shape
	// Forward computes the step, which has at least one token, and returns the
	// logits of the step's LogitRows, [len(LogitRows)*Vocab]. They are the model's
	// and valid until its next Forward; the caller may overwrite them. After an error the
	// cache blocks written by the step hold anything, all others what they held.
	Forward(s *llm.Step) (logits []float32, err error)
	// CopyBlocks copies whole cache blocks, one after the other in the given order.
	// It is called before the Forward that needs them.
	CopyBlocks(pairs []llm.BlockCopy) error
}

// Codec is the text side of a vocabulary. It is safe for concurrent use.
type Codec interface {
	// Stream returns a detokenizer for the output that follows context, the last
	// tokens of a prompt.
	Stream(context []llm.Token) Detokenizer
	// Special reports whether the token is not part of the text.
	Special(id llm.Token) bool
	// Text returns the text of one token alone.
	Text(id llm.Token) string
	// EOS returns the tokens that end a sequence.
	EOS() []llm.Token
}

// Detokenizer turns tokens into text, one after the other.
type Detokenizer interface {
	// Next returns the text that is complete now and was not before.
	Next(id llm.Token) string
	// Flush returns what was held back, with U+FFFD for incomplete characters.
	Flush() string
}

// Config is how an engine runs.
type Config struct {
	// Settings bound what runs at once.
	sched.Settings
	// Observer is told the figures of every step; nil for none.
	Observer Observer
	// Workers bounds the goroutines that pick tokens, and those that run user code; 0 is
	// GOMAXPROCS.
	Workers int
	// GuestWait is how long a step waits for user code of sample.Plugins.Guests while
	// other rows could go on. 0 is a quarter of what a forward pass takes, 1 ms at least.
	GuestWait time.Duration
	// Demand is told how many rows are being computed; nil for a Demand of its own.
	Demand *Demand
	// Verify checks the books after every step, for a few microseconds per row. The
	// environment variable TGI_VERIFY=1 does so too.
	Verify bool
}

// Engine runs one model. Its methods may be called from any goroutine.
type Engine struct {
	model    Model
	codec    Codec
	shape    Shape
	settings sched.Settings
	eos      map[llm.Token]bool
	ends     []llm.Token // those of eos that have a logit
	observer Observer
	workers  int
	wait     time.Duration // Config.GuestWait
	guests   *guestPool
	verify   bool

	wake chan struct{} // holds a token when the goroutine must look at its inbox
	done chan struct{} // closed when the goroutine has ended

	mu       sync.Mutex
	inbox    []*job
	cancels  []cancellation
	finished []*turn       // of parked sequences
	open     int           // sequences that were accepted and did not end
	draining bool          // Submit refuses
	drained  chan struct{} // closed when draining and nothing is open
	closed   error         // why the engine is closed
	health   error         // of the last forward pass
	stats    Stats

	// What follows belongs to the goroutine.
	sched   *sched.Scheduler
	lives   map[*sched.Seq]*sequence
	turns   []*turn // of the step
	ended   []*turn // whose events are to be handed out
	draws   []*pickTask
	scores  []*sched.Row
	results []sched.Result
	forks   []float32 // copies of logits rows that several sequences pick from
	demand  demand
	paces   map[string]time.Duration // of the turns of each guest of late
	spare   [][]float32              // memory for the logits of sequences with guests
	// pass and lastPass are how long forward passes take, of late and the last.
	pass, lastPass time.Duration
}

type cancellation struct {
	stream *Stream
	cause  error
}

// Stats is a snapshot of an engine.
type Stats struct {
	// Steps counts forward passes, Preempted the sequences that had to step back.
	Steps, Preempted int
	// Waiting and Running count sequences after the last step.
	Waiting, Running int
	// Parked counts those among them that sit out because their user code is not done,
	// each beam search as one.
	Parked int
	// KVUsed and KVCached count cache blocks that sequences hold and that can be
	// found again; KVTotal is all of them.
	KVUsed, KVCached, KVTotal int
}

// New starts an engine. It fails when the settings leave no room for any request.
func New(m Model, c Codec, cfg Config) (*Engine, error) {
	e, err := build(m, c, cfg)
	if err != nil {
		return nil, err
	}
	go e.loop()
	return e, nil
}

// build returns an engine whose goroutine does not run yet.
func build(m Model, c Codec, cfg Config) (*Engine, error) {
	sh := m.Shape()
	if sh.Vocab < 1 {
		return nil, fmt.Errorf("engine: the model's vocabulary must not be empty, got %d tokens", sh.Vocab)
	}
	s, err := sched.New(cfg.Settings, sched.Shape{Blocks: sh.Blocks, BlockSize: sh.BlockSize, MaxLen: sh.MaxLen})
	if err != nil {
		return nil, err
	}
	e := &Engine{
		model: m, codec: c, shape: sh, sched: s, settings: s.Settings(),
		eos:      make(map[llm.Token]bool),
		observer: cfg.Observer,
		workers:  cfg.Workers,
		verify:   cfg.Verify || os.Getenv("TGI_VERIFY") == "1",
		wake:     make(chan struct{}, 1),
		done:     make(chan struct{}),
		drained:  make(chan struct{}),
		lives:    make(map[*sched.Seq]*sequence),
		demand:   demand{all: cfg.Demand},
		paces:    make(map[string]time.Duration),
	}
	if cfg.Demand == nil {
		e.demand.all = new(Demand)
	}
	for _, t := range c.EOS() {
		e.eos[t] = true
		if int64(t) < int64(sh.Vocab) {
			e.ends = append(e.ends, t)
		}
	}
	if e.workers == 0 {
		e.workers = runtime.GOMAXPROCS(0)
	}
	e.wait, e.guests = cfg.GuestWait, newGuestPool(max(e.workers, 2)) // one alone could be paused
	_, _, e.stats.KVTotal = s.Cache()
	return e, nil
}

// loop runs steps until the engine is closed and sleeps while there is nothing to do.
func (e *Engine) loop() {
	defer close(e.done)
	for {
		if err := e.closing(); err != nil {
			e.failAll(err)
			e.guests.wait()
			return
		}
		if !e.step() {
			<-e.wake
		}
	}
}

// Settings returns the limits in force, every default filled in.
func (e *Engine) Settings() sched.Settings { return e.settings }

// Stats returns the figures after the last step.
func (e *Engine) Stats() Stats {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.stats
}

// Healthy returns nil, or why the model does not work: the last forward pass failed
// (the next good one clears it), or the engine is closed.
func (e *Engine) Healthy() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	return errors.Join(e.closed, e.health)
}

// Drain refuses new requests from now on and waits until the accepted ones ended,
// or returns ctx's cause. The engine still has to be closed.
func (e *Engine) Drain(ctx context.Context) error {
	e.mu.Lock()
	e.draining = true
	e.noteDrained()
	e.mu.Unlock()
	select {
	case <-e.drained:
		return nil
	case <-e.done:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Close aborts what runs, ends the goroutine and waits for it. Streams end with
// llm.ErrClosed. It always returns nil and may be called again.
func (e *Engine) Close() error {
	e.shut(llm.ErrClosed)
	<-e.done
	return nil
}

// shut makes the goroutine end because of err.
func (e *Engine) shut(err error) {
	e.mu.Lock()
	if e.closed == nil {
		e.closed = err
	}
	e.mu.Unlock()
	e.poke()
}

func (e *Engine) closing() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.closed
}

// reserve counts n sequences as open if the limit allows it.
func (e *Engine) reserve(n int) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case e.closed != nil:
		return e.closed
	case e.draining:
		return llm.ErrDraining
	case e.open+n > e.settings.MaxConcurrentRequests:
		return fmt.Errorf("%w: %d sequences wait or run, at most %d may", llm.ErrOverloaded,
			e.open, e.settings.MaxConcurrentRequests)
	}
	e.open += n
	return nil
}

// release takes back n reservations.
func (e *Engine) release(n int) {
	e.mu.Lock()
	e.open -= n
	e.noteDrained()
	e.mu.Unlock()
}

// noteDrained closes e.drained when there is nothing left to wait for. e.mu is held.
func (e *Engine) noteDrained() {
	if !e.draining || e.open > 0 {
		return
	}
	select {
	case <-e.drained:
	default:
		close(e.drained)
	}
}

// post puts a job into the inbox. A request that was accepted before Drain is still welcome.
func (e *Engine) post(j *job) error {
	e.mu.Lock()
	err := e.closed
	if err == nil {
		e.inbox = append(e.inbox, j)
	}
	e.mu.Unlock()
	e.poke()
	return err
}

// cancel asks the goroutine to abort a stream's sequences.
func (e *Engine) cancel(s *Stream, cause error) {
	e.mu.Lock()
	if e.closed == nil {
		e.cancels = append(e.cancels, cancellation{s, cause})
	}
	e.mu.Unlock()
	e.poke()
}

func (e *Engine) poke() {
	select {
	case e.wake <- struct{}{}:
	default:
	}
}
