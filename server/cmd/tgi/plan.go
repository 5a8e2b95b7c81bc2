package main

import (
	"errors"
	"fmt"
	"log/slog"

	"tgi/models"
	"tgi/models/library"
	"tgi/models/library/lifecycle"
	"tgi/runtime/ort"
	"tgi/server/config"
)

// plan is what a model will take in memory, decided before it is loaded.
type plan struct {
	weights, cache int64 // bytes
}

// besides is what a model takes that depends little on its size: compiled plugins and
// their instances, ONNX Runtime's arenas, the tokenizer (measured: 85 to 90 MiB with
// the part of the cache that was in use).
const besides = 64 << 20

// total is what the roster counts.
func (p plan) total() int64 { return p.weights + p.cache + besides }

// budget bounds the memory of all models: what the settings say, or what is
// available now. A default model alone has no bound but its own failure: what the
// system calls available is an estimate, and so is what a model takes.
func (f *fleet) budget() int64 {
	if m := int64(f.cfg.Models.Memory); m > 0 {
		return m
	}
	all := availableMemory()
	if first, err := f.planFor(f.cfg, library.ID(f.cfg.DefaultModel()), all); err == nil {
		all = max(all, first.total())
	}
	return all
}

// estimate is the roster's: it makes the plan that Start follows.
func (f *fleet) estimate(id library.ID) (int64, error) {
	cfg, err := f.settingsFor(id)
	if err != nil {
		return 0, err
	}
	available := availableMemory()
	if promised, budget := f.roster.Memory(); budget > 0 {
		available = min(available, budget-promised)
	}
	p, err := f.planFor(cfg, id, max(0, available))
	if err != nil {
		return 0, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.plans[id] = p
	return p.total(), nil
}

// promised is the size of the cache that the roster counts for a model that is to be
// loaded. The plan may be a later one, which another caller made in vain.
func (f *fleet) promised(id library.ID) int64 {
	status, _ := f.roster.Get(id)
	f.mu.Lock()
	defer f.mu.Unlock()
	return status.Memory - plan{weights: f.plans[id].weights}.total()
}

// planFor says what the model of cfg will take where some bytes are available. It
// reads JSON files and the headers of weights.
func (f *fleet) planFor(cfg config.Config, id library.ID, available int64) (plan, error) {
	info, err := f.library.Describe(id)
	if err != nil {
		return plan{}, err
	}
	limits := settingsOfModel(cfg, declared(cfg, id))
	weights := formOf(limits.Model.Weights, info)
	p := plan{weights: info.Bytes}
	if c, ok := info.Choice(weights); ok {
		p.weights = c.Bytes
	}
	block := info.CacheBytes * ort.BlockSize
	if block <= 0 {
		return plan{}, fmt.Errorf("%w: its configuration names no size of the cache", library.ErrUnusable)
	}
	rows, perSequence := shapeOfCache(limits.Limits, info.Context)
	p.cache = block * int64(kvBlocks(block, int64(limits.Runtime.KVMemory), available, rows, perSequence))
	return p, nil
}

// formOf is weightsFor of a model that is described.
func formOf(setting string, info library.Info) models.Weights {
	if setting != config.Auto {
		return models.Weights(setting)
	}
	if float64(info.Parameters) <= autoFP32 {
		return models.FP32
	}
	return models.Int8
}

// shapeOfCache returns how many sequences may run, and how many blocks of the
// cache the longest of them fills.
func shapeOfCache(l config.Limits, positions int) (rows, perSequence int) {
	longest := positions
	if l.MaxTotalTokens > 0 {
		longest = min(longest, l.MaxTotalTokens)
	}
	rows = l.MaxConcurrentRequests
	if l.MaxBatchSize > 0 {
		rows = min(rows, l.MaxBatchSize)
	}
	return rows, (longest + ort.BlockSize - 1) / ort.BlockSize
}

// noRoom says whether err is that of a model that does not fit, and with which
// numbers.
func (f *fleet) noRoom(id library.ID, err error) (need, free int64, ok bool) {
	if !errors.Is(err, lifecycle.ErrMemory) {
		return 0, 0, false
	}
	f.mu.Lock()
	need = f.plans[id].total()
	f.mu.Unlock()
	promised, budget := f.roster.Memory()
	f.log.Warn("a model does not fit", "model", id, slog.Int64("needs", need), slog.Int64("promised", promised), slog.Int64("budget", budget))
	return need, max(0, budget-promised), true
}
