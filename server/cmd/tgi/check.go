package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"slices"

	"tgi/models/library"
	"tgi/runtime/engine"
	"tgi/runtime/llm"
	"tgi/runtime/ort"
	"tgi/server/config"
)

// runCheck does the real start without listening: it opens the configured
// models one after the other, has each generate one token and says what would be
// served. What was not fetched yet stays so.
func runCheck(args []string, stdout, stderr io.Writer) int {
	settings, code, ok := loadConfig("check", args, stdout, stderr)
	if !ok {
		return code
	}
	if err := printSettings(stdout, settings); err != nil {
		return exit(stderr, err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	log := slog.New(slog.NewTextHandler(stderr, nil))
	models, err := openLibrary(settings.Config)
	if err != nil {
		return exit(stderr, err)
	}
	for _, m := range settings.Config.All() {
		if m.Source != "" && !models.Has(library.ID(m.Name)) {
			fmt.Fprintf(stdout, "model    %s, not fetched yet\n", m.Name)
			continue
		}
		if err := checkModel(ctx, only(settings.Config, m.Name), log, stdout); err != nil {
			return exit(stderr, err)
		}
	}
	fmt.Fprintln(stdout, "ok")
	return 0
}

// only returns cfg with one of its models loaded at the start, as the default one.
func only(cfg config.Config, name string) config.Config {
	cfg.Models.Default = name
	cfg.Model.Preload = true
	cfg.ModelList = slices.Clone(cfg.ModelList)
	for i := range cfg.ModelList {
		cfg.ModelList[i].Preload = cfg.ModelList[i].Name == name
	}
	return cfg
}

// checkModel opens the default model of cfg and says what it is.
func checkModel(ctx context.Context, cfg config.Config, log *slog.Logger, stdout io.Writer) error {
	h, err := newHouse(ctx, cfg, log)
	if err != nil {
		return err
	}
	defer h.Close()
	if err := h.tryOut(ctx); err != nil {
		return fmt.Errorf("model %s does not generate: %w", h.id, err)
	}
	l := h.limits
	fmt.Fprintf(stdout, "model    %s, %s, %s weights\n", h.id, h.built.Architecture, h.built.Weights)
	fmt.Fprintf(stdout, "runtime  ONNX Runtime %s, %d threads, %s attention\n", ort.Version(), h.backend.ThreadCount(), ort.Attention())
	fmt.Fprintf(stdout, "chat     %s\n", &h.control.chat.Load().chatSetup)
	fmt.Fprintf(stdout, "cache    %d blocks of %d tokens, %d bytes\n", h.backend.Blocks(), ort.BlockSize, h.kvBytes)
	fmt.Fprintf(stdout, "limits   max_input_tokens=%d max_total_tokens=%d max_batch_prefill_tokens=%d max_batch_total_tokens=%d max_batch_size=%d max_concurrent_requests=%d\n",
		l.MaxInputTokens, l.MaxTotalTokens, l.MaxBatchPrefillTokens, l.MaxBatchTotalTokens, l.MaxBatchSize, l.MaxConcurrentRequests)
	return nil
}

// tryOut generates one token.
func (h *house) tryOut(ctx context.Context) error {
	prompt := h.tokenizer.Encode("a", true)
	s, err := h.engine.Submit(ctx, engine.Request{Prompt: prompt, Params: llm.Params{
		Temperature: 1, TopP: 1, TypicalP: 1, RepetitionPenalty: 1, MaxNewTokens: 1,
	}})
	if err != nil {
		return err
	}
	defer s.Close()
	for {
		if _, err := s.Next(ctx); err != nil {
			if err == io.EOF {
				return nil
			}
			return err
		}
	}
}
