package host

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"tgi/models"
	"tgi/models/demo"
	"tgi/models/hf"
	"tgi/models/store"
	"tgi/runtime/engine"
	"tgi/runtime/ort"
	"tgi/runtime/sched"
	"tgi/runtime/token"
	"tgi/server/config"
	"tgi/server/host/bridge"
)

// demoName is what the embedded model is called in /info and the log.
const demoName = "tgi-demo"

// autoFP32 is the number of parameters up to which weights "auto" stays with
// 32-bit floats: there the model is read from memory quickly enough anyway.
const autoFP32 = 250e6

// progressEvery is how often a long conversion says how far it is.
const progressEvery = 2 * time.Second

// instance is a model that is ready to serve. Its parts were opened in the
// order of the fields; Close closes them backwards.
type instance struct {
	source    checkpoint
	built     models.Built
	tokenizer *token.Tokenizer
	backend   *ort.Paged
	engine    *engine.Engine
	demand    *engine.Demand // of all models together
	limits    config.Limits
	kvBytes   int64
	eos       []uint32 // tokens that end a sequence
}

// open does everything between the settings and a running engine. ONNX Runtime is
// loaded. demand is what all models share; say is told what takes long. After an
// error nothing stays open.
func open(ctx context.Context, cfg config.Config, obs engine.Observer, demand *engine.Demand,
	say func(string, ...any)) (*instance, error) {
	in := &instance{demand: demand}
	src, err := describe(cfg.Model.Path)
	if err != nil {
		return nil, pathError(cfg, err)
	}
	ckpt := src.desc
	in.source = src
	if err := in.loadTokenizer(ckpt); err != nil {
		return nil, err
	}
	in.built, err = src.build(ctx, weightsFor(cfg.Model.Weights, EstimateParams(ckpt.Config)), in.tokenizer, say)
	if err != nil {
		return nil, err
	}
	in.eos = eosOf(ckpt, in.tokenizer)
	if err := in.start(cfg, obs); err != nil {
		in.Close()
		return nil, err
	}
	return in, nil
}

// checkpoint is a checkpoint whose weights are not open yet.
type checkpoint struct {
	fsys fs.FS // nil for a folder on disk
	name string
	desc *hf.Checkpoint
}

// describe reads the JSON files of the folder at path, or of the embedded
// model when path is empty.
func describe(path string) (s checkpoint, err error) {
	if path == "" {
		s.fsys, s.name = demo.Checkpoint(), demoName
		s.desc, err = hf.DescribeFS(s.fsys, s.name)
		return s, err
	}
	if s.name, err = filepath.Abs(path); err != nil {
		return s, err
	}
	s.desc, err = hf.Describe(s.name)
	return s, err
}

// pathError says of an error of describe which setting names the folder.
func pathError(cfg config.Config, err error) error {
	if cfg.Model.Path == "" {
		return err
	}
	if errors.Is(err, fs.ErrNotExist) {
		if _, missing := os.Stat(cfg.Model.Path); missing != nil {
			err = fmt.Errorf("there is no folder %s", cfg.Model.Path)
		}
	}
	if place := cfg.Place("path"); place != "" {
		return fmt.Errorf("%s: model.path: %w", place, err)
	}
	return fmt.Errorf("model.path: %w", err)
}

// dir is the folder on disk; "" for the embedded model.
func (s checkpoint) dir() string {
	if s.fsys != nil {
		return ""
	}
	return s.name
}

// templates reads the chat templates as they are now.
func (s checkpoint) templates() (hf.TokenizerConfig, error) {
	if s.fsys != nil {
		return s.desc.Tokenizer, nil
	}
	ckpt, err := hf.Describe(s.name)
	if err != nil {
		return hf.TokenizerConfig{}, err
	}
	return ckpt.Tokenizer, nil
}

// prepare returns the built model, converting it when the cache has none.
func (s checkpoint) prepare(ctx context.Context, opt store.Options) (models.Built, error) {
	if s.fsys != nil {
		return store.PrepareFS(ctx, s.fsys, s.name, opt)
	}
	return store.Prepare(ctx, s.name, opt)
}

// build is prepare for serving. It tells the progress of a conversion and what
// that did to the weights and to the model's predictions.
func (s checkpoint) build(ctx context.Context, w models.Weights, tok *token.Tokenizer,
	say func(string, ...any)) (models.Built, error) {
	opt := store.Options{Weights: w, Damaged: func(err error) { say("%v; it is converted anew", err) }}
	last, converted := time.Now(), false
	opt.Progress = func(done, total int64) {
		if time.Since(last) >= progressEvery {
			last = time.Now()
			say("converting to %s: %d%%", w, 100*done/max(total, 1))
		}
	}
	opt.Converted = func(c store.Conversion) {
		converted = true
		say("converted to %s in %.1fs", w, c.Took.Seconds())
		if c.Error.Count() > 0 {
			say("relative error of the weights: %.2f%%", 100*c.Error.Relative())
		}
	}
	b, err := s.prepare(ctx, opt)
	if err != nil || !converted || w == models.FP32 {
		return b, err
	}
	text, err := quantCheck(ctx, b, tok, s.prepare)
	switch {
	case err != nil:
		return b, fmt.Errorf("compare %s with fp32: %w", w, err)
	case text == "":
		say("not compared with fp32: the reference would take more than half of the available memory")
	default:
		say("compared with fp32: %s", text)
	}
	return b, nil
}

// weightsFor resolves the setting model.weights, which config has checked, for a model
// of so many parameters.
func weightsFor(setting string, parameters float64) models.Weights {
	if setting != config.Auto {
		return models.Weights(setting)
	}
	if parameters <= autoFP32 {
		return models.FP32
	}
	return models.Int8
}

// EstimateParams estimates the number of parameters, leaving norms and biases out.
func EstimateParams(c hf.Config) float64 {
	embed := float64(c.Vocab) * float64(c.Hidden)
	if !c.Tied {
		embed *= 2
	}
	attention := 2 * (c.Heads + c.KVHeads) * c.HeadDim
	return embed + float64(c.Layers)*float64(c.Hidden)*float64(attention+3*c.Intermediate)
}

func (in *instance) loadTokenizer(ckpt *hf.Checkpoint) error {
	if ckpt.TokenizerJSON == nil {
		return fmt.Errorf("%s has no %s: text cannot be turned into tokens without it", ckpt.Name, hf.TokenizerFile)
	}
	tok, err := token.Load(ckpt.TokenizerJSON)
	if err != nil {
		return fmt.Errorf("%s: %w", ckpt.Name, err)
	}
	in.tokenizer = tok
	return nil
}

// eosOf returns the ids that end a sequence: those that the model's files name
// as numbers and the one that the tokenizer's configuration names as text.
func eosOf(ckpt *hf.Checkpoint, tok *token.Tokenizer) []uint32 {
	ids := slices.Clone(ckpt.EOS())
	if text := ckpt.Tokenizer.EOS; text != "" {
		if id, ok := tok.ID(text); ok && !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	return ids
}

// start opens the backend with a cache of the right size and the engine on it.
func (in *instance) start(cfg config.Config, obs engine.Observer) error {
	arch := in.built.Arch
	opt := backendOptions(in.built)
	blockBytes := int64(opt.BlockBytes())
	rows, perSequence := shapeOfCache(cfg.Limits, arch.MaxPositions)
	blocks := kvBlocks(blockBytes, int64(cfg.Runtime.KVMemory), availableMemory(), rows, perSequence)
	if blocks < 1 {
		return fmt.Errorf("runtime.kv_memory %s holds no cache block: this model needs at least %d bytes for %d tokens",
			cfg.Runtime.KVMemory, blockBytes, ort.BlockSize)
	}
	in.kvBytes = int64(blocks) * blockBytes
	limits, err := cfg.Limits.Size(arch.MaxPositions, blocks*ort.BlockSize)
	if err != nil {
		return err
	}
	in.limits = limits
	opt.Blocks, opt.Threads, opt.Spin = blocks, cfg.Runtime.Threads, spinOf(cfg.Runtime.Spin)
	in.backend, err = ort.Open(opt)
	if err != nil {
		return err
	}
	in.engine, err = engine.New(bridge.Model(in.backend), bridge.Codec(in.tokenizer, in.eos), engine.Config{
		Settings:  schedSettings(limits, cfg.Runtime.PrefixSharing),
		Observer:  obs,
		Demand:    in.demand,
		Verify:    cfg.Runtime.Verify,
		GuestWait: time.Duration(cfg.Runtime.PluginWait),
	})
	return err
}

// backendOptions describes a built model to the backend; the size of the cache
// is left to the caller.
func backendOptions(b models.Built) ort.Options {
	return ort.Options{
		ModelPath: b.ModelFile, Layers: b.Layers, KVHeads: b.KVHeads, HeadDim: b.HeadDim,
		Vocab: b.Vocab, MaxLen: b.MaxPositions,
	}
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

func schedSettings(l config.Limits, share bool) sched.Settings {
	return sched.Settings{
		MaxConcurrentRequests: l.MaxConcurrentRequests,
		MaxBatchPrefillTokens: l.MaxBatchPrefillTokens,
		MaxBatchTotalTokens:   l.MaxBatchTotalTokens,
		MaxBatchSize:          l.MaxBatchSize,
		MaxInputTokens:        l.MaxInputTokens,
		MaxTotalTokens:        l.MaxTotalTokens,
		WaitingServedRatio:    l.WaitingServedRatio,
		MaxWaitingTokens:      l.MaxWaitingTokens,
		NoPrefixSharing:       !share,
	}
}

// Close stops the engine and frees the model. Parts that were never opened are passed over.
func (in *instance) Close() error {
	var err error
	if in.engine != nil {
		err = errors.Join(err, in.engine.Close())
	}
	if in.backend != nil {
		in.backend.Close()
	}
	return err
}
