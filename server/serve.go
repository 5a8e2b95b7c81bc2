package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"tgi/runtime/llm"
)

// closing is how long idle connections and last writes may take once no
// request is running.
const closing = 5 * time.Second

// ErrGrace: requests were still running when the time to shut down was over.
var ErrGrace = errors.New("graceful termination timed out")

// Serve answers requests from l until ctx ends, then drains: new requests and
// health probes get 503, running ones finish within the configured grace. It
// returns nil when all did, ErrGrace when some had to be cut off, and otherwise
// why it could not serve. It closes l.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	config := s.options.Config
	// Requests do not end with ctx: they have the grace time.
	base, cut := context.WithCancelCause(context.WithoutCancel(ctx))
	defer cut(nil)
	h := &http.Server{
		Handler:           s,
		ReadHeaderTimeout: time.Duration(config.ReadTimeout),
		ReadTimeout:       time.Duration(config.ReadTimeout),
		IdleTimeout:       time.Duration(config.IdleTimeout),
		BaseContext:       func(net.Listener) context.Context { return base },
		ErrorLog:          slog.NewLogLogger(s.options.Log.Handler(), slog.LevelDebug),
	}
	failed := make(chan error, 1)
	go func() { failed <- h.Serve(l) }()
	select {
	case err := <-failed:
		return fmt.Errorf("serve %s: %w", l.Addr(), err)
	case <-ctx.Done():
	}

	s.gate.close()
	h.SetKeepAlivesEnabled(false)
	s.options.Log.Info("draining", "running", s.gate.count(), "grace", time.Duration(config.GracefulTerminationTimeout))
	grace := time.NewTimer(time.Duration(config.GracefulTerminationTimeout))
	defer grace.Stop()
	var late error
	select {
	case <-s.gate.empty:
	case <-grace.C:
		late = fmt.Errorf("%w after %s: %d requests were cut off", ErrGrace, time.Duration(config.GracefulTerminationTimeout), s.gate.count())
		cut(llm.ErrDraining)
	}
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), closing)
	defer cancel()
	if err := h.Shutdown(last); err != nil {
		_ = h.Close()
		if late == nil {
			s.options.Log.Warn("closed connections that would not end", "error", err)
		}
	}
	return late
}
