// Package engine turns requests into tokens. Each engine has one step goroutine, which
// runs step after step:
//
//	drainInbox, exchange, draft, Plan, forward, pick, awaitGuests, commit, emit
//
// Each of these is a function. The goroutine owns the scheduler, the cache's block
// accounting and the model; requests, cancellations and events cross to and from it as
// values. It never waits for a reader.
//
// User code delays a step by at most Config.GuestWait, and so does a mask that takes long.
// A sequence whose user code or mask is not done by then is parked and joins a later step
// with the token that it would have got in this one.
//
// A beam search is one sequence of the scheduler with several rows. Its beams are
// ranked together after each step. Their chains fork where more than one token follows
// a beam. No event is sent before the best sequences are known.
//
// Twins are one sequence with several rows too, each behind a prompt of its own. One chain picks each token from the
// mix of their logits.
//
// A program owns a Session, whose contexts it forks, changes and lets generate (see session.go).
//
// Callers: server/generate submits requests and opens sessions; server/host starts and closes engines.
//
// Goroutines: New starts the step goroutine; Close awaits it. Another may take over from it (handover). Short-lived
// workers run the picks of a step, which the step goroutine awaits, and user code (guestPool), masks that take long,
// and the loads of prompts from disk, which the step goroutine awaits before it ends.
//
// Locks: Engine.mu, Stream.mu, seqStep.mu and guestPool.mu are leaves: no code holds
// two of them at once.
//
// The reasons behind it: docs/rationale/runtime.md.
package engine

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"tgi/runtime/draft"
	"tgi/runtime/kv"
	"tgi/runtime/llm"
	"tgi/runtime/sched"
)

// Shape describes a model to the engine.
type Shape struct {
	// Vocab is the number of logits per row.
	Vocab int
	// BlockSize is how many tokens a cache block holds; Blocks how many there are.
	BlockSize, Blocks int
	// MaxLen is the longest sequence, prompt and output.
	MaxLen int
	// OriginalLen, if not 0, is the length beyond which all tokens of a sequence have other keys and values
	// (llm.Step.Long).
	OriginalLen int
	// Width is that of a token's vector; 0 if the model takes none (Request.Embeddings).
	Width int
	// LastOnly says that of a row's tokens in a step only the last has logits, so that prompts cannot be scored
	// (llm.Params.PromptLogprobs).
	LastOnly bool
}

// Model computes steps. One goroutine calls its methods. Shape always returns the same.
type Model interface {
	Shape() Shape
	// Forward computes the step, which has at least one token, and returns the logits
	// of the step's LogitRows, [len(LogitRows)*Vocab]. The model owns them; they are
	// valid until the next Forward, and the caller may overwrite them. After an error
	// the cache blocks that the step wrote are undefined, all others unchanged.
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
	// Flush returns the text held back so far, with U+FFFD for incomplete characters.
	Flush() string
	// Open reports whether the text so far ends inside a character: Next holds back the first of its bytes.
	Open() bool
}

// Config configures an engine.
type Config struct {
	// Settings limit what runs at once.
	sched.Settings
	// Observer receives a report of every step; nil for none.
	Observer Observer
	// Workers limits the goroutines that pick tokens, and those that run user code; 0
	// is GOMAXPROCS.
	Workers int
	// PromptStretch is how many times as long as one without prompts a step may take that computes prompts beside rows
	// that decode; more than 1, or 0 for no bound.
	PromptStretch float64
	// PromptStep is how long such a step may take even if it is stretched more.
	PromptStep time.Duration
	// GuestWait is how long a step waits for user code of sample.Plugins.Guests while
	// other rows could continue. 0 is a quarter of a forward pass, at least 1 ms.
	GuestWait time.Duration
	// Speculation says what is guessed so that a step may give a sequence several tokens; the zero value is nothing. It
	// changes no text. A Reducer gets no guesses.
	Speculation draft.Settings
	// DraftModel guesses too, where Speculation has draft.Modelled; nil for none. The engine does not close it.
	DraftModel *draft.Model
	// Disk keeps prompts beyond the engine's life; the zero value does not. It changes no text.
	Disk Disk
	// Watcher is told which blocks of prompts and texts are cached; nil for none.
	Watcher kv.Watcher
	// Demand counts the rows being computed; nil for a Demand of its own.
	Demand *Demand
	// Verify checks the invariants after every step, which takes a few microseconds per
	// row. The environment variable TGI_VERIFY=1 does so too.
	Verify bool
}

// Engine runs one model. Its methods may be called from any goroutine.
type Engine struct {
	model     Model
	reducer   Reducer // the model, if it is one
	codec     Codec
	shape     Shape
	settings  sched.Settings
	eos       map[llm.Token]bool
	ends      []llm.Token // the tokens of eos that have a logit
	observer  Observer
	workers   int
	guestWait time.Duration // Config.GuestWait

	speculation draft.Settings
	guests      *guestPool
	verify      bool

	wake     chan struct{} // holds a token when the goroutine must look at its inbox
	awaiting atomic.Int64  // seqSteps that the goroutine waits for: none are parked, and it is woken at 0
	done     chan struct{} // closed when the goroutine has ended

	mu       sync.Mutex
	inbox    []*job
	orders   []order
	cancels  []cancellation
	finished []*seqStep // of parked sequences
	open     int        // accepted sequences that have not ended
	closed   error      // why the engine is closed
	health   error      // error of the last forward pass
	handover *handover  // nil while no guards are asked on the step goroutine
	stats    Stats

	// The fields below belong to the step goroutine.
	looping      bool // it runs loop, which another goroutine can go on with; tests make steps of their own
	sched        *sched.Scheduler
	pace         pace
	costs        draft.Costs
	yield        yield
	second       secondModel
	drafts       DraftCounts // of the step
	generated    int         // tokens that sequences got
	draftFirst   int         // the first of the sched.Rooms that is asked for guesses
	active       map[*sched.Seq]*sequence
	sessions     map[*Session]bool
	seqSteps     []*seqStep // of the step
	solo         *seqStep   // whose guards the step goroutine is to ask
	ended        []*seqStep // whose events are to be handed out
	picks        []*pickTask
	scores       []*sched.Row
	results      []sched.Result
	forkedLogits []float32 // copies of logits rows that several sequences pick from
	reduce       reduceMemory
	demand       demand
	disk         disk
	guestLatency map[string]time.Duration // moving average of the steps of each guest
	freeLogits   [][]float32              // memory for the logits of sequences with guests
	// meanForward is a moving average of the durations of forward passes, lastForward the last.
	meanForward, lastForward time.Duration
}

type cancellation struct {
	stream *Stream
	cause  error
}

// Stats is a snapshot of an engine.
type Stats struct {
	// Steps counts forward passes, Preempted the preempted sequences.
	Steps, Preempted int
	// Waiting and Running count sequences after the last step.
	Waiting, Running int
	// Parked counts the sequences among them whose user code is not done, each beam
	// search as one.
	Parked int
	// KVUsed counts the cache blocks that sequences hold, KVCached those that only the
	// prefix cache holds, KVTotal all of them.
	KVUsed, KVCached, KVTotal int
	// KVTokens is how many tokens fit into the blocks that sequences hold.
	KVTokens int
	// StepTime is the sum of the steps' times, without those of sending events.
	StepTime time.Duration
	// PrefillTokens counts the computed tokens of prompts and of preempted sequences,
	// PromptTokens and CachedTokens add up those of Report. Generated counts the tokens that
	// sequences got; a step of a beam search gives one.
	PrefillTokens, PromptTokens, CachedTokens, Generated int
}

// New starts an engine; the caller must Close it. It fails if the settings leave no room
// for any request.
func New(m Model, c Codec, cfg Config) (*Engine, error) {
	e, err := build(m, c, cfg)
	if err != nil {
		return nil, err
	}
	go e.loop()
	return e, nil
}

// build returns an engine whose step goroutine does not run yet.
func build(m Model, c Codec, cfg Config) (*Engine, error) {
	sh := m.Shape()
	if sh.Vocab < 1 {
		return nil, fmt.Errorf("engine: the model's vocabulary must not be empty, got %d tokens", sh.Vocab)
	}
	s, err := sched.New(cfg.Settings, sched.Shape{Blocks: sh.Blocks, BlockSize: sh.BlockSize, MaxLen: sh.MaxLen,
		OriginalLen: sh.OriginalLen})
	if err != nil {
		return nil, err
	}
	e := &Engine{
		model: m, codec: c, shape: sh, sched: s, settings: s.Settings(),
		eos:          make(map[llm.Token]bool),
		observer:     cfg.Observer,
		workers:      cfg.Workers,
		verify:       cfg.Verify || os.Getenv("TGI_VERIFY") == "1",
		wake:         make(chan struct{}, 1),
		done:         make(chan struct{}),
		active:       make(map[*sched.Seq]*sequence),
		sessions:     make(map[*Session]bool),
		demand:       demand{all: cfg.Demand},
		guestLatency: make(map[string]time.Duration),
	}
	s.SetYield(e.yield.tokens)
	e.reducer, _ = m.(Reducer)
	if cfg.Watcher != nil {
		s.Watch(cfg.Watcher)
	}
	if cfg.Disk.Space != nil {
		e.disk.Disk = cfg.Disk
		e.disk.Space.Notify(e.signal)
	}
	e.speculation = cfg.Speculation
	e.speculation.Tokens = min(max(e.speculation.Tokens, 0), draft.MaxTokens)
	if e.Speculates() > 0 && e.speculation.ModelOn() {
		e.second.model = cfg.DraftModel
	}
	if cfg.PromptStretch > 0 {
		e.pace.stretch, e.pace.step = cfg.PromptStretch, cfg.PromptStep
		s.SetPace(e.pace.tokens)
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
	// a single worker could be blocked by a paused call
	e.guestWait, e.guests = cfg.GuestWait, newGuestPool(max(e.workers, 2))
	_, _, e.stats.KVTotal = s.Cache()
	return e, nil
}

// loop runs steps until the engine is closed and sleeps while there is nothing to do.
func (e *Engine) loop() {
	e.looping = true
	for {
		if err := e.closeReason(); err != nil {
			e.failAll(err)
			e.guests.wait()
			e.flushDisk(err)
			close(e.done)
			return
		}
		if !e.step() {
			<-e.wake
		}
	}
}

// Speculates returns how many tokens are guessed for a sequence in a step at most, 0 if none are.
func (e *Engine) Speculates() int {
	if e.reducer != nil {
		return 0
	}
	return e.speculation.Tokens
}

// Settings returns the limits in force, every default filled in.
func (e *Engine) Settings() sched.Settings { return e.settings }

// Stats returns the statistics after the last step.
func (e *Engine) Stats() Stats {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.stats
}

// Healthy returns nil, or why the model does not work: the last forward pass failed
// (a later success clears it), or the engine is closed.
func (e *Engine) Healthy() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	return errors.Join(e.closed, e.health)
}

// Close aborts all requests, ends the step goroutine and waits for it. Streams end with
// llm.ErrClosed. It always returns nil and may be called again.
func (e *Engine) Close() error {
	e.closeWith(llm.ErrClosed)
	<-e.done
	return nil
}

// closeWith ends the step goroutine; streams end with err.
func (e *Engine) closeWith(err error) {
	e.mu.Lock()
	if e.closed == nil {
		e.closed = err
	}
	e.mu.Unlock()
	e.signal()
}

func (e *Engine) closeReason() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.closed
}

// reserve takes n slots for sequences, if the limit allows it.
func (e *Engine) reserve(n int) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case e.closed != nil:
		return e.closed
	case e.open+n > e.settings.MaxConcurrentRequests:
		return fmt.Errorf("%w: %d sequences wait or run, at most %d may", llm.ErrOverloaded,
			e.open, e.settings.MaxConcurrentRequests)
	}
	e.open += n
	return nil
}

// release gives n slots back.
func (e *Engine) release(n int) {
	e.mu.Lock()
	e.open -= n
	e.mu.Unlock()
}

// enqueue puts a job, whose slots are reserved, into the inbox.
func (e *Engine) enqueue(j *job) error {
	e.mu.Lock()
	err := e.closed
	if err == nil {
		e.inbox = append(e.inbox, j)
	}
	e.mu.Unlock()
	e.signal()
	return err
}

// cancel asks the step goroutine to abort a stream's sequences.
func (e *Engine) cancel(s *Stream, cause error) {
	e.mu.Lock()
	if e.closed == nil {
		e.cancels = append(e.cancels, cancellation{s, cause})
	}
	e.mu.Unlock()
	e.signal()
}

// signal wakes the step goroutine, or has it taken over if it asks guards.
func (e *Engine) signal() {
	select {
	case e.wake <- struct{}{}:
	default:
	}
	e.mu.Lock()
	e.hurry()
	e.mu.Unlock()
}
