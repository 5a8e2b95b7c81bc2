package cost

import (
	"context"
	"io"
	"strings"
	"time"

	"tgi/runtime/engine"
	"tgi/runtime/llm"
	"tgi/server/generate"
)

// instant is an engine that has every token at once, or when told to.
type instant struct {
	// step, when set, is received from before each token, which is then sent
	// with the time on sent.
	step chan struct{}
	sent chan time.Time
}

// Submit implements generate.Engine.
func (e *instant) Submit(ctx context.Context, r engine.Request) (generate.Stream, error) {
	return &tokens{engine: e, ctx: ctx, left: r.Params.MaxNewTokens, prompt: len(r.Prompt)}, nil
}

// Healthy implements generate.Engine.
func (e *instant) Healthy() error { return nil }

type tokens struct {
	engine      *instant
	ctx         context.Context
	left, given int
	prompt      int
}

// Next implements generate.Stream.
func (s *tokens) Next(ctx context.Context) (engine.Event, error) {
	if s.left == 0 {
		return engine.Event{}, io.EOF
	}
	if s.engine.step != nil {
		select {
		case <-s.engine.step:
		case <-s.ctx.Done():
			return engine.Event{}, context.Cause(s.ctx)
		case <-ctx.Done():
			return engine.Event{}, context.Cause(ctx)
		}
	}
	s.left, s.given = s.left-1, s.given+1
	e := engine.Event{Token: llm.Token(s.given), Text: " word", Logprob: -1.2345678}
	if s.left == 0 {
		e.Finish = &llm.Finish{Reason: llm.FinishLength, Text: strings.Repeat(" word", s.given), Generated: s.given,
			Prompt: s.prompt}
	}
	if s.engine.step != nil {
		s.engine.sent <- time.Now()
	}
	return e, nil
}
