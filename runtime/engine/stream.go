package engine

import (
	"context"
	"sync"
	"time"

	"tgi/runtime/llm"
)

// Event is what one step did for one sequence of a request. Of a beam search there
// are none before its end: then come those of the best sequence, one for each token,
// and those of the next.
type Event struct {
	// Index says which of the request's sequences: 0 ≤ Index < N, or of a beam search
	// 0 ≤ Index < Params.NumReturn, the best first.
	Index int
	// Prefill rates the prompt's tokens: in the first event of sequence 0, and only
	// when Params.PromptLogprobs asks for it.
	Prefill []PromptToken
	// Token is the picked token.
	Token llm.Token
	// Text is what the token adds: empty while it leaves a character incomplete, more
	// than the token where it completes one, and the text of the token itself where it
	// is Special. It is cut behind a stop string that it completes.
	//
	// The texts of all events that are not Special, one after the other, are
	// Finish.Text. One thing is only there: the replacement character (U+FFFD) for a
	// character that the model left incomplete before a final special token.
	Text string
	// Logprob is the token's log-probability; of a beam search what the token added to
	// the sequence's score, or with RawLogprobs the model's own.
	Logprob float32
	// Special says that the token is not part of the generated text: it is one of the
	// tokenizer's special tokens, or it ended the sequence.
	Special bool
	// Top are the likeliest tokens, best first, when Params.TopN asks for them.
	Top []TopToken
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
	// Top are the likeliest tokens in its place, best first, when Params.PromptTopN
	// asks for them; none for the first token.
	Top []TopToken
}

// TopToken is one of the likeliest tokens of a step.
type TopToken struct {
	Token   llm.Token
	Text    string
	Logprob float32
	Special bool
}

// Timings of one sequence, from Submit on.
type Timings struct {
	// Queued is the time until the prompt's first tokens were computed.
	Queued time.Duration
	// First is the time until the first token.
	First time.Duration
	// Total is the time until this event.
	Total time.Duration
}

// Stream hands the events of one request to its reader. The engine never waits for
// the reader: a stream has room for all that its request can generate. One
// goroutine at a time may call Next; Close may be called by any.
type Stream struct {
	engine *Engine

	mu    sync.Mutex
	queue []item
	head  int
	final error         // after the queue; nil while sequences live
	ready chan struct{} // holds a token when there may be something new
	// unwatch ends the watch on the request's context; over says that the engine is
	// through with the stream.
	unwatch func() bool
	over    bool

	// What follows belongs to the engine's goroutine.
	seqs      []*sequence
	cancel    func() // Request.Cancel
	live      int    // sequences that did not end
	submitted time.Time
	started   time.Time // the first plan that held the prompt
	prefill   []PromptToken
}

// item is what Next returns.
type item struct {
	event Event
	err   error
}

// Next returns the next event, waiting for it until ctx is done. After the last
// it returns io.EOF. An error that wraps llm.ErrPlugin or llm.ErrBackend is the end
// of the sequence that Event.Index names; the other sequences of the request go on
// and so may the reader. When the request's context is done, its cause is returned;
// after Close context.Canceled is; when the engine was closed, llm.ErrClosed.
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

// Close tells the engine that nobody reads any more. Sequences that still run are
// aborted and their blocks freed before the next step. It may be called more than once
// and after the end.
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

// push appends an item for the reader; a closed stream takes none.
func (s *Stream) push(it item) {
	s.mu.Lock()
	if s.final == nil {
		s.queue = append(s.queue, it)
	}
	s.mu.Unlock()
	s.wake()
}

// end says what Next returns after the events pushed so far. No sequence lives.
func (s *Stream) end(err error) {
	s.mu.Lock()
	if s.final == nil {
		s.final = err
	}
	s.over = true
	unwatch := s.unwatch
	s.mu.Unlock()
	if unwatch != nil {
		unwatch()
	}
	s.wake()
}

// watch cancels the stream when ctx is done, as long as a sequence lives.
func (s *Stream) watch(ctx context.Context) {
	unwatch := context.AfterFunc(ctx, func() { s.engine.cancel(s, context.Cause(ctx)) })
	s.mu.Lock()
	s.unwatch = unwatch
	over := s.over
	s.mu.Unlock()
	if over {
		unwatch()
	}
}

// release closes the user code of all sequences, where that has not been done.
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
