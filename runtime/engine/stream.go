package engine

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"tgi/runtime/kv"
	"tgi/runtime/llm"
)

// Event is one token of one sequence of a request. A beam search sends all its events at
// its end: those of the best sequence first, one for each token, then those of the next.
type Event struct {
	// Index is the request's sequence: 0 ≤ Index < N, or with a beam search
	// 0 ≤ Index < Params.NumReturn, best first.
	Index int
	// Prefill holds the prompt's log-probabilities: only in the first event of sequence
	// 0, and only if Params.PromptLogprobs asks for them.
	Prefill []PromptToken
	// Token is the picked token.
	Token llm.Token
	// Text is the text that the token adds: empty while a character is incomplete, more
	// than the token's own text where it completes one, and the token's own text if it is
	// Special. It is cut after a stop string that it completes.
	//
	// The texts of all events that are not Special, concatenated, are Finish.Text, with
	// one exception: only Finish.Text has the replacement character (U+FFFD) for a
	// character that the model left incomplete before a final special token.
	Text string
	// Logprob is the token's log-probability. In a beam search it is what the token added
	// to the sequence's score or, with RawLogprobs, the model's own log-probability.
	Logprob float32
	// Special says that the token is not part of the generated text: it is one of the
	// tokenizer's special tokens, or it ended the sequence.
	Special bool
	// Replaced says that Text is what a guard gives instead of what the model wrote, or that a stop string cuts the
	// token, of which guards judged Text only. Text is right, whatever Token spells: the tokens of a replacement spell
	// no more of it than fits into as many as were replaced. What was taken back before a cut token is told by the next
	// explanation, if there is one.
	Replaced bool
	// Healed says that the token begins in the client's prompt, see Request.Healed: Text is what comes behind that.
	Healed bool
	// Top are the likeliest tokens, best first, if Params.TopN asks for them.
	Top []TopToken
	// Explained tells how the token came to be, if Params.Explain asks for it.
	Explained *llm.Explanation
	// Finish is set in the last event of each sequence.
	Finish *llm.Finish
	// Timings up to this event.
	Timings Timings
}

// PromptToken is a token of the prompt with its log-probability.
type PromptToken struct {
	Token llm.Token
	Text  string
	// Logprob is NaN for the first token: nothing precedes it.
	Logprob float32
	// Top are the likeliest tokens at its position, best first, if Params.PromptTopN
	// asks for them; none for the first token.
	Top []TopToken
}

// TopToken is one of the likeliest tokens of a step.
type TopToken struct {
	Token   llm.Token
	Text    string
	Logprob float32
	Special bool
	// Replaced says that Text is right, whatever Token spells: where it is about the token of an event, as Replaced or
	// Healed of that say, else that it begins in the client's prompt, too.
	Replaced bool
}

// Timings of one sequence, measured from Submit.
type Timings struct {
	// Queued is the time until the prompt's first tokens were computed.
	Queued time.Duration
	// First is the time until the first token.
	First time.Duration
	// Total is the time until this event.
	Total time.Duration
}

// Stream carries the events of one request to its reader. The engine never waits for the
// reader: a stream has room for everything that its request can generate. One goroutine
// at a time may call Next; any may call Close.
type Stream struct {
	engine *Engine

	mu    sync.Mutex
	queue []item
	head  int
	final error         // what Next returns after the queue; nil while sequences are active
	ready chan struct{} // holds a token when there may be something new
	// stopWatch stops watching the request's context; ended says that the engine is done
	// with the stream.
	stopWatch func() bool
	ended     bool

	// The fields below belong to the step goroutine.
	seqs      []*sequence
	cancel    func()        // Request.Cancel
	unseen    *atomic.Int64 // Request.Unseen
	live      int           // sequences that have not ended
	submitted time.Time
	started   time.Time // of the first plan with the prompt
	prefill   []PromptToken
	chain     []kv.Block // of the prompt, until it is computed; nil without a Disk
	session   *Session   // whose span it is; otherwise nil. The program gets the events then
	failed    error      // of the span
}

// item is what Next returns.
type item struct {
	event Event
	err   error
}

// Next returns the next event, waiting for it until ctx is done. After the last event it
// returns io.EOF. An error that wraps llm.ErrPlugin or llm.ErrBackend ends the sequence
// Event.Index; the reader may continue with the other sequences of the request. Next
// returns the cause of the request's context when that is done, context.Canceled after
// Close, and llm.ErrClosed after the engine was closed.
func (s *Stream) Next(ctx context.Context) (Event, error) {
	for {
		if it, ok := s.pop(); ok {
			return it.event, it.err
		}
		select {
		case <-s.ready:
		case <-ctx.Done():
			return Event{}, context.Cause(ctx)
		}
	}
}

func (s *Stream) pop() (item, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.head == len(s.queue) {
		return item{err: s.final}, s.final != nil
	}
	it := s.queue[s.head]
	s.queue[s.head] = item{}
	if s.head++; s.head == len(s.queue) {
		s.queue, s.head = s.queue[:0], 0
	}
	return it, true
}

// Close tells the engine that the reader is gone. Running sequences are aborted and their
// blocks freed before the next step. It may be called more than once and after the end.
func (s *Stream) Close() {
	s.mu.Lock()
	ended := s.final != nil
	s.queue, s.head = nil, 0
	if !ended {
		s.final = context.Canceled
	}
	s.mu.Unlock()
	s.wake()
	if !ended {
		s.engine.cancel(s, context.Canceled)
	}
}

// push appends an item for the reader, unless the stream is closed.
func (s *Stream) push(it item) {
	if s.session != nil {
		s.failed = it.err
		s.session.push(s.seqs[0].spanEvent(it))
		return
	}
	s.mu.Lock()
	if s.final == nil {
		s.queue = append(s.queue, it)
	}
	s.mu.Unlock()
	s.wake()
}

// end sets what Next returns after the events pushed so far. All sequences have ended.
func (s *Stream) end(err error) {
	s.mu.Lock()
	if s.final == nil {
		s.final = err
	}
	s.ended = true
	unwatch := s.stopWatch
	s.mu.Unlock()
	if unwatch != nil {
		unwatch()
	}
	s.wake()
}

// watchContext cancels the stream when ctx is done, until its last sequence ends.
func (s *Stream) watchContext(ctx context.Context) {
	unwatch := context.AfterFunc(ctx, func() { s.engine.cancel(s, context.Cause(ctx)) })
	s.mu.Lock()
	s.stopWatch = unwatch
	over := s.ended
	s.mu.Unlock()
	if over {
		unwatch()
	}
}

// count notes that so many tokens were computed for outputs, and so many events made of them.
func (s *Stream) count(computed, events int) {
	if s.unseen != nil && computed != events {
		s.unseen.Add(int64(computed - events))
	}
}

// release closes the user code of the sequences that still have it.
func (s *Stream) release() {
	for _, q := range s.seqs {
		q.release()
	}
}

func (s *Stream) wake() {
	select {
	case s.ready <- struct{}{}:
	default:
	}
}
