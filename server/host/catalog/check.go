package catalog

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"

	"tgi/models/library"
	"tgi/runtime/ort"
	"tgi/server"
	"tgi/server/config"
	"tgi/server/host"
)

// Checked is what a start found out about a model.
type Checked struct {
	ID string `json:"id"`
	// Fetched is false for a model that is not here yet, of which nothing else is known.
	Fetched bool `json:"fetched"`
	// Unsure is why its source could not be asked whether it has it; empty where it has.
	Unsure       string `json:"unsure,omitempty"`
	Architecture string `json:"architecture,omitempty"`
	Weights      string `json:"weights,omitempty"`
	ORT          string `json:"onnxruntime,omitempty"`
	Threads      int    `json:"threads,omitempty"`
	Attention    string `json:"attention,omitempty"`
	Device       string `json:"device,omitempty"`
	Backend      string `json:"backend,omitempty"`
	Chat         string `json:"chat,omitempty"`
	// Task is what a model does that does not generate: it has no chat, cache and limits.
	Task        string `json:"task,omitempty"`
	Blocks      int    `json:"cache_blocks,omitempty"`
	BlockTokens int    `json:"cache_block_tokens,omitempty"`
	CacheBytes  int64  `json:"cache_bytes,omitempty"`
	// KVDisk is what is kept of prompts on disk; nil where those of the model are not.
	KVDisk *server.KVDisk `json:"kv_disk,omitempty"`
	// Limits are those of [limits] that depend on the model.
	Limits *CheckedLimits `json:"limits,omitempty"`
}

// CheckedLimits are those of [limits] that depend on the model.
type CheckedLimits struct {
	MaxInputTokens        int `json:"max_input_tokens"`
	MaxTotalTokens        int `json:"max_total_tokens"`
	MaxBatchPrefillTokens int `json:"max_batch_prefill_tokens"`
	MaxBatchTotalTokens   int `json:"max_batch_total_tokens"`
	MaxBatchSize          int `json:"max_batch_size"`
	MaxConcurrentRequests int `json:"max_concurrent_requests"`
}

// Check looks at the addresses, opens the models of cfg one after the other, as a start would, has each generate one
// token, and passes what it found to found. Models that were not fetched yet are not fetched; their
// sources are asked whether they have them.
func Check(ctx context.Context, cfg config.Config, version string, log *slog.Logger, found func(Checked)) error {
	err := errors.Join(cfg.CheckPaths(), cfg.CheckPluginNames(builtins()), cfg.Located(server.CheckListen(cfg.Server)))
	if err != nil {
		return WithPlugins(ctx, cfg, err)
	}
	lib, err := host.OpenLibrary(cfg)
	if err != nil {
		return err
	}
	for i, m := range cfg.All() {
		if m.Source != "" && !lib.Has(library.ID(m.Name)) {
			wrong, unsure := host.LookFor(ctx, cfg, m, version)
			if wrong != nil {
				return cfg.KeyError(sourceKey(cfg, i), wrong)
			}
			checked := Checked{ID: m.Name}
			if unsure != nil {
				checked.Unsure = unsure.Error()
			}
			found(checked)
			continue
		}
		checked, err := checkModel(ctx, Only(cfg, m.Name), version, log)
		if err != nil {
			return located(cfg, err)
		}
		found(checked)
	}
	return nil
}

// WithPlugins is an error of settings with what is wrong with their plugins, which needs no model to be found. A plugin
// whose own settings the error is about is left out: it would be told twice.
func WithPlugins(ctx context.Context, cfg config.Config, err error) error {
	list := cfg.Plugin
	cfg.Plugin = nil
	for i, p := range list {
		if !strings.Contains(err.Error(), fmt.Sprintf("plugin[%d]", i)) {
			cfg.Plugin = append(cfg.Plugin, p)
		}
	}
	return errors.Join(err, host.TryDeclared(ctx, cfg))
}

// sourceKey is the key of the source of model i.
func sourceKey(cfg config.Config, i int) string {
	if len(cfg.ModelList) == 0 {
		return "model.source"
	}
	return fmt.Sprintf("model[%d].source", i)
}

// located says of an error of a start which line of the settings is at fault, where that is known.
func located(cfg config.Config, err error) error {
	switch {
	case errors.Is(err, ort.ErrLibrary) && cfg.Runtime.ORTLib != "":
		return cfg.KeyError("runtime.ort_lib", err)
	case errors.Is(err, ort.ErrLibrary) && cfg.PlaceOf("runtime.device") != "":
		return cfg.KeyError("runtime.device", err)
	}
	return cfg.Located(err)
}

// Settled returns the settings with the limits that hold for each plugin: what a plugin leaves out has a default that
// depends on the kinds of its module. One whose module can't be read keeps what it says.
func Settled(l config.Loaded) config.Loaded {
	l.Config.Plugin = slices.Clone(l.Config.Plugin)
	for i := range l.Config.Plugin {
		p := &l.Config.Plugin[i]
		module, err := Module(p.Source)
		if err != nil {
			continue
		}
		if limits, err := host.PluginLimits(*p, module); err == nil {
			p.Limits = limits
		}
	}
	return l
}

// CheckReport is all that a check found, with the error that ended it.
type CheckReport struct {
	OK       bool               `json:"ok"`
	Error    string             `json:"error,omitempty"`
	Models   []Checked          `json:"models"`
	Settings []config.Effective `json:"settings"`
	Notices  []string           `json:"notices"`
}

// CheckAll is Check with a report of everything, also with an error.
func CheckAll(ctx context.Context, settings config.Loaded, version string, log *slog.Logger) (CheckReport, error) {
	settled := Settled(settings)
	report := CheckReport{Models: []Checked{}, Settings: settled.Effective(), Notices: []string{}}
	for _, n := range settings.Notices {
		report.Notices = append(report.Notices, n.String())
	}
	err := Check(ctx, settings.Config, version, log, func(m Checked) { report.Models = append(report.Models, m) })
	if report.OK = err == nil; err != nil {
		report.Error = err.Error()
	}
	return report, err
}

// Only returns cfg for a command that ends soon: one of its models is loaded at the start, as the default one, and
// there are no batches, whose folder belongs to the server that may run on the same settings.
func Only(cfg config.Config, name string) config.Config {
	cfg.Batches.Folder = ""
	cfg.Models.Default = name
	cfg.Model.Preload = true
	cfg.ModelList = slices.Clone(cfg.ModelList)
	for i := range cfg.ModelList {
		cfg.ModelList[i].Preload = cfg.ModelList[i].Name == name
	}
	return cfg
}

// checkModel opens the default model of cfg and has it generate.
func checkModel(ctx context.Context, cfg config.Config, version string, log *slog.Logger) (m Checked, err error) {
	h, err := host.Open(ctx, host.Options{Config: cfg, Version: version, Log: log, Brief: true})
	if err != nil {
		return m, err
	}
	defer h.Close()
	info, _ := h.Default()
	if err := h.Probe(ctx); err != nil {
		return m, fmt.Errorf("model %s does not generate: %w", info.ID, err)
	}
	if info.Task != server.Generates {
		return Checked{ID: info.ID, Fetched: true, Architecture: info.Architecture, Weights: info.Weights,
			ORT: ort.Version(), Threads: info.Threads, Attention: ort.Attention(), Device: info.Device,
			Backend: info.Backend, Task: info.Task.String()}, nil
	}
	l := info.Limits
	return Checked{
		ID: info.ID, Fetched: true, Architecture: info.Architecture, Weights: info.Weights,
		ORT: ort.Version(), Threads: info.Threads, Attention: ort.Attention(),
		Device: info.Device, Backend: info.Backend,
		Chat: info.Chat, Blocks: info.Blocks, BlockTokens: info.BlockTokens, CacheBytes: info.CacheBytes,
		KVDisk: info.KVDisk,
		Limits: &CheckedLimits{
			l.MaxInputTokens, l.MaxTotalTokens, l.MaxBatchPrefillTokens, l.MaxBatchTotalTokens, l.MaxBatchSize,
			l.MaxConcurrentRequests,
		},
	}, nil
}
