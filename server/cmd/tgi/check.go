package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"

	"tgi/runtime/engine"
	"tgi/runtime/llm"
	"tgi/runtime/ort"
)

// runCheck does the real start without listening: it opens the configured
// model, has it generate one token and says what would be served.
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
	h, err := newHouse(ctx, settings.Config, slog.New(slog.NewTextHandler(stderr, nil)))
	if err != nil {
		return exit(stderr, err)
	}
	defer h.Close()
	if err := h.tryOut(ctx); err != nil {
		return exit(stderr, fmt.Errorf("the model does not generate: %w", err))
	}
	l := h.limits
	fmt.Fprintf(stdout, "model    %s, %s, %s weights\n", h.built.Name, h.built.Architecture, h.built.Weights)
	fmt.Fprintf(stdout, "runtime  ONNX Runtime %s, %d threads, %s attention\n", ort.Version(), h.backend.ThreadCount(), ort.Attention())
	fmt.Fprintf(stdout, "chat     %s\n", &h.control.chat.Load().chatSetup)
	fmt.Fprintf(stdout, "cache    %d blocks of %d tokens, %d bytes\n", h.backend.Blocks(), ort.BlockSize, h.kvBytes)
	fmt.Fprintf(stdout, "limits   max_input_tokens=%d max_total_tokens=%d max_batch_prefill_tokens=%d max_batch_total_tokens=%d max_batch_size=%d max_concurrent_requests=%d\n",
		l.MaxInputTokens, l.MaxTotalTokens, l.MaxBatchPrefillTokens, l.MaxBatchTotalTokens, l.MaxBatchSize, l.MaxConcurrentRequests)
	fmt.Fprintln(stdout, "ok")
	return 0
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
