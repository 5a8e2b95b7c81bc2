package host

import (
	"fmt"
	"slices"

	"tgi/models"
	"tgi/models/library"
	"tgi/models/library/lifecycle"
	"tgi/models/ready"
	"tgi/runtime/ort"
	"tgi/server/config"
)

// plan is what a model will take in memory, decided before it is loaded.
type plan struct {
	form           models.Weights // of the matrices; empty leaves it to who opens the model
	weights, cache int64          // bytes
	adapters       int64          // likewise
	draft          int64          // of the model that guesses
}

// fixedOverhead is what a model takes that depends little on its size: compiled plugins, ONNX Runtime's arenas, the
// tokenizer (measured: 85 to 90 MiB with the part of the cache that was in use).
const fixedOverhead = 64 << 20

// processOverhead is what a process takes beside that by the time that its first model is loaded: the
// program, the snapshots of the plugins that are built in, and what loading them leaves
// behind. (Measured: 130 MiB; with 150 in all, it is killed.)
const processOverhead = 128 << 20

// total is what the roster counts.
func (p plan) total() int64 { return p.weights + p.cache + p.adapters + p.draft + fixedOverhead }

// budget bounds the memory of all models: what the settings say, or what is
// available now. A default model alone has no bound but its own failure: what the
// system calls available is an estimate, and so is what a model takes. No later plan
// reckons with more than is available now, so that the default model stays within it.
// What plugins may take is no model's.
func (f *manager) budget() int64 {
	if m := int64(f.cfg.Models.Memory); m > 0 {
		return m
	}
	all := max(1, f.atStart-f.memory.Stats().Limit)
	if f.device.onGPU() { // whose memory plugins do not take
		all = max(1, f.gpuAtStart)
	}
	id := library.ID(f.cfg.DefaultModel())
	if first, err := f.planFor(SettingsFor(f.cfg, id), id, all); err == nil {
		all = max(all, first.total())
	}
	return all
}

// available is what a model that is to be loaded may reckon with, in bytes.
func (f *manager) available() int64 {
	kept := f.memory.Stats()
	room := min(f.systemMemory()-max(0, kept.Limit-kept.Used), f.atStart-kept.Limit)
	if f.device.onGPU() {
		room, _ = f.device.free()
	}
	if promised, budget := f.roster.Memory(); budget > 0 {
		room = min(room, budget-promised)
	}
	return max(0, room)
}

// estimate is the roster's: it makes the plan that Start follows.
func (f *manager) estimate(id library.ID) (int64, error) {
	cfg, err := f.settingsFor(id)
	if err != nil {
		return 0, err
	}
	p, err := f.planFor(cfg, id, f.available())
	if err != nil {
		return 0, err
	}
	f.mu.Lock()
	f.plans[id] = p
	f.mu.Unlock()
	return p.total(), f.fits(p) // which asks the roster: see the order of locks
}

// fits refuses what the system would not let this process have even if it had nothing else.
func (f *manager) fits(p plan) error {
	if promised, _ := f.roster.Memory(); promised > 0 || f.device.onGPU() {
		return nil // the roster knows what there is beside the others
	}
	return p.within(f.bounds())
}

// within refuses what one of the bounds leaves no room for.
func (p plan) within(bounds []bound) error {
	for _, b := range bounds {
		if need := p.total() + processOverhead + b.overhead; need > b.left {
			return fmt.Errorf("%w: it needs about %d MiB (weights %d, cache %d, everything else %d), %s of %d MiB leaves %d",
				lifecycle.ErrMemory, need>>20, (p.weights+p.draft)>>20, p.cache>>20,
				(fixedOverhead+processOverhead+b.overhead)>>20, b.name, b.limit>>20, max(0, b.left)>>20)
		}
	}
	return nil
}

// reserved is the form of the weights and the size of the cache that the roster counts
// for a model that is to be loaded. The plan may be a later one, which another caller
// made in vain: that has another cache.
func (f *manager) reserved(id library.ID) (form models.Weights, cache int64) {
	status, _ := f.roster.Get(id)
	f.mu.Lock()
	defer f.mu.Unlock()
	p := f.plans[id]
	p.cache = 0
	return p.form, status.Memory - p.total()
}

// planFor says what a model will take where some bytes are available; cfg is its own.
// It reads JSON files and the headers of weights.
func (f *manager) planFor(cfg config.Config, id library.ID, available int64) (plan, error) {
	info, err := f.library.Describe(id)
	if err != nil {
		return plan{}, err
	}
	if info.Task != library.Generate {
		return f.planEmbedder(cfg, info)
	}
	if info.Format == library.ONNX {
		return f.planForGraph(cfg, info, available)
	}
	p := plan{weights: info.Bytes, adapters: adapterBytes(cfg.Model)}
	if p.draft, err = f.planDraft(cfg); err != nil {
		return plan{}, err
	}
	available = max(0, available-p.draft)
	w, err := weightsFor(cfg, f.device.Processor, float64(info.Parameters), info.DTypes)
	if err != nil {
		return plan{}, err
	}
	if c, ok := info.Choice(f.device.Device, w); ok {
		p.form, p.weights = c.Weights, c.Bytes
	}
	layout := withCache(models.LayoutOf(f.device.Device, w, info.HeadDim), cfg)
	block := info.CacheBytes(layout) * int64(layout.BlockSize)
	if block <= 0 {
		return plan{}, fmt.Errorf("%w: its configuration names no size of the cache", library.ErrUnusable)
	}
	rows, perSequence := shapeOfCache(cfg.Limits, info.Context, layout.BlockSize)
	wanted := int64(cfg.Runtime.KVMemory)
	if wanted == 0 && f.device.onGPU() {
		wanted = max(1, f.gpuCache(available-p.weights))
	}
	p.cache = block * int64(kvBlocks(block, wanted, available, rows, perSequence))
	return p, nil
}

// planForGraph is planFor for a folder with ready graphs.
func (f *manager) planForGraph(cfg config.Config, info library.Info, available int64) (plan, error) {
	list := make([]ready.Variant, len(info.Graphs))
	for i, g := range info.Graphs {
		list[i] = g.Variant
	}
	v, err := variantFor(cfg, f.device.Processor, list)
	if err != nil {
		return plan{}, err
	}
	g := info.Graphs[slices.Index(list, v)]
	token := info.CacheBytes(graphLayout(g))
	tokens, rows := graphRows(cfg.Limits, g.MaxPositions, token, int64(cfg.Runtime.KVMemory), available)
	return plan{form: models.Weights(g.Weights), weights: g.Memory(), cache: token * int64(tokens) * int64(rows)}, nil
}

// stepCopies is how many numbers of the width of a layer ONNX Runtime holds for each token of a step.
const stepCopies = 12

// planEmbedder is planFor for a model that turns texts into vectors. It runs on the CPU whatever else runs on a GPU,
// whose memory it does not take.
func (f *manager) planEmbedder(cfg config.Config, info library.Info) (plan, error) {
	if f.device.onGPU() {
		return plan{}, nil
	}
	p := plan{weights: info.Bytes}
	w, err := weightsFor(cfg, f.device.Processor, float64(info.Parameters), info.DTypes)
	if err != nil {
		return plan{}, err
	}
	if c, ok := info.Choice(models.CPU, w); ok {
		p.form, p.weights = c.Weights, c.Bytes
	}
	p.cache = int64(cfg.Embeddings.MaxBatchTokens) * int64(info.Hidden) * stepCopies * 4
	return p, nil
}

// gpuCache is the part of what a model leaves of a GPU's memory that its cache takes, unless the settings say: nearly
// all of it, unless other models are to be loaded.
func (f *manager) gpuCache(left int64) int64 {
	if f.single {
		return int64(float64(left) * ort.CacheShare)
	}
	return left / 4
}

// shapeOfCache returns how many sequences may run, and how many blocks of
// blockSize tokens the longest of them fills.
func shapeOfCache(l config.Limits, positions, blockSize int) (rows, perSequence int) {
	longest := positions
	if l.MaxTotalTokens > 0 {
		longest = min(longest, l.MaxTotalTokens)
	}
	rows = l.MaxConcurrentRequests
	if l.MaxBatchSize > 0 {
		rows = min(rows, l.MaxBatchSize)
	}
	return rows, blocksFor(longest, blockSize)
}

// shortfall returns the bytes that a model that does not fit needs, and those that are
// free for it.
func (f *manager) shortfall(id library.ID) (need, free int64) {
	f.mu.Lock()
	need = f.plans[id].total()
	f.mu.Unlock()
	promised, budget := f.roster.Memory()
	return need, max(0, budget-promised)
}
