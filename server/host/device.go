package host

import (
	"fmt"
	"slices"

	"tgi/models"
	"tgi/runtime/ort"
	"tgi/server/config"
	"tgi/server/host/hardware"
)

// device is where models run, and whose memory they take.
type device struct{ hardware.Choice }

// openDevice loads ONNX Runtime for the device that the settings choose.
func openDevice(cfg config.Config) (device, error) {
	choice, err := hardware.Choose(cfg.Runtime.Device, cfg.Runtime.ORTLib)
	if err == nil {
		err = ort.Init(choice.Library)
	}
	return device{choice}, err
}

// onGPU reports whether models take the memory of a device of their own.
func (d device) onGPU() bool { return d.Device == models.CUDA }

// setting is how the settings name the device.
func (d device) setting() string {
	if d.onGPU() {
		return fmt.Sprintf("cuda:%d", d.CUDA.Index)
	}
	return string(models.CPU)
}

// text says what a model runs on.
func (d device) text(b backend) string {
	if d.onGPU() {
		return fmt.Sprintf("ONNX Runtime %s on %s", ort.Version(), d.CUDA)
	}
	return fmt.Sprintf("ONNX Runtime %s on the CPU, %d threads, %s attention, %s products", ort.Version(),
		b.ThreadCount(), ort.Attention(), ort.Product())
}

// free returns the bytes of a GPU that models may take, and those that it has; nothing on the CPU.
func (d device) free() (free, total int64) {
	if d.onGPU() {
		free, total, _ = ort.DeviceMemory(d.CUDA.Index)
	}
	return free, total
}

// open opens a built model with a cache of the size that the settings say or leave, and the limits for it. matrices
// counts those that adapters may add to, 0 without adapters.
func (d device) open(b models.Built, matrices int, cfg config.Config) (backend, config.Limits, error) {
	rows, perSequence := shapeOfCache(cfg.Limits, b.MaxPositions, b.BlockSize)
	if matrices > 0 && b.AdaptedFile == "" {
		return nil, cfg.Limits, fmt.Errorf("adapters are not computed for %s: remove them and model.adapter_memory",
			b.Architecture)
	}
	if d.onGPU() {
		return d.openGPU(b, matrices, cfg, rows, rows*perSequence)
	}
	opt := backendOptions(b)
	blockBytes := int64(opt.BlockBytes())
	blocks := kvBlocks(blockBytes, int64(cfg.Runtime.KVMemory), availableMemory(), rows, perSequence)
	if blocks < 1 {
		return nil, cfg.Limits, fmt.Errorf(
			"runtime.kv_memory %s holds no cache block: this model needs at least %d bytes for %d tokens",
			cfg.Runtime.KVMemory, blockBytes, opt.BlockSize())
	}
	limits, err := cfg.Limits.Size(b.MaxPositions, blocks*opt.BlockSize())
	if err != nil {
		return nil, limits, err
	}
	if matrices > 0 {
		opt.ModelPath, opt.Adapters = b.AdaptedFile, matrices
	}
	opt.Blocks, opt.Threads, opt.Spin = blocks, cfg.Runtime.Threads, spinOf(cfg.Runtime.Spin)
	paged, err := openPaged(opt)
	if err != nil {
		return nil, limits, err
	}
	return paged, limits, nil
}

// openGPU is open for a GPU, whose cache has at most so many blocks: the limits follow from what the model leaves.
func (d device) openGPU(b models.Built, matrices int, cfg config.Config, rows, blocks int) (backend, config.Limits,
	error) {
	largest, err := cfg.Limits.Size(b.MaxPositions, blocks*b.BlockSize)
	if err != nil {
		return nil, largest, err
	}
	opt := d.options(b)
	opt.MaxBlocks, opt.CacheBytes = blocks, int64(cfg.Runtime.KVMemory)
	opt.StepTokens, opt.StepRows = largest.MaxBatchPrefillTokens, rows
	if matrices > 0 {
		opt.ModelPath, opt.Adapters, opt.AdapterBytes = b.AdaptedFile, matrices, adapterBytes(cfg.Model)
	}
	if opt.Graphs, err = graphSizes(cfg.Runtime.CUDAGraphs, rows); err != nil {
		return nil, largest, err
	}
	m, err := ort.OpenCUDA(opt)
	if err != nil {
		return nil, largest, err
	}
	limits, err := cfg.Limits.Size(b.MaxPositions, cacheTokens(m))
	if err != nil {
		m.Close()
		return nil, limits, err
	}
	return m, limits, nil
}

// graphSizes are the sizes of batches that run as CUDA graphs: those of the setting up to the one that holds as many
// rows as a step may have.
func graphSizes(setting string, rows int) ([]int, error) {
	sizes, err := config.ParseGraphs(setting)
	if err != nil {
		return nil, fmt.Errorf("runtime.cuda_graphs %w", err)
	}
	if i, _ := slices.BinarySearch(sizes, rows); i < len(sizes) {
		sizes = sizes[:i+1]
	}
	return sizes, nil
}

// options describes a built model to the GPU's backend.
func (d device) options(b models.Built) ort.CUDAOptions {
	return ort.CUDAOptions{
		ModelPath: b.ModelFile, Layers: b.Layers, KVHeads: b.KVHeads, HeadDim: b.HeadDim, Latent: b.Latent,
		Places: b.Places, Vocab: b.Vocab, MaxLen: b.MaxPositions, BlockSize: b.BlockSize, Device: d.CUDA.Index,
		MixedGEMM: b.Weights.Quantised(),
	}
}

// openSmall opens a built model for one sequence of so many tokens.
func (d device) openSmall(b models.Built, tokens int) (backend, error) {
	blocks := blocksFor(tokens, b.BlockSize)
	if d.onGPU() {
		opt := d.options(b)
		opt.MaxBlocks, opt.StepTokens, opt.StepRows = blocks, tokens, 1
		m, err := ort.OpenCUDA(opt)
		if err != nil {
			return nil, err
		}
		return m, nil
	}
	opt := backendOptions(b)
	opt.Blocks = blocks
	paged, err := openPaged(opt)
	if err != nil {
		return nil, err
	}
	return paged, nil
}
