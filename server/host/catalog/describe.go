package catalog

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"

	"tgi/models"
	"tgi/models/hf"
	"tgi/models/library"
	"tgi/models/library/progress"
	"tgi/server/config"
	"tgi/server/host"
)

// Find returns a model of the models folder or of cfg, with the settings that it has.
func Find(cfg config.Config, id library.ID) (config.Config, library.Declared, error) {
	var d library.Declared
	lib, err := host.OpenLibrary(cfg)
	if err != nil {
		return cfg, d, err
	}
	m, err := lib.Find(id)
	if n := lib.Partial(id); err != nil && n > 0 {
		return cfg, d, fmt.Errorf("model %s: %w: %s of it are here, the pull that was broken off goes on from there",
			id, library.ErrNotFound, progress.Bytes(n))
	}
	if err != nil {
		return cfg, d, err
	}
	d = library.Declared{ID: id, Dir: m.Dir}
	if m.Dir == "" {
		d.FS = m.FS
	}
	return host.SettingsFor(cfg, id), d, nil
}

// Description says what a model is.
type Description struct {
	ID           library.ID `json:"id"`
	Folder       string     `json:"folder,omitempty"` // none for a model that is part of the program
	Architecture string     `json:"architecture"`
	Layers       int        `json:"layers"`
	Hidden       int        `json:"hidden_size"`
	Heads        int        `json:"heads"`
	KVHeads      int        `json:"kv_heads"`
	HeadDim      int        `json:"head_dim"`
	Vocabulary   int        `json:"vocabulary"`
	Positions    int        `json:"positions"`
	// Parameters are counted where the weights can be read, and else estimated.
	Parameters int64 `json:"parameters"`
	Estimated  bool  `json:"parameters_estimated,omitempty"`
	// Task is what a model does that does not generate, as in "embeds texts": it has no cache and runs on the CPU.
	// Pooling are the ways to a vector of a text, Labels those of a classifier or reranker.
	Task      string          `json:"task,omitempty"`
	Pooling   []string        `json:"pooling,omitempty"`
	Labels    []string        `json:"labels,omitempty"`
	EOS       []uint32        `json:"eos_token_ids"`
	Weights   *Weights        `json:"weights,omitempty"` // nil where they cannot be served
	Chat      string          `json:"chat,omitempty"`
	Templates []string        `json:"chat_templates"`
	Tokenizer bool            `json:"tokenizer"`
	Origin    *library.Origin `json:"origin,omitempty"`
}

// Weights are the files of weights, and the memory that they take on the CPU and on a GPU.
type Weights struct {
	Files  int            `json:"files"`
	Bytes  int64          `json:"bytes"`
	Format library.Format `json:"format"`
	DTypes []string       `json:"dtypes"`
	Memory
	CUDA    *Memory `json:"cuda,omitempty"`
	Context int     `json:"context"`
	// Graphs are those of a folder of ready ONNX graphs, the one first that is taken if none is asked for.
	Graphs []Graph `json:"graphs,omitempty"`
}

// Graph is a ready ONNX graph.
type Graph struct {
	File    string `json:"file"`
	Weights string `json:"weights"`
	Bytes   int64  `json:"bytes"`
	// Lacks are sentences about what it does not do.
	Lacks []string `json:"lacks,omitempty"`
}

// Memory is what a model takes on a device.
type Memory struct {
	Weights       map[string]int64 `json:"memory_bytes"` // by --weights; empty where the graph decides
	CachePerToken int64            `json:"cache_bytes_per_token"`
	// CacheQuantised is that with int8 and int4 weights.
	CacheQuantised int64 `json:"cache_bytes_per_token_quantised"`
	// Choices are those of Weights in their order.
	Choices []library.Choice `json:"-"`
}

// Describe returns what a model is, and what conversations with it go through by cfg. A report beside an
// error says what the JSON files hold of a model whose weights cannot be served.
func Describe(cfg config.Config, d library.Declared) (*Description, error) {
	lib, err := library.Open(library.Options{Dir: ".", Declared: []library.Declared{d}}) // no other model is asked for
	if err != nil {
		return nil, err
	}
	m, err := lib.Find(d.ID)
	if err != nil {
		return nil, err
	}
	c, err := hf.DescribeFS(m.FS, cmp.Or(m.Dir, PartOfProgram))
	if err != nil {
		return nil, err
	}
	info, unusable := lib.Describe(d.ID)
	a := c.Config
	r := &Description{
		ID: d.ID, Folder: m.Dir, Architecture: a.Architecture, Layers: a.Layers, Hidden: a.Hidden, Heads: a.Heads,
		KVHeads: a.KVHeads, HeadDim: a.HeadDim, Vocabulary: a.Vocab, Positions: a.MaxPositions,
		Parameters: info.Parameters,
		EOS:        c.EOS(),
		Templates:  slices.Sorted(maps.Keys(c.Tokenizer.ChatTemplates)), Tokenizer: c.TokenizerJSON != nil,
	}
	if r.Parameters == 0 && c.Ready == nil {
		r.Parameters, r.Estimated = int64(host.EstimateParams(c.Config)), true
	}
	if unusable == nil {
		r.Weights = weightsOf(info)
		r.Origin = info.Origin
	}
	if e := a.Encoder; e != nil {
		task := library.Embed
		if e.Classifier {
			task = library.Classify
		}
		r.Task, r.Pooling, r.Labels = host.TaskOf(task, len(e.Labels)).String(), []string{e.Pooling}, e.Labels
		if c.Sentence != nil {
			r.Pooling = c.Sentence.Pooling
		}
		if r.Weights != nil {
			r.Weights.CUDA = nil
		}
	}
	chat, chatErr := host.DescribeChat(cfg, string(d.ID), d.Dir, c.Tokenizer)
	if chatErr == nil && r.Task == "" {
		r.Chat = chat
	}
	return r, errors.Join(unusable, chatErr)
}

func weightsOf(info library.Info) *Weights {
	w := &Weights{
		Files: info.Files, Bytes: info.Bytes, Format: info.Format, DTypes: info.DTypes, Context: info.Context,
		Memory: memoryOf(info, models.CPU),
	}
	for _, g := range info.Graphs {
		w.Graphs = append(w.Graphs, Graph{g.File, g.Weights, g.Bytes, g.Notes})
	}
	if m := memoryOf(info, models.CUDA); len(m.Choices) > 0 {
		w.CUDA = &m
	}
	return w
}

func memoryOf(info library.Info, d models.Device) Memory {
	m := Memory{Weights: map[string]int64{},
		CachePerToken:  info.CacheBytes(models.LayoutOf(d, d.Formats()[0], info.HeadDim)),
		CacheQuantised: info.CacheBytes(models.LayoutOf(d, models.Int8, info.HeadDim))}
	if len(info.Graphs) > 0 { // which say it themselves
		layout := models.LayoutOf(d, models.FP32, info.HeadDim)
		if info.Graphs[0].Half {
			layout.Cache = models.Float16
		}
		m.CachePerToken = info.CacheBytes(layout)
		m.CacheQuantised = m.CachePerToken
	}
	for _, c := range info.Choices {
		if c.Device == d {
			m.Weights[string(c.Weights)] = c.Bytes
			m.Choices = append(m.Choices, c)
		}
	}
	return m
}

// PartOfProgram stands where a model has no folder.
const PartOfProgram = "part of the program"
