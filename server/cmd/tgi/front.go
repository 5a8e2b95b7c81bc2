package main

import (
	"context"
	"log/slog"
	"time"

	"tgi/server"
	"tgi/server/config"
)

// front is what answers before there is a model: probes, /metrics and, for
// everything else, that it is loading.
type front struct {
	metrics *server.Metrics
	tracer  *server.Tracer // nil makes no traces
	server  *server.Server
	reread  rereader // nil reads nothing again
}

// tracesPatience is how long the last traces may take to be sent.
const tracesPatience = 5 * time.Second

func newFront(cfg config.Config, log *slog.Logger) (*front, error) {
	tracer, err := server.NewTracer(cfg.Trace, version, log)
	if err != nil {
		return nil, err
	}
	f := &front{metrics: server.NewMetrics(), tracer: tracer}
	opt := server.Options{Config: cfg.Server, Keys: cfg.Key, Tracer: tracer, Log: log}
	if cfg.Metrics.Enabled {
		opt.Metrics = f.metrics
	}
	f.server = server.NewLoading(opt)
	return f, nil
}

// Close sends the last traces.
func (f *front) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), tracesPatience)
	defer cancel()
	return f.tracer.Close(ctx)
}
