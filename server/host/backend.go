package host

import (
	"path/filepath"

	"tgi/models"
	"tgi/models/decoder"
	"tgi/runtime/ort"
	"tgi/server/config"
	"tgi/server/host/bridge"
)

// backend runs a model: ONNX Runtime on one device. The engine has it run steps; the host reads its sizes and closes
// it after the engine.
type backend interface {
	bridge.Backend
	// ThreadCount is the number of CPU threads that a step runs on.
	ThreadCount() int
	// CacheBytes is the memory of the KV cache.
	CacheBytes() int64
	// Close frees the model and its cache. It may be called twice.
	Close()
}

// cacheTokens is how many tokens the cache of b holds.
func cacheTokens(b backend) int { return b.Blocks() * b.BlockSize() }

// blocksFor is how many cache blocks hold so many tokens.
func blocksFor(tokens, blockSize int) int { return (tokens + blockSize - 1) / blockSize }

// backendOptions describes a built model to the CPU's backend; the size of the cache
// is left to the caller.
func backendOptions(b models.Built) ort.Options {
	return ort.Options{
		ModelPath: b.ModelFile, Layers: b.Layers, KVHeads: b.KVHeads, HeadDim: b.HeadDim, Latent: b.Latent,
		Cache: ort.CacheForm(b.Cache),
		Vocab: b.Vocab, MaxLen: b.MaxPositions, OriginalLen: b.OriginalPositions, Width: b.Width, Places: b.Places,
		KeyEnds: b.KeyEnds,
	}
}

// openPaged opens a model on the CPU, with its quantised matrices in large pages.
func openPaged(o ort.Options) (*ort.Paged, error) {
	matrices, err := decoder.MappedMatrices(o.ModelPath)
	if err != nil {
		return nil, err
	}
	for _, m := range matrices {
		o.Weights = append(o.Weights, ort.Matrix{Name: m.Name, Offset: m.Offset, Shape: m.Dims})
	}
	o.WeightsPath = filepath.Join(filepath.Dir(o.ModelPath), decoder.DataFile)
	return ort.Open(o)
}

// withCache returns a layout with keys and values as the settings ask for them, where the device leaves the choice.
func withCache(l models.Layout, cfg config.Config) models.Layout {
	if l.Device != models.CPU || cfg.Runtime.KVDType == config.Auto {
		return l
	}
	return l.WithCache(models.DType(cfg.Runtime.KVDType))
}

func spinOf(setting string) ort.Spin {
	switch setting {
	case config.SpinOn:
		return ort.SpinOn
	case config.SpinOff:
		return ort.SpinOff
	}
	return ort.SpinAuto
}
