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

// maxStreams is how many requests run on one connection of HTTP/2.
const maxStreams = 100

// closing is how long idle connections and last writes may take once no request is running, within the grace;
// lastWords is how long they may take behind it.
const closing, lastWords = 5 * time.Second, time.Second

// ErrGrace: requests were still running when the time to shut down was over.
var ErrGrace = errors.New("graceful termination timed out")

// Serve is ServeBoth without an address for administrators.
func (s *Server) Serve(ctx context.Context, l net.Listener) error { return s.ServeBoth(ctx, l, nil) }

// ServeBoth answers requests from public and, unless it is nil, those of
// administrators from admin, until ctx ends. Then it drains: health probes get 503,
// new requests do so after the configured delay, in which balancers notice, and running
// ones finish within the configured grace behind it. It returns nil when all did,
// ErrGrace when some had to be cut off, and otherwise why it could not serve. It closes
// the listeners.
func (s *Server) ServeBoth(ctx context.Context, public, admin net.Listener) error {
	config := s.options.Config
	// Requests do not end with ctx: they have the grace time.
	base, cut := context.WithCancelCause(context.WithoutCancel(ctx))
	defer cut(nil)
	failed := make(chan error, 2)
	start := func(l net.Listener, h http.Handler) *http.Server {
		one := s.listener(base, h)
		go func() { failed <- fmt.Errorf("serve %s: %w", l.Addr(), one.Serve(l)) }()
		return one
	}
	servers := []*http.Server{start(public, s.public)}
	if admin != nil {
		servers = append(servers, start(admin, s.private))
	}
	select {
	case err := <-failed:
		for _, h := range servers {
			_ = h.Close()
		}
		return err
	case <-ctx.Done():
	}

	s.gate.announce()
	loading := s.handlers.Load().loading // nobody was served: nobody has to notice
	if !loading {
		s.linger(failed)
	}
	s.gate.close()
	for _, h := range servers {
		h.SetKeepAlivesEnabled(false)
	}
	if !loading {
		s.options.Log.Info("draining", "running", s.gate.count(), "timeout",
			config.GracefulTerminationTimeout.String())
	}
	end := time.Now().Add(time.Duration(config.GracefulTerminationTimeout))
	grace := time.NewTimer(time.Duration(config.GracefulTerminationTimeout))
	defer grace.Stop()
	var late error
	select {
	case <-s.gate.empty:
	case <-grace.C:
		late = fmt.Errorf("%w after %s: %d requests were cut off", ErrGrace,
			time.Duration(config.GracefulTerminationTimeout), s.gate.count())
		cut(llm.ErrDraining)
		close(s.late)
		select { // those that were cut off say so
		case <-s.gate.empty:
		case <-time.After(lastWords):
		}
	}
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), min(closing, max(lastWords, time.Until(end))))
	defer cancel()
	for _, h := range servers {
		if err := h.Shutdown(last); err != nil {
			_ = h.Close()
			if late == nil {
				s.options.Log.Warn("closed connections that did not end in time", "error", err)
			}
		}
	}
	return late
}

// linger lets those who balance load notice by the probes that this server ends: until the delay is over, requests are
// still served. Replies ask their clients to connect anew, since connections that end when they are idle could meet
// one more request.
func (s *Server) linger(failed <-chan error) {
	delay := time.Duration(s.options.Config.DrainDelay)
	if delay <= 0 {
		return
	}
	s.options.Log.Info("draining soon: probes fail, requests are still served", "running", s.gate.count(), "delay",
		delay.String())
	over := time.NewTimer(delay)
	defer over.Stop()
	select {
	case <-over.C:
	case err := <-failed: // nobody can come any more
		s.options.Log.Warn("draining at once", "error", err)
	}
}

// listener returns what answers the requests of one address with h.
func (s *Server) listener(base context.Context, h http.Handler) *http.Server {
	c := s.options.Config
	return &http.Server{
		ConnState:         noteState,
		MaxHeaderBytes:    int(c.HeaderLimit),
		HTTP2:             &http.HTTP2Config{MaxConcurrentStreams: maxStreams},
		Handler:           h,
		ReadHeaderTimeout: time.Duration(c.HeaderTimeout),
		ReadTimeout:       time.Duration(c.ReadTimeout),
		IdleTimeout:       time.Duration(c.IdleTimeout),
		BaseContext:       func(net.Listener) context.Context { return base },
		ErrorLog:          slog.NewLogLogger(s.options.Log.Handler(), slog.LevelDebug),
	}
}
