package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"slices"

	"github.com/spf13/cobra"

	"tgi/models/library"
	"tgi/runtime/ort"
	"tgi/server/config"
	"tgi/server/host"
)

// newCheck does the real start without listening: it opens the configured models one after the
// other, has each generate one token and says what would be served. What was not fetched yet stays so.
func newCheck() *cobra.Command {
	flags := &config.Flags{}
	var out output
	cmd := &cobra.Command{
		Use: "check [flags]", Short: "Start without listening, and print the settings and what would be served", Args: takesNothing,
		Long: `Start as "tgi serve" would, but without listening: print every setting with its source, open each model
and generate one token with it. Models that were not fetched yet are not fetched.`,
		Annotations: map[string]string{settingsShown: "config,model-id,models-folder,plugins-folder"},
		RunE: func(cmd *cobra.Command, _ []string) error {
			settings, err := loadConfig(flags)
			if err != nil {
				return err
			}
			ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt)
			defer stop()
			log := slog.New(slog.NewTextHandler(cmd.ErrOrStderr(), nil))
			if out.json {
				return checkJSON(ctx, settings, log, cmd.OutOrStdout())
			}
			return checkText(ctx, settings, log, cmd.OutOrStdout())
		},
	}
	out.flag(cmd)
	addSettings(cmd, flags)
	return cmd
}

// checkText prints what is found as it is found.
func checkText(ctx context.Context, settings config.Loaded, log *slog.Logger, stdout io.Writer) error {
	if err := printSettings(stdout, settings); err != nil {
		return err
	}
	err := checkModels(ctx, settings.Config, log, func(m checkedModel) { m.write(stdout) })
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(stdout, "ok")
	return err
}

// checkJSON prints all that was found, with the error that ended the check.
func checkJSON(ctx context.Context, settings config.Loaded, log *slog.Logger, stdout io.Writer) error {
	report := struct {
		OK       bool               `json:"ok"`
		Error    string             `json:"error,omitempty"`
		Models   []checkedModel     `json:"models"`
		Settings []config.Effective `json:"settings"`
		Notices  []string           `json:"notices"`
	}{Models: []checkedModel{}, Settings: settings.Effective(), Notices: []string{}}
	for _, n := range settings.Notices {
		report.Notices = append(report.Notices, n.String())
	}
	err := checkModels(ctx, settings.Config, log, func(m checkedModel) { report.Models = append(report.Models, m) })
	report.OK = err == nil
	if err != nil {
		report.Error = err.Error()
	}
	return errors.Join(printIndented(stdout, report), err)
}

// checkedModel is what a check found out about a model.
type checkedModel struct {
	ID string `json:"id"`
	// Fetched is false for a model that is not here yet, of which nothing else is known.
	Fetched      bool   `json:"fetched"`
	Architecture string `json:"architecture,omitempty"`
	Weights      string `json:"weights,omitempty"`
	ORT          string `json:"onnxruntime,omitempty"`
	Threads      int    `json:"threads,omitempty"`
	Attention    string `json:"attention,omitempty"`
	Chat         string `json:"chat,omitempty"`
	Blocks       int    `json:"cache_blocks,omitempty"`
	BlockTokens  int    `json:"cache_block_tokens,omitempty"`
	CacheBytes   int64  `json:"cache_bytes,omitempty"`
	// Limits are those of [limits] that depend on the model.
	Limits *checkedLimits `json:"limits,omitempty"`
}

type checkedLimits struct {
	MaxInputTokens        int `json:"max_input_tokens"`
	MaxTotalTokens        int `json:"max_total_tokens"`
	MaxBatchPrefillTokens int `json:"max_batch_prefill_tokens"`
	MaxBatchTotalTokens   int `json:"max_batch_total_tokens"`
	MaxBatchSize          int `json:"max_batch_size"`
	MaxConcurrentRequests int `json:"max_concurrent_requests"`
}

// write prints a model for people.
func (m *checkedModel) write(w io.Writer) {
	if !m.Fetched {
		fmt.Fprintf(w, "model    %s, not fetched yet\n", m.ID)
		return
	}
	fmt.Fprintf(w, "model    %s, %s, %s weights\n", m.ID, m.Architecture, m.Weights)
	fmt.Fprintf(w, "runtime  ONNX Runtime %s, %d threads, %s attention\n", m.ORT, m.Threads, m.Attention)
	fmt.Fprintf(w, "chat     %s\n", m.Chat)
	fmt.Fprintf(w, "cache    %d blocks of %d tokens, %d bytes\n", m.Blocks, m.BlockTokens, m.CacheBytes)
	l := m.Limits
	fmt.Fprintf(w, "limits   max_input_tokens=%d max_total_tokens=%d max_batch_prefill_tokens=%d "+
		"max_batch_total_tokens=%d max_batch_size=%d max_concurrent_requests=%d\n",
		l.MaxInputTokens, l.MaxTotalTokens, l.MaxBatchPrefillTokens, l.MaxBatchTotalTokens, l.MaxBatchSize, l.MaxConcurrentRequests)
}

// checkModels opens the models of cfg one after the other and tells found of each.
func checkModels(ctx context.Context, cfg config.Config, log *slog.Logger, found func(checkedModel)) error {
	lib, err := host.OpenLibrary(cfg)
	if err != nil {
		return err
	}
	for _, m := range cfg.All() {
		if m.Source != "" && !lib.Has(library.ID(m.Name)) {
			found(checkedModel{ID: m.Name})
			continue
		}
		checked, err := checkModel(ctx, only(cfg, m.Name), log)
		if err != nil {
			return err
		}
		found(checked)
	}
	return nil
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

// checkModel opens the default model of cfg and has it generate.
func checkModel(ctx context.Context, cfg config.Config, log *slog.Logger) (m checkedModel, err error) {
	h, err := host.Open(ctx, host.Options{Config: cfg, Version: version, Log: log})
	if err != nil {
		return m, err
	}
	defer h.Close()
	info, _ := h.Default()
	if err := h.Probe(ctx); err != nil {
		return m, fmt.Errorf("model %s does not generate: %w", info.ID, err)
	}
	l := info.Limits
	return checkedModel{
		ID: info.ID, Fetched: true, Architecture: info.Architecture, Weights: info.Weights,
		ORT: ort.Version(), Threads: info.Threads, Attention: ort.Attention(),
		Chat: info.Chat, Blocks: info.Blocks, BlockTokens: ort.BlockSize, CacheBytes: info.CacheBytes,
		Limits: &checkedLimits{
			l.MaxInputTokens, l.MaxTotalTokens, l.MaxBatchPrefillTokens, l.MaxBatchTotalTokens, l.MaxBatchSize, l.MaxConcurrentRequests,
		},
	}, nil
}
