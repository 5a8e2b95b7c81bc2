package host

import (
	"context"
	"time"

	"tgi/server"
)

// bootServer answers before there is a model: probes, /metrics and, for everything
// else, that it is loading.
type bootServer struct {
	version string
	metrics *server.Metrics
	tracer  *server.Tracer // nil makes no traces
	server  *server.Server
}

// traceTimeout is how long the last traces may take to be sent.
const traceTimeout = 5 * time.Second

func newBootServer(o Options) (*bootServer, error) {
	cfg := o.Config
	tracer, err := server.NewTracer(cfg.Trace, o.Version, o.Log)
	if err != nil {
		return nil, err
	}
	b := &bootServer{version: o.Version, metrics: server.NewMetrics(), tracer: tracer}
	opt := server.Options{Config: cfg.Server, Keys: cfg.Key, Tracer: tracer, Log: o.Log}
	if cfg.Metrics.Enabled {
		opt.Metrics = b.metrics
	}
	b.server = server.New(opt)
	return b, nil
}

// Close sends the last traces.
func (b *bootServer) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), traceTimeout)
	defer cancel()
	return b.tracer.Close(ctx)
}
