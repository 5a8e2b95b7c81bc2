package host

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/redis/go-redis/v9"

	"tgi/plugins"
	"tgi/server"
	"tgi/server/api/redislink"
	"tgi/server/config"
	"tgi/server/playground"
	"tgi/server/quota"
	"tgi/server/record"
)

// bootServer answers before there is a model: probes, /metrics and, for everything
// else, that it is loading.
type bootServer struct {
	version string
	metrics *server.Metrics
	tracer  *server.Tracer   // nil makes no traces
	records *record.Recorder // nil keeps none
	quotas  *quota.Quotas
	server  *server.Server
}

// traceTimeout is how long the last traces may take to be sent.
var traceTimeout = 5 * time.Second

func newBootServer(o Options) (*bootServer, error) {
	cfg := o.Config
	tracer, err := server.NewTracer(cfg.Trace, o.Version, o.Log)
	if err != nil {
		return nil, err
	}
	quotas, err := openQuotas(cfg, o.Log)
	if err != nil {
		return nil, err
	}
	b := &bootServer{version: o.Version, metrics: server.NewMetrics(), tracer: tracer,
		quotas: quotas}
	if b.records, err = openRecorder(cfg.Record, o.Log); err != nil {
		return nil, errors.Join(err, b.Close())
	}
	if err := plugins.Interpreted(); err != nil {
		o.Log.Warn("plugins are interpreted, which takes many times as long: this process is not allowed to make "+
			"memory executable", "error", err)
	}
	b.metrics.WatchRecorder(b.records)
	opt := server.Options{Config: cfg.Server, Keys: cfg.Key, Tracer: tracer, Recorder: b.records,
		Quotas: quotas, Log: o.Log}
	if cfg.Metrics.Enabled {
		opt.Metrics = b.metrics
	}
	if cfg.Server.Playground {
		opt.Pages = playground.New()
	}
	b.metrics.WatchKeys(quotas.Usage)
	b.server = server.New(opt)
	return b, nil
}

// openRecorder returns what keeps requests, nil for nothing.
func openRecorder(c config.Record, log *slog.Logger) (*record.Recorder, error) {
	if c.Folder == "" {
		return nil, nil
	}
	log.Info("requests and replies are recorded", "folder", c.Folder)
	return record.Open(record.Config{Folder: c.Folder, MaxFile: int64(c.MaxFile), MaxFiles: c.MaxFiles,
		MaxBody: int64(c.MaxBody), Memory: int64(c.Memory), Fields: c.Redact, Headers: c.RedactHeaders}, log)
}

// openQuotas returns the limits of keys. Redis may come up later: then each replica keeps to them by itself until it
// does.
func openQuotas(cfg config.Config, log *slog.Logger) (*quota.Quotas, error) {
	limits, order := map[string]quota.Limits{}, []string(nil)
	for _, k := range cfg.AllKeys() {
		order = append(order, k.Name)
		limits[k.Name] = quota.Limits{RequestsPerMinute: k.RequestsPerMinute, TokensPerMinute: k.TokensPerMinute,
			TokensPerDay: k.TokensPerDay, Concurrent: k.ConcurrentRequests}
	}
	var client *redis.Client
	if cfg.Quota.RedisURL != "" {
		var err error
		if client, err = redislink.Open(cfg.Quota.RedisURL); err != nil {
			return nil, fmt.Errorf("quota.redis_url: %w", err)
		}
	}
	return quota.New(limits, order, client, log)
}

// Close sends the last traces, and writes the last records.
func (b *bootServer) Close() error {
	b.records.Close()
	ctx, cancel := context.WithTimeout(context.Background(), traceTimeout)
	defer cancel()
	return errors.Join(b.quotas.Close(), b.tracer.Close(ctx))
}
