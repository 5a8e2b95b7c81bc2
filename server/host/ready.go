package host

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"tgi/models"
	"tgi/models/ready"
	"tgi/runtime/ort"
	"tgi/server/config"
)

// errGraphDevice says that a device does not run graphs that others made.
var errGraphDevice = errors.New("ready ONNX graphs run on the CPU: set runtime.device = \"cpu\"")

// chooseGraph reads the graph of a folder that the settings ask for, and tells what it lacks.
func (in *instance) chooseGraph(cfg config.Config, d device, say func(string, ...any)) error {
	ckpt := in.source.desc
	v, err := variantFor(cfg, d.Processor, ckpt.Ready.Variants)
	if err != nil {
		return err
	}
	if cfg.Model.Adapts() {
		return errors.New("model.adapter: adapters are not computed for ready ONNX graphs: remove them and " +
			"model.adapter_memory")
	}
	g, err := ckpt.Ready.Read(v)
	if err != nil {
		return err
	}
	in.graph = g
	in.built = models.Built{
		Arch: models.Arch{Name: ckpt.Name, Architecture: ckpt.Config.Architecture, Layers: g.Layers(),
			Heads: ckpt.Config.Heads, KVHeads: g.KVHeads, HeadDim: g.HeadDim, Vocab: g.Vocab,
			MaxPositions: g.MaxPositions},
		Layout: graphLayout(g), Weights: models.Weights(g.Weights), WeightBytes: g.Bytes,
		Dir: in.source.dir(), ModelFile: filepath.Join(in.source.dir(), filepath.FromSlash(g.File)),
	}
	say("%s, a ready graph with %s weights", g.File, g.Weights)
	for _, note := range g.Notes {
		say("%s", note)
	}
	return nil
}

// variantFor resolves the setting of the weights for a folder with graphs.
func variantFor(cfg config.Config, p models.Processor, list []ready.Variant) (ready.Variant, error) {
	if p.Device == models.CUDA {
		return ready.Variant{}, errGraphDevice
	}
	asked := cfg.Model.Weights
	if asked == config.Auto {
		asked = ""
	}
	v, err := ready.Pick(list, asked)
	if place := cfg.Place("weights"); err != nil && place != "" {
		return v, fmt.Errorf("%s: model.%w", place, err)
	}
	if err != nil {
		return v, fmt.Errorf("model.%w", err)
	}
	return v, nil
}

// sourceOf is a model's source, which names the graph that its weights ask for, so that no other is fetched.
func sourceOf(m config.Model) string {
	s, err := config.ParseSource(m.Source)
	if err == nil && s.URL == "" && s.File == "" && slices.Contains(ready.Forms(), m.Weights) {
		return m.Source + ":" + m.Weights
	}
	return m.Source
}

// graphLayout is how a graph's cache holds numbers; the length of its rows is left to the caller.
func graphLayout(g *ready.Graph) models.Layout {
	l := models.Layout{Device: models.CPU, DType: models.Float32, Cache: models.Float32}
	if g.Half {
		l.Cache = models.Float16
	}
	return l
}

// fullRows is how many sequences should fit into the cache of a graph, whose rows are as long as the longest; and
// shortestRow how long those are that make it so, unless the settings say.
const (
	fullRows    = 8
	shortestRow = 2048
)

// graphRows returns how many tokens a row of the cache has, and how many rows there are, in a cache of a wanted size or
// of what is left of the available memory. tokenBytes is the size of a token.
func graphRows(l config.Limits, positions int, tokenBytes, wanted, available int64) (tokens, rows int) {
	rows, tokens = shapeOfCache(l, positions, 1)
	if l.MaxBatchTotalTokens > 0 {
		tokens = min(tokens, l.MaxBatchTotalTokens)
	}
	if l.MaxTotalTokens == 0 {
		budget := wanted
		if budget == 0 {
			budget = available / 4
		}
		each := budget / tokenBytes / int64(min(rows, fullRows))
		tokens = int(min(int64(tokens), max(each, shortestRow)))
	}
	return tokens, kvBlocks(tokenBytes*int64(tokens), wanted, available, rows, 1)
}

// openGraph opens a ready graph with a cache of the size that the settings say or leave, and the limits for it.
func openGraph(g *ready.Graph, b *models.Built, cfg config.Config, say func(string, ...any)) (*ort.Slab, config.Limits,
	error) {
	token := b.CacheBytesPerToken()
	tokens, rows := graphRows(cfg.Limits, b.MaxPositions, token, int64(cfg.Runtime.KVMemory), availableMemory())
	if rows < 1 {
		return nil, cfg.Limits, fmt.Errorf("runtime.kv_memory %s holds no row of the cache: this model needs at least %d "+
			"bytes for %d tokens; model.context makes rows shorter", cfg.Runtime.KVMemory, token*int64(tokens), tokens)
	}
	if tokens < b.MaxPositions && cfg.Limits.MaxTotalTokens == 0 {
		say("sequences have up to %d tokens, of %d positions, so that %d fit into the cache: model.context or "+
			"runtime.kv_memory say otherwise", tokens, b.MaxPositions, rows)
	}
	b.BlockSize = tokens
	limits, err := cfg.Limits.Size(b.MaxPositions, rows*tokens)
	if err != nil {
		return nil, limits, err
	}
	if cfg.Limits.MaxTotalTokens == 0 {
		limits.MaxTotalTokens = min(limits.MaxTotalTokens, tokens)
		limits.MaxInputTokens = min(limits.MaxInputTokens, limits.MaxTotalTokens-1)
	}
	s, err := ort.OpenSlab(slabOptions(g, b, rows, cfg))
	if err != nil {
		return nil, limits, err
	}
	for _, note := range s.Notes() {
		say("%s", note)
	}
	return s, limits, nil
}

// slabOptions describes a graph to its backend.
func slabOptions(g *ready.Graph, b *models.Built, rows int, cfg config.Config) ort.SlabOptions {
	return ort.SlabOptions{
		ModelPath: b.ModelFile, IDs: g.IDs, Mask: g.Mask, Positions: g.Positions, Keep: g.Keep, Logits: g.Logits,
		PastKey: g.PastKey, PastValue: g.PastValue, PresentKey: g.PresentKey, PresentValue: g.PresentValue,
		KVHeads: g.KVHeads, HeadDim: g.HeadDim, Half: g.Half, InPlace: g.InPlace, Alone: g.Alone, LastOnly: g.LastOnly,
		Vocab: g.Vocab, RowLen: b.BlockSize, Rows: rows, Threads: cfg.Runtime.Threads, Spin: spinOf(cfg.Runtime.Spin),
	}
}
