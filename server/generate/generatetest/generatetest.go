// Package generatetest has a scripted engine and a tokenizer of words, for
// tests of whatever stands on package generate.
package generatetest

import (
	"context"
	"io"
	"iter"
	"strings"
	"sync"
	"time"

	"tgi/runtime/engine"
	"tgi/runtime/llm"
	"tgi/server/generate"
)

// Engine plays back a script. Its fields must not change while it is in use.
type Engine struct {
	// Script returns the events of a request; nil is Echo.
	Script func(r engine.Request) []engine.Event
	// Refuse, when set, is what Submit returns.
	Refuse error
	// Break, when set, is what streams end with instead of io.EOF.
	Break error
	// Sick is what Healthy returns.
	Sick error
	// Step, when set, is received from before each event: closing it lets all go.
	Step chan struct{}
	// Pause, when set, goes by before each event.
	Pause time.Duration

	mu       sync.Mutex
	requests []engine.Request
	running  int
}

// Submit implements generate.Engine.
func (e *Engine) Submit(ctx context.Context, r engine.Request) (generate.Stream, error) {
	if e.Refuse != nil {
		return nil, e.Refuse
	}
	script := e.Script
	if script == nil {
		script = Echo
	}
	e.mu.Lock()
	e.requests = append(e.requests, r)
	e.running++
	e.mu.Unlock()
	context.AfterFunc(ctx, func() {
		e.mu.Lock()
		e.running--
		e.mu.Unlock()
	})
	return &stream{engine: e, ctx: ctx, events: script(r)}, nil
}

// Healthy implements generate.Engine.
func (e *Engine) Healthy() error { return e.Sick }

// Requests returns what was submitted.
func (e *Engine) Requests() []engine.Request {
	e.mu.Lock()
	defer e.mu.Unlock()
	return append([]engine.Request(nil), e.requests...)
}

// Running counts the requests whose context has not ended.
func (e *Engine) Running() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.running
}

type stream struct {
	engine *Engine
	ctx    context.Context
	events []engine.Event
}

// Next implements generate.Stream.
func (s *stream) Next(ctx context.Context) (engine.Event, error) {
	var pause <-chan time.Time
	if s.engine.Pause > 0 {
		pause = time.After(s.engine.Pause)
	} else {
		done := make(chan time.Time)
		close(done)
		pause = done
	}
	step := s.engine.Step
	if step == nil {
		step = make(chan struct{})
		close(step)
	}
	for range 2 {
		select {
		case <-pause:
			pause = nil
		case <-step:
			step = nil
		case <-s.ctx.Done():
			return engine.Event{}, context.Cause(s.ctx)
		case <-ctx.Done():
			return engine.Event{}, context.Cause(ctx)
		}
	}
	if len(s.events) == 0 {
		if s.engine.Break != nil {
			return engine.Event{}, s.engine.Break
		}
		return engine.Event{}, io.EOF
	}
	e := s.events[0]
	s.events = s.events[1:]
	return e, nil
}

// Echo says MaxNewTokens times " x" and ends with length.
func Echo(r engine.Request) []engine.Event {
	tokens := make([]generate.Token, r.Params.MaxNewTokens)
	for i := range tokens {
		tokens[i] = generate.Token{Token: llm.Token(i), Text: " x", Logprob: -0.5}
	}
	var events []engine.Event
	for i := range max(r.N, 1) {
		events = append(events, Sequence(r, i, llm.FinishLength, tokens...)...)
	}
	return events
}

// Sequence returns the events of sequence i of r, which generates tokens.
func Sequence(r engine.Request, i int, end llm.Reason, tokens ...generate.Token) []engine.Event {
	var text strings.Builder
	events := make([]engine.Event, len(tokens))
	for j, t := range tokens {
		events[j] = engine.Event{Index: i, Token: t.Token, Text: t.Text, Logprob: t.Logprob, Special: t.Special}
		if !t.Special {
			text.WriteString(t.Text)
		}
	}
	events[len(events)-1].Finish = &llm.Finish{
		Reason: end, Text: text.String(), Generated: len(tokens), Prompt: len(r.Prompt),
		Seed: llm.SeedFor(r.Params.Seed, i),
	}
	return events
}

// Words is a tokenizer with a token per word, whose id is the word's length;
// special adds none.
type Words struct {
	// Hold, when set, is received from before each call returns.
	Hold chan struct{}
}

// Vocab bounds the ids of Words.
const Vocab = 1000

// EncodePrompt implements generate.Tokenizer. Words knows no special tokens, so data are text as any other.
func (w Words) EncodePrompt(text string, o llm.Encoding) (llm.Encoded, error) {
	return Within(w.EncodeSpans(text, nil), o), nil
}

// Within is what o wants of the tokens of a text.
func Within(all []llm.Token, o llm.Encoding) llm.Encoded {
	e := llm.Encoded{Tokens: all, Count: len(all)}
	if o.Most > 0 && len(all) > o.Most {
		e.Tokens = nil
	} else if o.Keep > 0 {
		e.Tokens = all[max(0, len(all)-o.Keep):]
	}
	return e
}

// Pieces implements generate.Tokenizer.
func (w Words) Pieces(text string, _ bool) iter.Seq[generate.Piece] {
	return func(yield func(generate.Piece) bool) {
		if w.Hold != nil {
			<-w.Hold
		}
		chars := []rune(text)
		for start := 0; start < len(chars); {
			end := start + 1
			for end < len(chars) && chars[end] != ' ' {
				end++
			}
			word := string(chars[start:end])
			if !yield(generate.Piece{ID: llm.Token(min(len(word), Vocab-1)), Text: word, Start: start, End: end}) {
				return
			}
			start = end
		}
	}
}

// EncodeSpans implements generate.Tokenizer.
func (w Words) EncodeSpans(text string, _ []generate.Span) []llm.Token {
	ids := []llm.Token{}
	for p := range w.Pieces(text, false) {
		ids = append(ids, p.ID)
	}
	return ids
}

// SpanPieces implements generate.Tokenizer.
func (w Words) SpanPieces(text string, _ []generate.Span) iter.Seq[generate.Piece] {
	return w.Pieces(text, false)
}

// Bytes implements generate.Tokenizer. The ids of Words are lengths: they stand for no
// text.
func (Words) Bytes(llm.Token) ([]byte, bool) { return nil, false }

// Limits are small round numbers.
func Limits() generate.Limits {
	return generate.Limits{
		MaxConcurrent: 16, MaxBestOf: 2, MaxStop: 4, MaxTopN: 5, MaxInput: 10, MaxTotal: 20,
		Workers: 2, Vocab: Vocab, WatermarkGamma: 0.5, WatermarkDelta: 2,
	}
}
