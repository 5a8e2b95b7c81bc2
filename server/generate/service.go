package generate

import (
	"context"
	"errors"
	"time"

	"tgi/runtime/engine"
	"tgi/runtime/llm"
)

// Observer is notified of what happens to requests. Its methods must not block and are
// called from many goroutines.
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
	// Program: a program ended, for which the model computed tokens.
	Program(tokens int)
}

// Service runs requests. It is safe for concurrent use.
type Service struct {
	engine   Engine
	tok      Tokenizer
	limits   Limits
	observe  Observer
	code     UserCode
	grammars bool // requests may have some
	clients  func(context.Context) llm.Client
	strict   bool // requests may have no members that mean nothing
	permits  *permits
	workers  *workers
	turns    Turns // nil where the processors are not shared
	adapters Adapters
	healing  *healing // nil where there is none
	images   Images   // nil where the model reads text only
	seeing   func() []string
	encoders *workers // turn images into vectors
	fetchers *workers
	adapter  string  // of requests that choose none; "" is the model itself
	origin   *Origin // nil where there are no receipts
}

// New returns a Service; o may be nil.
func New(e Engine, t Tokenizer, l Limits, o Observer) *Service {
	if o == nil {
		o = nobody{}
	}
	return &Service{
		engine: e, tok: t, limits: l, observe: o, code: noCode{},
		clients: func(context.Context) llm.Client { return llm.Client{} },
		permits: newPermits(l.MaxConcurrent), workers: &workers{free: l.Workers}, adapters: noAdapters{},
	}
}

// WithClients shares places and steps between clients: f says whose the request of a context is. It is called before
// the first request.
func (s *Service) WithClients(f func(context.Context) llm.Client) *Service {
	s.clients = f
	return s
}

// client names the client of the request of ctx.
func (s *Service) client(ctx context.Context) string { return s.clients(ctx).Name }

// WithStrictFields refuses requests with members that mean nothing here. It is called before the first request.
func (s *Service) WithStrictFields() *Service {
	s.strict = true
	return s
}

// CheckKnown refuses a request with members that mean nothing, which are unknown, if the server is to; for routes
// whose replies do not tell why Start fails.
func (s *Service) CheckKnown(unknown []string) error {
	if s.strict && len(unknown) > 0 {
		return invalid(unknown[0], "`%s` is not known here (server.strict_fields)", unknown[0])
	}
	return nil
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
	d.noteHealing()
	if err := s.CheckKnown(d.Unknown); err != nil {
		return nil, err
	}
	n, err := s.sized(d)
	if err != nil {
		return nil, err
	}
	client := s.clients(ctx)
	if err := s.permits.take(client.Name, n.rows(), began); err != nil {
		return nil, err
	}
	run, err := s.submit(ctx, d, n, client, began)
	if err != nil {
		s.permits.give(client.Name, n.rows(), time.Now())
		return nil, err
	}
	return run, nil
}

// submit starts d, for which client has taken the permits.
func (s *Service) submit(ctx context.Context, d *Draft, n size, client llm.Client, began time.Time) (*Run, error) {
	ctx, cancel := context.WithCancel(ctx)
	run := &Run{service: s, unknown: d.Unknown, client: client.Name, cancel: cancel, began: began, streams: d.Stream,
		last: make([]time.Time, n.sequences), releaseAdapter: func() {}}
	if err := s.launch(ctx, run, d, n, client); err != nil {
		cancel()
		if run.code != nil {
			run.code.Close()
		}
		run.releaseAdapter()
		run.settleTokens()
		if errors.Is(err, llm.ErrOverloaded) {
			full := &Overloaded{}
			errors.As(err, &full) // its reason is kept
			full.RetryAfter = s.permits.retryAfter(time.Now())
			err = full
		}
		return nil, err
	}
	return run, nil
}

// launch binds d's user code, checks d, and submits it to the engine. If it fails, the
// caller closes what run holds.
func (s *Service) launch(ctx context.Context, run *Run, d *Draft, n size, client llm.Client) (err error) {
	run.conversation = d.Conversation
	if run.code, err = s.bind(ctx, d, run.began); err != nil {
		return err
	}
	other, err := s.renderOther(ctx, d, run.began)
	if err != nil {
		return err
	}
	if run.Request, err = s.check(ctx, d, n); err != nil {
		return err
	}
	if err = s.guide(ctx, d, other, &run.Request); err != nil {
		return err
	}
	if err = run.useAdapter(ctx, d); err != nil {
		return err
	}
	embeddings, err := s.embed(ctx, run.Request.pictures, run.Request.Prompt)
	if err != nil {
		return err
	}
	run.Request.pictures, run.imageSum = pictures{}, sumOfImages(embeddings)
	if err = run.begin(ctx, d); err != nil {
		return err
	}
	if err = run.reserve(ctx, d); err != nil {
		return err
	}
	run.Request.Checked = time.Since(run.began)
	s.observe.Checked(run.Request)
	r := &run.Request
	ctx = context.WithValue(ctx, draftKey{}, d)
	client, priority := d.rank(client)
	if bound, ok := run.code.(BoundProgram); ok && n.contexts > 0 {
		run.wantReceipt(d)
		run.submitted = time.Now()
		return s.startPrograms(ctx, run, d, bound, embeddings, client, priority)
	}
	run.stream, err = s.engine.Submit(ctx, engine.Request{Prompt: r.Prompt, Healed: r.healed, Params: r.Params,
		N: r.begun(), Plugins: run.sequence, Cancel: run.cancel, Client: client.Name, Share: client.Share,
		Beneath: client.Beneath, Priority: priority, Adapter: run.adapter.ID, Salt: run.adapter.Salt,
		Embeddings: embeddings, Prediction: r.prediction, Twins: r.twins,
		Mix: r.mix, Unseen: &run.unseen})
	if err != nil {
		return d.blameSearch(err)
	}
	run.submitted = time.Now()
	run.wantReceipt(d)
	return nil
}

type draftKey struct{}

// DraftOf returns the draft that Engine.Submit is called for with ctx; nil where it is called for none.
func DraftOf(ctx context.Context) *Draft {
	d, _ := ctx.Value(draftKey{}).(*Draft)
	return d
}

// work calls f while fewer than Limits.Workers others do, and in its client's turn, on the goroutine of the caller. It
// gives up waiting when ctx ends.
func (s *Service) work(ctx context.Context, f func()) error {
	client := s.client(ctx)
	if err := s.workers.enter(ctx, client); err != nil {
		return err
	}
	defer s.workers.leave(client)
	return InTurn(ctx, s.turns, client, f)
}

// nobody is the Observer that ignores everything.
type nobody struct{}

func (nobody) Arrived()                       {}
func (nobody) Checked(Request)                {}
func (nobody) Refused(error)                  {}
func (nobody) Token(bool, time.Duration)      {}
func (nobody) Finished(Timings, []llm.Finish) {}
func (nobody) Program(int)                    {}
