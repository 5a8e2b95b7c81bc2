package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"

	"tgi/runtime/engine"
	"tgi/runtime/ort"
	"tgi/server"
	"tgi/server/config"
	"tgi/server/generateapi/store"
	"tgi/server/tgi"
)

// runServe serves the configured model until the process is told to stop.
func runServe(args []string, stdout, stderr io.Writer) int {
	settings, code, ok := loadConfig("serve", args, stdout, stderr)
	if !ok {
		return code
	}
	cfg := settings.Config
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	log := server.NewLog(os.Stderr, cfg.Log)
	for _, n := range settings.Notices {
		log.Warn(n.String())
	}
	reread := func(running config.Config) (config.Config, []string, error) {
		return config.Reload(running, args, os.LookupEnv)
	}
	if err := serve(ctx, cfg, reread, log, os.Stderr); err != nil {
		log.Error("stopped", "error", err.Error())
		return 1
	}
	return 0
}

// loadConfig reads the settings of a command. ok is false when the command is
// over already, with the exit status code.
func loadConfig(name string, args []string, stdout, stderr io.Writer) (l config.Loaded, code int, ok bool) {
	l, err := config.Read(args, os.LookupEnv)
	switch {
	case errors.Is(err, config.ErrHelp):
		fmt.Fprintf(stdout, "usage: tgi %s [flags]\n", name)
		config.Usage(stdout)
		return l, 0, false
	case err != nil:
		fmt.Fprintln(stderr, "tgi:", err)
		return l, 2, false
	case badRoute(l.Config) != nil:
		fmt.Fprintln(stderr, "tgi:", badRoute(l.Config))
		return l, 2, false
	case len(l.Rest) > 0:
		fmt.Fprintf(stderr, "tgi: %s takes flags only, got %q\n", name, l.Rest[0])
		return l, 2, false
	}
	return l, 0, true
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
	serving, stop := context.WithCancel(ctx)
	defer stop()
	served := make(chan error, 1)
	go func() { served <- f.server.ServeBoth(serving, public, private) }()
	h, err := f.open(ctx, cfg, log)
	if err != nil {
		stop()
		return errors.Join(err, <-served, f.Close())
	}
	defer h.Close()
	var watchers sync.WaitGroup
	watchers.Go(func() { h.control.watch(serving) })
	defer watchers.Wait()
	defer stop()
	h.banner(terminal, log, cfg, public.Addr())
	err = <-served
	if err == nil {
		log.Info("drained, stopping")
	}
	return err
}

// house is a model with its plugins and the server in front of it.
type house struct {
	*instance
	*front
	control *control
	kept    store.Store // of the generate API
}

// Close stops the engine, frees plugins and model and sends the last traces.
func (h *house) Close() error {
	err := h.instance.Close()
	h.control.set.Close()
	return errors.Join(err, h.kept.Close(), h.front.Close())
}

// newHouse opens the model and builds the server, ready to listen. The
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

// open is newHouse behind a server that is there already.
func (f *front) open(ctx context.Context, cfg config.Config, log *slog.Logger, obs ...engine.Observer) (*house, error) {
	say := func(format string, args ...any) { log.Info(fmt.Sprintf(format, args...)) }
	in, err := open(ctx, cfg, append(observers{f.metrics}, obs...), say)
	if err != nil {
		return nil, err
	}
	control, err := openPlugins(ctx, cfg, in, log)
	if err != nil {
		in.Close()
		return nil, err
	}
	if f.reread != nil {
		control.reread = f.reread
	}
	f.metrics.Watch(in.limits, in.engine.Stats, ort.BlockSize)
	f.metrics.WatchPlugins(control.List)
	if cfg.Metrics.VLLMNames {
		f.metrics.WatchVLLM(in.engine.Stats, ort.BlockSize)
	}
	kept, err := openKept(cfg.GenerateAPI.Store)
	if err != nil {
		control.set.Close()
		return nil, errors.Join(err, in.Close())
	}
	f.server.Open(apisOf(cfg, in, control, f, kept, log), in.engine.Healthy)
	return &house{in, f, control, kept}, nil
}

// observers are told one after the other.
type observers []engine.Observer

// Step implements engine.Observer.
func (o observers) Step(r engine.Report) {
	for _, one := range o {
		one.Step(r)
	}
}

// banner says what is served and where: lines on a terminal, one record in a log.
func (h *house) banner(terminal *os.File, log *slog.Logger, cfg config.Config, addr net.Addr) {
	b := h.built
	url := urlOf(addr, cfg.Server.TLSCert != "")
	open := !cfg.Keyed()
	if !server.IsTerminal(terminal) {
		log.Info("serving", "url", url, "model", b.Name, "weights", b.Weights, "backend", "onnxruntime "+ort.Version()+" cpu",
			"attention", ort.Attention(), "threads", h.backend.ThreadCount(), "kv_tokens", h.backend.Blocks()*ort.BlockSize,
			"kv_bytes", h.kvBytes, "max_total_tokens", h.limits.MaxTotalTokens, "chat", h.control.chat.Load().String(), "plugins", h.control.names(), "open", open)
		return
	}
	fmt.Fprintf(terminal, "tgi %s\n", version)
	fmt.Fprintf(terminal, "  model    %s, %s, %.1fM parameters, %s (%d MiB)\n", b.Name, b.Architecture, float64(b.Params)/1e6, b.Weights, b.WeightBytes>>20)
	fmt.Fprintf(terminal, "  backend  ONNX Runtime %s on the CPU, %d threads, %s attention\n", ort.Version(), h.backend.ThreadCount(), ort.Attention())
	fmt.Fprintf(terminal, "  cache    %d tokens (%d MiB), up to %d per request\n", h.backend.Blocks()*ort.BlockSize, h.kvBytes>>20, h.limits.MaxTotalTokens)
	fmt.Fprintf(terminal, "  chat     %s\n", &h.control.chat.Load().chatSetup)
	fmt.Fprintf(terminal, "  serving  %s\n", url)
	if names := h.control.names(); len(names) > 0 {
		fmt.Fprintf(terminal, "  plugins  %s\n", strings.Join(names, ", "))
	}
	if open {
		fmt.Fprintln(terminal, "  keys     none: whoever reaches this address may use it (set server.api_keys)")
	} else {
		fmt.Fprintf(terminal, "  keys     %d\n", len(cfg.AllKeys()))
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
