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
	engine   Engine
	tok      Tokenizer
	limits   Limits
	observe  Observer
	plugins  Plugins  // nil for none
	chat     Chat     // nil for none
	grammars Grammars // nil for none
	permits  *permits
	workers  chan struct{}
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

// WithPlugins lets requests use p. It is called before the first request.
func (s *Service) WithPlugins(p Plugins) *Service {
	s.plugins = p
	return s
}

// WithChat lets requests be conversations. It is called before the first
// request.
func (s *Service) WithChat(c Chat) *Service {
	s.chat = c
	return s
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
	n := rows(d)
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
func (s *Service) submit(ctx context.Context, d *Draft, permits int, began time.Time) (*Run, error) {
	ctx, cancel := context.WithCancel(ctx)
	n := wanted(d)
	run := &Run{service: s, cancel: cancel, began: began, permits: permits, last: make([]time.Time, n)}
	if err := s.launch(ctx, run, d, n); err != nil {
		cancel()
		run.release()
		if errors.Is(err, llm.ErrOverloaded) {
			full := &Overloaded{}
			errors.As(err, &full) // its reason is kept
			full.RetryAfter = s.permits.wait(1, time.Now())
			err = full
		}
		return nil, err
	}
	return run, nil
}

// launch checks d, gives the run its user code and the engine the run. What it
// has set in run when it fails is the caller's to close.
func (s *Service) launch(ctx context.Context, run *Run, d *Draft, n int) (err error) {
	if run.conversation = d.Conversation; run.conversation != nil {
		if run.chat, err = s.converse(ctx, d, run.began); err != nil {
			return err
		}
	}
	if run.Request, err = s.check(ctx, d, n); err != nil {
		return err
	}
	if run.chat != nil {
		run.tools = run.conversation.ToolsRequest(run.Request.Inputs)
	}
	if run.plugins, err = s.bind(ctx, d); err != nil {
		return err
	}
	begun := n
	if run.Request.Params.BeamSearch() { // the engine forks the one that it begins with
		begun = 1
	}
	if err = run.constrain(ctx, d, begun); err != nil {
		return err
	}
	if err = run.parse(ctx, n); err != nil {
		return err
	}
	run.Request.Checked = time.Since(run.began)
	s.observe.Checked(run.Request)
	req := engine.Request{Prompt: run.Request.Prompt, Params: run.Request.Params, N: begun, Cancel: run.cancel}
	if p := run.plugins; p != nil {
		if err := p.Begin(req.Prompt, req.Params.MaxNewTokens, req.Params.Seed, begun); err != nil {
			return err
		}
		req.Plugins = p.Sequence
	}
	if penalty := run.Request.CountPenalty; penalty != 0 {
		req.Plugins = penalized(req.Plugins, penalty)
	}
	if run.reasoning != nil {
		req.Plugins = run.bounded(req.Plugins)
	}
	if run.grammar != nil {
		req.Plugins = masked(req.Plugins, run.grammar)
	}
	if run.stream, err = s.engine.Submit(ctx, req); err != nil {
		return err
	}
	run.submitted = time.Now()
	return nil
}

// bind picks the plugins of a request.
func (s *Service) bind(ctx context.Context, d *Draft) (BoundPlugins, error) {
	switch {
	case s.plugins != nil:
		return s.plugins.Bind(ctx, d.Plugins)
	case len(d.Plugins) > 0:
		return nil, invalid("plugins", "plugin `%.64s` is not installed", d.Plugins[0].Name)
	}
	return nil, nil
}

// check turns d, whose conversation is rendered, into a Request. Everything that
// needs no tokens comes first, but for the template: an empty prompt is told from
// what it made.
func (s *Service) check(ctx context.Context, d *Draft, n int) (Request, error) {
	p, err := s.limits.checkSettings(d)
	if err != nil {
		return Request{}, err
	}
	prompt := d.Tokens
	if prompt == nil {
		if err := s.work(ctx, func() { prompt = s.encode(d) }); err != nil {
			return Request{}, err
		}
	}
	if prompt, err = s.limits.checkLength(d, prompt, &p); err != nil {
		return Request{}, err
	}
	if err := s.checkGrammar(d); err != nil {
		return Request{}, err
	}
	if d.Adapter != nil {
		return Request{}, invalid("adapter_id", "adapter `%.64s` is not loaded", *d.Adapter)
	}
	r := Request{Prompt: prompt, Inputs: d.Inputs, Params: p, Sequences: n}
	if d.Rules == OpenAI {
		r.CountPenalty = or(d.FrequencyPenalty, 0)
	}
	return r, nil
}

// encode returns the tokens of d's text.
func (s *Service) encode(d *Draft) []llm.Token {
	if d.RawPrompt {
		return s.tok.EncodeSpans(d.Inputs, d.Data)
	}
	return s.tok.Encode(d.Inputs, true)
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
