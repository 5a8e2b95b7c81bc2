package generate

import "context"

// Turns shares the processors among what is done for requests beside the steps; see plugins.Turns.
type Turns interface {
	// Begin makes a piece of work of a client. It is to be ended.
	Begin(client string) Turn
}

// Turn is a piece of work, of one goroutine.
type Turn interface {
	// Take waits for a processor, and reports whether it came before ctx ended.
	Take(ctx context.Context) bool
	// Yield is called often by work that has a processor, and waits if another has priority. It returns false when ctx
	// ended.
	Yield(ctx context.Context) bool
	// End gives the processor back.
	End()
}

// InTurn calls f, which waits for nothing, when a processor is free for the client. t is nil where they are not shared.
// The error is ctx's cause, when that ends before.
func InTurn(ctx context.Context, t Turns, client string, f func()) error {
	if t == nil {
		f()
		return nil
	}
	turn := t.Begin(client)
	defer turn.End()
	if !turn.Take(ctx) {
		return context.Cause(ctx)
	}
	f()
	return nil
}

// WithTurns has texts turned into tokens by turns. It is called before the first request.
func (s *Service) WithTurns(t Turns) *Service {
	s.turns = t
	return s
}

// encoding is the work of turning a text into tokens, of a request that has a worker.
type encoding struct {
	service *Service
	client  string
	worker  bool // it has one
	turn    Turn // nil where the processors are not shared
}

// begin waits for a worker and a processor. It is to be ended in any case.
func (e *encoding) begin(ctx context.Context) error {
	if err := e.service.workers.enter(ctx, e.client); err != nil {
		return err
	}
	e.worker = true
	return e.take(ctx)
}

// take waits for a processor.
func (e *encoding) take(ctx context.Context) error {
	if e.service.turns == nil {
		return nil
	}
	if e.turn = e.service.turns.Begin(e.client); !e.turn.Take(ctx) {
		return context.Cause(ctx)
	}
	return nil
}

// giveBack gives the processor back.
func (e *encoding) giveBack() {
	if e.turn != nil {
		e.turn.End()
		e.turn = nil
	}
}

// pause lets others go on who wait. Nobody waits for a worker with a processor, which those who have a worker may wait
// for.
func (e *encoding) pause(ctx context.Context) error {
	if e.service.workers.alone() && ctx.Err() == nil {
		if e.turn != nil && !e.turn.Yield(ctx) {
			return context.Cause(ctx)
		}
		return nil
	}
	e.giveBack()
	e.worker = false
	if err := e.service.workers.pause(ctx, e.client); err != nil {
		return err
	}
	e.worker = true
	return e.take(ctx)
}

// end gives back what it has.
func (e *encoding) end() {
	e.giveBack()
	if e.worker {
		e.service.workers.leave(e.client)
	}
}
