package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"tgi/models"
	"tgi/runtime/filestamp"
	"tgi/runtime/ort"
	"tgi/server"
	"tgi/server/client/terminal"
	"tgi/server/config"
	"tgi/server/host"
)

// newServe serves models until the process is told to stop.
func newServe() *cobra.Command {
	flags := &config.Flags{}
	cmd := &cobra.Command{
		Use: "serve [flags]", Short: "Serve models over HTTP", Args: takesNothing,
		Long: "Serve models over HTTP until SIGINT or SIGTERM, then finish the running requests. " +
			"SIGHUP reads the settings again.",
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
	options := host.Options{Config: cfg, Version: version, Build: host.BuildID(), Log: log}
	options.Reload = func(running config.Config, seen *filestamp.Stamp) (config.Config, []string, error) {
		return config.Reload(running, flags, os.LookupEnv, seen)
	}
	if err := serve(ctx, options, os.Stderr); err != nil {
		log.Error("stopped", "error", err.Error())
		return errors.Join(errReported, err)
	}
	return nil
}

// loadConfig reads the settings of a command.
func loadConfig(flags *config.Flags) (config.Loaded, error) {
	l, err := config.Read(flags, os.LookupEnv)
	if err == nil {
		err = l.Placed(host.CheckRoutes(l.Config.Server))
	}
	if err != nil {
		return l, config.Wrong(err)
	}
	return l, nil
}

// serve serves until ctx ends, and reloads the settings at SIGHUP.
func serve(ctx context.Context, o host.Options, terminal *os.File) error {
	// From the beginning: without a handler the signal ends a process, also one that loads.
	hup := make(chan os.Signal, 1)
	signal.Notify(hup, syscall.SIGHUP)
	defer signal.Stop(hup)
	return host.Serve(ctx, o, hup, func(s *host.Server, addr net.Addr) {
		printBanner(terminal, o.Log, o.Config, s, addr)
	})
}

// printBanner prints what is served and where: lines on a terminal, one record in a log.
func printBanner(to *os.File, log *slog.Logger, cfg config.Config, s *host.Server, addr net.Addr) {
	url := urlOf(addr, cfg.Server.TLSCert != "")
	open := cfg.Open()
	names := s.Models()
	m, loaded := s.Default()
	if !terminal.Is(to) {
		name, why := s.Device()
		attrs := []any{"url", url, "backend", "onnxruntime " + ort.Version() + " " + name, "why", why}
		if name == string(models.CPU) {
			attrs = append(attrs, "attention", ort.Attention(), "products", ort.Product())
		}
		attrs = append(attrs, "open", open, "models", names)
		if loaded {
			attrs = append(attrs, "model", m.ID, "weights", m.Weights, "threads", m.Threads,
				"kv_tokens", m.CacheTokens, "kv_bytes", m.CacheBytes, "max_total_tokens", m.Limits.MaxTotalTokens,
				"chat", m.Chat, "plugins", m.Plugins)
		}
		log.Info("serving", attrs...)
		return
	}
	line := func(name, format string, args ...any) {
		fmt.Fprintf(to, "  %-8s %s\n", name, fmt.Sprintf(format, args...))
	}
	fmt.Fprintf(to, "tgi %s\n", version)
	if loaded {
		line("model", "%s, %s, %.1fM parameters, %s (%d MiB)", m.ID, m.Architecture, float64(m.Params)/1e6, m.Weights,
			m.WeightBytes>>20)
		line("backend", "%s", m.Backend)
		if m.CacheTokens > 0 {
			line("cache", "%d tokens (%d MiB), up to %d per request", m.CacheTokens, m.CacheBytes>>20,
				m.Limits.MaxTotalTokens)
			line("chat", "%s", m.Chat)
		} else {
			line("task", "%s", m.Task)
		}
	}
	if len(names) > 1 || !loaded {
		line("models", "%s", strings.Join(names, ", "))
	}
	line("serving", "%s", url)
	if len(m.Plugins) > 0 {
		line("plugins", "%s", strings.Join(m.Plugins, ", "))
	}
	if open {
		line("keys", "none: whoever reaches this address may use it (set server.api_keys)")
	} else {
		line("keys", "%d", len(cfg.AllKeys()))
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
