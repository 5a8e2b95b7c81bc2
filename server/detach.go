package server

import (
	"context"
	"errors"
	"net/http"

	"tgi/runtime/llm"
	"tgi/server/generate"
	"tgi/server/quota"
)

// stay is what the server holds for a request.
type stay struct {
	server    *Server
	held      *holding
	lease     *quota.Lease // nil where nothing is counted
	operation *operation   // nil for a route that is open to all
	account   string       // what its client is charged to
	// closed says that no model computes for the request itself: it opens a connection, or looks at what there is.
	closed bool
	// kept says that work behind the handler holds it now.
	kept bool
}

type stayKey struct{}

// leave ends the stay when the handler of the request of ctx has returned, and replied with status.
func (s *stay) leave(ctx context.Context, status int) {
	if !s.kept {
		s.release()
		s.end(ctx, status)
	}
}

// end tells metrics and traces how the request went.
func (s *stay) end(ctx context.Context, status int) {
	if s.operation == nil {
		return
	}
	v := logOf(ctx)
	if v == nil {
		v = &requestLog{}
	}
	s.operation.observe(ctx, s.server.options.Metrics, s.server.options.Tracer, status, v.err)
	s.server.options.Tracer.end(ctx, status)
}

// release gives back what the request has.
func (s *stay) release() {
	s.held.release()
	if s.lease != nil {
		s.lease.Leave()
	}
}

// context is that of the request's handler.
func (s *stay) context(ctx context.Context) context.Context {
	ctx = context.WithValue(generate.WithRoom(ctx, s.held.take), stayKey{}, s)
	switch {
	case s.lease != nil:
		return generate.WithMeter(ctx, s.lease)
	case s.closed:
		return generate.WithMeter(ctx, notLetIn{})
	}
	return generate.WithMeter(ctx, nil) // and not that of the request which opened the connection
}

// notLetIn is the meter of requests for which no model may compute: what comes on a connection must be let in first, or
// the limits of its key would not hold.
type notLetIn struct{}

// Reserve implements generate.Meter.
func (notLetIn) Reserve(context.Context, int) (generate.Settle, error) { return nil, errNotLetIn }

var errNotLetIn = errors.New("BUG: no model computes for the request that opens a connection: see server.Connection")

// Detach lets the work of the request of ctx go on when its handler has returned and its client has left. The context
// has the request's values and ends with cancel, or when the time to shut down is over: then its cause is
// llm.ErrDraining. Until release, which is called exactly once, the work counts as a request that runs, so that the
// server waits for it when it shuts down, and what the request holds of server.payload_memory stays taken. A handler
// calls it once at most. The error is llm.ErrDraining.
func Detach(ctx context.Context) (detached context.Context, cancel context.CancelCauseFunc, release func(), err error) {
	s, ok := ctx.Value(stayKey{}).(*stay)
	detached, cancel = context.WithCancelCause(context.WithoutCancel(ctx))
	if !ok {
		return detached, cancel, func() { cancel(nil) }, nil
	}
	if !s.server.gate.enter() {
		cancel(nil)
		return nil, nil, nil, llm.ErrDraining
	}
	s.kept = true
	done := make(chan struct{})
	go func() {
		select {
		case <-s.server.late:
			cancel(llm.ErrDraining)
		case <-done:
		}
	}()
	return detached, cancel, func() {
		close(done)
		cancel(nil)
		s.release()
		s.end(detached, http.StatusOK)
		s.server.gate.leave()
	}, nil
}
