package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"

	"github.com/spf13/cobra"

	"tgi/runtime/engine"
	"tgi/runtime/ort"
	"tgi/server"
	"tgi/server/api/tgi"
	"tgi/server/config"
)

// newServe serves models until the process is told to stop.
func newServe() *cobra.Command {
	flags := &config.Flags{}
	cmd := &cobra.Command{
		Use: "serve [flags]", Short: "Serve models over HTTP", Args: takesNothing,
		Long: "Serve models over HTTP until SIGINT or SIGTERM, then finish the running requests. SIGHUP reads the settings again.",
		Example: `  tgi serve                                              # the embedded demo model
  tgi serve --model-id Qwen/Qwen2.5-0.5B-Instruct --port 8080
  tgi serve --config /etc/tgi/tgi.toml`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			settings, err := loadConfig(flags)
			if err != nil {
				return err
			}
			return runServe(cmd.Context(), settings, flags)
		},
	}
	addSettings(cmd, flags)
	return cmd
}

// runServe serves what the settings say.
func runServe(ctx context.Context, settings config.Loaded, flags *config.Flags) error {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	cfg := settings.Config
	log := server.NewLog(os.Stderr, cfg.Log)
	for _, n := range settings.Notices {
		log.Warn(n.String())
	}
	reread := func(running config.Config) (config.Config, []string, error) {
		return config.Reload(running, flags, os.LookupEnv)
	}
	if err := serve(ctx, cfg, reread, log, os.Stderr); err != nil {
		log.Error("stopped", "error", err.Error())
		return errReported
	}
	return nil
}

// loadConfig reads the settings of a command.
func loadConfig(flags *config.Flags) (config.Loaded, error) {
	l, err := config.Read(flags, os.LookupEnv)
	if err == nil {
		err = badRoute(l.Config)
	}
	if err != nil {
		return l, settingsError{err}
	}
	return l, nil
}

// badRoute returns why a further path of c cannot be one.
func badRoute(c config.Config) error {
	return errors.Join(tgi.CheckRoute("server.predict_route", c.Server.PredictRoute), tgi.CheckRoute("server.health_route", c.Server.HealthRoute))
}

// serve runs the server until ctx ends. The addresses are taken, and answer
// probes, before the model is loaded. reread is for reloads.
func serve(ctx context.Context, cfg config.Config, reread rereader, log *slog.Logger, terminal *os.File) error {
	public, private, err := server.Listen(cfg.Server, log)
	if err != nil {
		return err
	}
	f, err := newFront(cfg, log)
	if err != nil {
		return err
	}
	f.reread = reread
	// From the beginning: without a handler the signal ends a process, also one that loads.
	hup := make(chan os.Signal, 1)
	signal.Notify(hup, syscall.SIGHUP)
	defer signal.Stop(hup)
	serving, stop := context.WithCancel(ctx)
	defer stop()
	served := make(chan error, 1)
	go func() { served <- f.server.ServeBoth(serving, public, private) }()
	h, err := f.open(serving, cfg, log)
	if err != nil {
		stop()
		if ctx.Err() != nil && errors.Is(err, context.Cause(ctx)) { // whoever ends it early gets what was asked for
			log.Info("stopping before the model was loaded")
			err = nil
		}
		return errors.Join(err, <-served, f.Close())
	}
	defer h.Close()
	var watchers sync.WaitGroup
	watchers.Go(func() { h.fleet.watch(serving, hup) })
	defer watchers.Wait()
	defer stop()
	h.banner(terminal, log, cfg, public.Addr())
	h.served = nil // what it holds is to go when the model is stopped
	err = <-served
	if err == nil {
		log.Info("drained, stopping")
	}
	return err
}

// house is a server with its models.
type house struct {
	*served // the default model; nil where it was not to be loaded at the start
	*front
	fleet   *fleet
	loading func() // waits for the models that are loaded at the start beside the default one
}

// Close unloads the models and sends the last traces. Requests are over.
func (h *house) Close() error {
	err := h.fleet.Close()
	h.loading() // which ends with the fleet
	return errors.Join(err, h.front.Close())
}

// newHouse opens the default model and builds the server, ready to listen. The
// observers are told of every step besides the metrics.
func newHouse(ctx context.Context, cfg config.Config, log *slog.Logger, obs ...engine.Observer) (*house, error) {
	f, err := newFront(cfg, log)
	if err != nil {
		return nil, err
	}
	h, err := f.open(ctx, cfg, log, obs...)
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return h, nil
}

// open is newHouse behind a server that is there already. Models beside the default
// one are still loading when it returns, until ctx ends.
func (f *front) open(ctx context.Context, cfg config.Config, log *slog.Logger, obs ...engine.Observer) (*house, error) {
	if err := enough(system.bounds()); err != nil {
		return nil, err
	}
	lib, err := ort.Locate(cfg.Runtime.ORTLib)
	if err != nil {
		return nil, err
	}
	if err := ort.Init(lib); err != nil {
		return nil, err
	}
	models, err := newFleet(cfg, f, log, append(observers{f.metrics, latecomers{log}}, obs...))
	if err != nil {
		return nil, err
	}
	wait, err := models.preload(ctx)
	if err != nil {
		return nil, errors.Join(err, models.Close())
	}
	h := &house{served: models.main(), front: f, fleet: models, loading: wait}
	limits := cfg.Limits
	if h.served != nil {
		limits = h.limits
	}
	f.metrics.Watch(sized(limits), models.stats, ort.BlockSize)
	f.metrics.WatchPlugins(models.List)
	f.metrics.WatchModels(models.figures)
	f.metrics.WatchGrammars(models.grammarFigures)
	f.metrics.WatchMemory(models.memoryFigures)
	if cfg.Metrics.VLLMNames {
		f.metrics.WatchVLLM(models.stats, ort.BlockSize)
	}
	f.server.Open(models.apis(), models.healthy)
	return h, nil
}

// bucketTokens is how far the buckets of token counts go where no model says it.
const bucketTokens = 4096

// sized are limits that the metrics' buckets can be made from.
func sized(l config.Limits) config.Limits {
	l.MaxTotalTokens = cmp.Or(l.MaxTotalTokens, bucketTokens)
	l.MaxInputTokens = cmp.Or(l.MaxInputTokens, l.MaxTotalTokens-1)
	return l
}

// observers are told one after the other.
type observers []engine.Observer

// Step implements engine.Observer.
func (o observers) Step(r engine.Report) {
	for _, one := range o {
		one.Step(r)
	}
}

// latecomers logs which steps went on without sequences whose plugins were not done.
type latecomers struct{ log *slog.Logger }

// Step implements engine.Observer.
func (l latecomers) Step(r engine.Report) {
	if r.Late > 0 {
		l.log.Debug("plugins are late, their sequences sit out", "late", r.Late, "parked", r.Parked, "forward", r.Forward, "total", r.Total)
	}
}

// banner says what is served and where: lines on a terminal, one record in a log.
func (h *house) banner(terminal *os.File, log *slog.Logger, cfg config.Config, addr net.Addr) {
	url := urlOf(addr, cfg.Server.TLSCert != "")
	open := !cfg.Keyed()
	names := h.fleet.names()
	if !isTerminal(terminal) {
		attrs := []any{"url", url, "backend", "onnxruntime " + ort.Version() + " cpu", "attention", ort.Attention(), "open", open, "models", names}
		if h.served != nil {
			attrs = append(attrs, "model", string(h.id), "weights", h.built.Weights, "threads", h.backend.ThreadCount(),
				"kv_tokens", h.backend.Blocks()*ort.BlockSize, "kv_bytes", h.kvBytes, "max_total_tokens", h.limits.MaxTotalTokens,
				"chat", h.control.chat.Load().String(), "plugins", h.control.names())
		}
		log.Info("serving", attrs...)
		return
	}
	say := func(name, format string, args ...any) {
		fmt.Fprintf(terminal, "  %-8s %s\n", name, fmt.Sprintf(format, args...))
	}
	fmt.Fprintf(terminal, "tgi %s\n", version)
	if h.served != nil {
		b := h.built
		say("model", "%s, %s, %.1fM parameters, %s (%d MiB)", h.id, b.Architecture, float64(b.Params)/1e6, b.Weights, b.WeightBytes>>20)
		say("backend", "ONNX Runtime %s on the CPU, %d threads, %s attention", ort.Version(), h.backend.ThreadCount(), ort.Attention())
		say("cache", "%d tokens (%d MiB), up to %d per request", h.backend.Blocks()*ort.BlockSize, h.kvBytes>>20, h.limits.MaxTotalTokens)
		say("chat", "%s", &h.control.chat.Load().chatSetup)
	}
	if len(names) > 1 || h.served == nil {
		say("models", "%s", strings.Join(names, ", "))
	}
	say("serving", "%s", url)
	if h.served != nil && len(h.control.names()) > 0 {
		say("plugins", "%s", strings.Join(h.control.names(), ", "))
	}
	if open {
		say("keys", "none: whoever reaches this address may use it (set server.api_keys)")
	} else {
		say("keys", "%d", len(cfg.AllKeys()))
	}
}

// urlOf returns the address to paste into a browser or curl.
func urlOf(addr net.Addr, secure bool) string {
	scheme := "http://"
	if secure {
		scheme = "https://"
	}
	host, port, err := net.SplitHostPort(addr.String())
	if err != nil {
		return scheme + addr.String()
	}
	if ip := net.ParseIP(host); ip == nil || ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	return scheme + net.JoinHostPort(host, port)
}
