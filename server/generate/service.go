package generate

import (
	"context"
	"errors"
	"time"

	"tgi/runtime/engine"
	"tgi/runtime/llm"
)

// Observer is told what becomes of requests; its methods must not block. They
// are called from many goroutines.
type Observer interface {
	// Arrived: a request entered.
	Arrived()
	// Checked: it passed the checks and holds its final settings.
	Checked(r Request)
	// Refused: it did not run, or did not run to its end, because of err. A
	// client that went away is context.Canceled.
	Refused(err error)
	// Token: the gap before a sequence's token, from submission for its first.
	Token(first bool, gap time.Duration)
	// Finished: it ran to its end.
	Finished(t Timings, sequences []llm.Finish)
}

// Service runs requests. It is safe for concurrent use.
type Service struct {
	engine  Engine
	tok     Tokenizer
	limits  Limits
	observe Observer
	permits *permits
	workers chan struct{}
}

// New returns a Service; o may be nil.
func New(e Engine, t Tokenizer, l Limits, o Observer) *Service {
	if o == nil {
		o = nobody{}
	}
	return &Service{
		engine: e, tok: t, limits: l, observe: o,
		permits: newPermits(l.MaxConcurrent), workers: make(chan struct{}, l.Workers),
	}
}

// Healthy is the engine's.
func (s *Service) Healthy() error { return s.engine.Healthy() }

// Start checks d, takes its permits and submits it. The Run must be closed.
// Errors are *Invalid, *Overloaded, those of Engine.Submit, or ctx's cause.
func (s *Service) Start(ctx context.Context, d Draft) (*Run, error) {
	s.observe.Arrived()
	run, err := s.start(ctx, &d)
	if err != nil {
		s.observe.Refused(err)
		return nil, err
	}
	return run, nil
}

func (s *Service) start(ctx context.Context, d *Draft) (*Run, error) {
	began := time.Now()
	if err := s.limits.checkShape(d); err != nil {
		return nil, err
	}
	n := sequences(d)
	if !s.permits.take(n, began) {
		return nil, &Overloaded{RetryAfter: s.permits.wait(n, began)}
	}
	run, err := s.submit(ctx, d, n, began)
	if err != nil {
		s.permits.give(n, time.Now())
	}
	return run, err
}

// submit brings d, whose permits are taken, to the engine.
func (s *Service) submit(ctx context.Context, d *Draft, n int, began time.Time) (*Run, error) {
	req, err := s.check(ctx, d, n, began)
	if err != nil {
		return nil, err
	}
	s.observe.Checked(req)
	ctx, cancel := context.WithCancel(ctx)
	stream, err := s.engine.Submit(ctx, engine.Request{Prompt: req.Prompt, Params: req.Params, N: n})
	if err != nil {
		cancel()
		if errors.Is(err, llm.ErrOverloaded) {
			err = &Overloaded{RetryAfter: s.permits.wait(1, time.Now())}
		}
		return nil, err
	}
	now := time.Now()
	return &Run{
		Request: req, service: s, stream: stream, cancel: cancel,
		began: began, submitted: now, last: make([]time.Time, n),
	}, nil
}

// check turns d into a Request. Everything that needs no tokens comes first.
func (s *Service) check(ctx context.Context, d *Draft, n int, began time.Time) (Request, error) {
	p, err := s.limits.checkSettings(d)
	if err != nil {
		return Request{}, err
	}
	var prompt []llm.Token
	if err := s.work(ctx, func() { prompt = s.tok.Encode(d.Inputs, !d.RawPrompt) }); err != nil {
		return Request{}, err
	}
	if prompt, err = s.limits.checkLength(d, prompt, &p); err != nil {
		return Request{}, err
	}
	return Request{Prompt: prompt, Params: p, Sequences: n, Checked: time.Since(began)}, nil
}

// Tokenize returns the tokens of text with their places, special tokens
// included. It takes no permit.
func (s *Service) Tokenize(ctx context.Context, text string) ([]Piece, error) {
	var pieces []Piece
	err := s.work(ctx, func() { pieces = s.tok.EncodePieces(text, true) })
	return pieces, err
}

// work calls f while fewer than Limits.Workers others do, on the goroutine of
// the caller. It gives up waiting when ctx ends.
func (s *Service) work(ctx context.Context, f func()) error {
	select {
	case s.workers <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	defer func() { <-s.workers }()
	f()
	return nil
}

// nobody observes nothing.
type nobody struct{}

func (nobody) Arrived()                       {}
func (nobody) Checked(Request)                {}
func (nobody) Refused(error)                  {}
func (nobody) Token(bool, time.Duration)      {}
func (nobody) Finished(Timings, []llm.Finish) {}
