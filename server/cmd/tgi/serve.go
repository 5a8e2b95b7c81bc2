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
	"strconv"
	"strings"
	"sync"
	"syscall"

	"tgi/runtime/engine"
	"tgi/runtime/ort"
	"tgi/server"
	"tgi/server/config"
)

// runServe serves the configured model until the process is told to stop.
func runServe(args []string, stdout, stderr io.Writer) int {
	cfg, code, ok := loadConfig("serve", args, stdout, stderr)
	if !ok {
		return code
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	log := server.NewLog(os.Stderr, cfg.Log)
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
func loadConfig(name string, args []string, stdout, stderr io.Writer) (cfg config.Config, code int, ok bool) {
	cfg, rest, err := config.Load(args, os.LookupEnv)
	switch {
	case errors.Is(err, config.ErrHelp):
		fmt.Fprintf(stdout, "usage: tgi %s [flags]\n", name)
		config.Usage(stdout)
		return cfg, 0, false
	case err != nil:
		fmt.Fprintln(stderr, "tgi:", err)
		return cfg, 2, false
	case len(rest) > 0:
		fmt.Fprintf(stderr, "tgi: %s takes flags only, got %q\n", name, rest[0])
		return cfg, 2, false
	}
	return cfg, 0, true
}

// serve runs the server until ctx ends. The address is taken before the model
// is loaded, so that a port in use is known at once. reread is for reloads.
func serve(ctx context.Context, cfg config.Config, reread rereader, log *slog.Logger, terminal *os.File) error {
	l, err := net.Listen("tcp", net.JoinHostPort(cfg.Server.Hostname, strconv.Itoa(cfg.Server.Port)))
	if err != nil {
		return fmt.Errorf("cannot listen: %w", err)
	}
	defer l.Close()
	h, err := newHouse(ctx, cfg, log)
	if err != nil {
		return err
	}
	defer h.Close()
	h.control.reread = reread
	watching, stop := context.WithCancel(ctx)
	var watchers sync.WaitGroup
	watchers.Go(func() { h.control.watch(watching) })
	defer watchers.Wait()
	defer stop()
	h.banner(terminal, log, cfg, l.Addr())
	err = h.server.Serve(ctx, l)
	if err == nil {
		log.Info("drained, stopping")
	}
	return err
}

// house is a model with its plugins and the server in front of it.
type house struct {
	*instance
	control *control
	server  *server.Server
}

// Close stops the engine and frees plugins and model.
func (h *house) Close() error {
	err := h.instance.Close()
	h.control.set.Close()
	return err
}

// newHouse opens the model and builds the server, ready to listen. The
// observers are told of every step besides the metrics.
func newHouse(ctx context.Context, cfg config.Config, log *slog.Logger, obs ...engine.Observer) (*house, error) {
	say := func(format string, args ...any) { log.Info(fmt.Sprintf(format, args...)) }
	metrics := server.NewMetrics()
	in, err := open(ctx, cfg, append(observers{metrics}, obs...), say)
	if err != nil {
		return nil, err
	}
	control, err := openPlugins(ctx, cfg, in, log)
	if err != nil {
		in.Close()
		return nil, err
	}
	metrics.Watch(in.limits, in.engine.Stats, ort.BlockSize)
	metrics.WatchPlugins(control.List)
	apis := apisOf(cfg, in, control, metrics)
	opt := server.Options{Config: cfg.Server, APIs: apis, Healthy: in.engine.Healthy, Log: log}
	if cfg.Metrics.Enabled {
		opt.Metrics = metrics
	}
	srv := server.New(opt)
	return &house{in, control, srv}, nil
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
	url := urlOf(addr)
	open := len(cfg.Server.APIKeys) == 0
	if !server.IsTerminal(terminal) {
		log.Info("serving", "url", url, "model", b.Name, "weights", b.Weights, "backend", "onnxruntime "+ort.Version()+" cpu",
			"attention", ort.Attention(), "threads", h.backend.ThreadCount(), "kv_tokens", h.backend.Blocks()*ort.BlockSize,
			"kv_bytes", h.kvBytes, "max_total_tokens", h.limits.MaxTotalTokens, "plugins", h.control.names(), "open", open)
		return
	}
	fmt.Fprintf(terminal, "tgi %s\n", version)
	fmt.Fprintf(terminal, "  model    %s, %s, %.1fM parameters, %s (%d MiB)\n", b.Name, b.Architecture, float64(b.Params)/1e6, b.Weights, b.WeightBytes>>20)
	fmt.Fprintf(terminal, "  backend  ONNX Runtime %s on the CPU, %d threads, %s attention\n", ort.Version(), h.backend.ThreadCount(), ort.Attention())
	fmt.Fprintf(terminal, "  cache    %d tokens (%d MiB), up to %d per request\n", h.backend.Blocks()*ort.BlockSize, h.kvBytes>>20, h.limits.MaxTotalTokens)
	fmt.Fprintf(terminal, "  serving  %s\n", url)
	if names := h.control.names(); len(names) > 0 {
		fmt.Fprintf(terminal, "  plugins  %s\n", strings.Join(names, ", "))
	}
	if open {
		fmt.Fprintln(terminal, "  keys     none: whoever reaches this address may use it (set server.api_keys)")
	} else {
		fmt.Fprintf(terminal, "  keys     %d\n", len(cfg.Server.APIKeys))
	}
}

// urlOf returns the address to paste into a browser or curl.
func urlOf(addr net.Addr) string {
	host, port, err := net.SplitHostPort(addr.String())
	if err != nil {
		return "http://" + addr.String()
	}
	if ip := net.ParseIP(host); ip == nil || ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	return "http://" + net.JoinHostPort(host, port)
}
