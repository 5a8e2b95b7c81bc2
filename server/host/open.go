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
	"tgi/models/ready"
	"tgi/models/store"
	"tgi/runtime/draft"
	"tgi/runtime/engine"
	"tgi/runtime/kv"
	"tgi/runtime/kvdisk"
	"tgi/runtime/ort"
	"tgi/runtime/sched"
	"tgi/runtime/token"
	"tgi/server/config"
	"tgi/server/host/bridge"
)

// demoName is what the embedded model is called in /info and the log.
const demoName = "tgi-demo"

// progressEvery is how often a long conversion says how far it is.
const progressEvery = 2 * time.Second

// instance is a model that is ready to serve. Its parts were opened in the
// order of the fields; Close closes them backwards.
type instance struct {
	source    checkpoint
	built     models.Built
	graph     *ready.Graph // of a folder that has such in place of weights
	tokenizer *token.Tokenizer
	backend   backend
	draft     *draftModel // nil without
	engine    *engine.Engine
	demand    *engine.Demand // of all models together
	limits    config.Limits
	eos       []uint32  // tokens that end a sequence
	adapters  *adapters // nil without
	images    *images   // nil for a model that reads text only
	keeps     bool      // prompts on disk
}

// open does everything between the settings and a running engine on d. ONNX Runtime is
// loaded. demand is what all models share, second guesses if it is not nil, and so keeps disk
// prompts; watcher, if it is not nil, is told what is cached, say what takes long. read is called when the model's
// files are read, before the slower half: what it starts may look at source, tokenizer, built.Vocab and eos. After an
// error nothing stays open.
func open(ctx context.Context, cfg config.Config, d device, obs engine.Observer, demand *engine.Demand,
	second *draftSource, disk *kvdisk.Folder, watcher kv.Watcher, say func(string, ...any),
	read func(*instance)) (*instance, error) {
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
	if err := in.prepare(ctx, cfg, d, say); err != nil {
		return nil, err
	}
	in.eos = eosOf(ckpt, in.tokenizer)
	read(in)
	if second != nil {
		if in.graph != nil {
			return nil, guesserError(cfg, errors.New("there are no guesses for ready ONNX graphs"))
		}
		if in.draft, err = in.openDraft(ctx, second, cfg.Limits, d, say); err != nil {
			return nil, guesserError(cfg, err)
		}
	}
	if err = in.start(cfg, d, obs, disk, watcher, say); err == nil {
		if b, ok := in.backend.(*ort.CUDA); ok && b.NotMixed() != nil {
			say("slower kernels for quantised weights: %v", b.NotMixed())
		}
		if b, ok := in.backend.(*ort.CUDA); ok && b.Attends() != nil {
			say("slower attention: %v", b.Attends())
		}
		err = in.loadAdapters(ctx, cfg, d.Device, say)
	}
	if err == nil {
		err = in.openImages(cfg, d, say)
	}
	if err != nil {
		in.Close()
		return nil, err
	}
	return in, nil
}

// prepare has the model built, or its graph chosen.
func (in *instance) prepare(ctx context.Context, cfg config.Config, d device, say func(string, ...any)) error {
	ckpt := in.source.desc
	if ckpt.Ready != nil {
		return in.chooseGraph(cfg, d, say)
	}
	w, err := weightsFor(cfg, d.Processor, EstimateParams(ckpt.Config), ckpt.Coded)
	if err == nil {
		in.built, err = in.source.build(ctx, d, w, in.tokenizer, say)
		in.built.Layout = withCache(in.built.Layout, cfg)
	}
	return err
}

// checkpoint is a checkpoint whose weights are not open yet.
type checkpoint struct {
	fsys fs.FS // nil for a folder on disk
	name string
	desc *hf.Checkpoint
}

// describe reads what the files of the model at path say of it, or those of the embedded model when path is empty.
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
		err = missingModel(cfg.Model.Path, err)
	}
	if place := cfg.Place("path"); place != "" {
		return fmt.Errorf("%s: model.path: %w", place, err)
	}
	return fmt.Errorf("model.path: %w", err)
}

// missingModel says what is wrong with a path where a file of a model is missing, which err says.
func missingModel(at string, err error) error {
	st, missing := os.Stat(at)
	switch {
	case missing != nil:
		return fmt.Errorf("there is no folder or file %s", at)
	case !st.IsDir():
		return err
	}
	files, unread := os.ReadDir(at)
	switch {
	case unread != nil:
		return err
	case len(files) == 0:
		return fmt.Errorf("the folder %s is empty: a model has a config.json and weights, or is one file *.gguf", at)
	}
	if _, missing := os.Stat(filepath.Join(at, hf.ConfigFile)); missing != nil {
		return fmt.Errorf("the folder %s holds no model: it has no %s and no file *.gguf", at, hf.ConfigFile)
	}
	return err
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

// convert is prepare that tells how far a conversion is and what it did to the weights.
func (s checkpoint) convert(ctx context.Context, d device, w models.Weights, say func(string, ...any)) (models.Built,
	error) {
	var last time.Time // zero, so the beginning is told
	return s.prepare(ctx, store.Options{Device: d.Device, Weights: w,
		Damaged: func(err error) { say("%v; it is converted anew", err) },
		Progress: func(done, total int64) {
			if time.Since(last) >= progressEvery {
				last = time.Now()
				say("converting to %s: %d%%", w, 100*done/max(total, 1))
			}
		},
		Converted: func(c store.Conversion) {
			say("converted to %s in %.1fs", w, c.Took.Seconds())
			if c.Error.Count() > 0 {
				say("relative error of the weights: %.2f%%", 100*c.Error.Relative())
			}
		}})
}

// build is prepare for serving. It tells the progress of a conversion and what
// that did to the weights and to the model's predictions.
func (s checkpoint) build(ctx context.Context, d device, w models.Weights, tok *token.Tokenizer,
	say func(string, ...any)) (models.Built, error) {
	opt := store.Options{Device: d.Device, Weights: w}
	opt.Damaged = func(err error) { say("%v; it is converted anew", err) }
	last, converted, took := time.Time{}, false, time.Duration(0) // so the beginning is told
	opt.Progress = func(done, total int64) {
		if time.Since(last) >= progressEvery {
			last = time.Now()
			say("converting to %s: %d%%", w, 100*done/max(total, 1))
		}
	}
	opt.Converted = func(c store.Conversion) {
		converted, took = true, c.Took
		say("converted to %s in %.1fs", w, c.Took.Seconds())
		if c.Error.Count() > 0 {
			say("relative error of the weights: %.2f%%", 100*c.Error.Relative())
		}
	}
	b, err := s.prepare(ctx, opt)
	if err != nil || !converted || !w.Quantised() {
		return b, err
	}
	limited, cancel := context.WithTimeout(ctx, checkTime(took))
	defer cancel()
	a, whyNot, err := quantCheck(limited, d, b, tok, s.prepare)
	switch {
	case ctx.Err() != nil:
		return b, context.Cause(ctx)
	case err != nil:
		return b, fmt.Errorf("compare %s with %s: %w", w, referenceOn(d), err)
	case whyNot != "":
		say("not compared with %s: %s", referenceOn(d), whyNot)
	default:
		say("compared with %s: %s", referenceOn(d), a.String())
	}
	return b, nil
}

// weightsFor resolves the settings of the weights, whose words config has checked, for a model of so
// many parameters with tensors of the named types.
func weightsFor(cfg config.Config, p models.Processor, parameters float64, dtypes []string) (models.Weights, error) {
	if cfg.Model.Weights == config.Auto && (p.Device != models.CUDA || cfg.CUDAWeights == "") {
		return p.Auto(parameters, dtypes), nil
	}
	w, place := models.Weights(cfg.Model.Weights), "dtype or quantize"
	if cfg.Model.Weights == config.Auto {
		w = models.Weights(cfg.CUDAWeights)
	} else {
		place = cfg.Place("weights")
	}
	err := p.Check(w)
	switch {
	case err == nil:
		return w, nil
	case place != "":
		return "", fmt.Errorf("%s: model.%w", place, err)
	}
	return "", fmt.Errorf("model.%w", err)
}

// EstimateParams estimates the number of parameters, leaving norms and biases out.
func EstimateParams(c hf.Config) float64 {
	sum := float64(c.Vocab) * float64(c.Hidden)
	if !c.Tied {
		sum *= 2
	}
	for i := range c.Layers {
		for _, s := range c.Sizes(i) {
			sum += float64(s.Count) * float64(s.Rows) * float64(s.Cols)
		}
	}
	return sum
}

func (in *instance) loadTokenizer(ckpt *hf.Checkpoint) error {
	if ckpt.TokenizerJSON == nil {
		return fmt.Errorf("%s has no %s (nor %s, %s, %s or %s): text cannot be turned into tokens without one", ckpt.Name,
			hf.TokenizerFile, hf.TekkenFile, hf.SentencePieceFile, hf.TiktokenFile, hf.QwenTiktokenFile)
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
func (in *instance) start(cfg config.Config, d device, obs engine.Observer, disk *kvdisk.Folder,
	watcher kv.Watcher, say func(string, ...any)) (err error) {
	if in.graph != nil {
		var s *ort.Slab
		if s, in.limits, err = openGraph(in.graph, &in.built, cfg, say); err == nil {
			in.backend = s
		}
	} else {
		in.backend, in.limits, err = d.open(in.built, in.adaptable(cfg, d.Device), cfg)
	}
	if err != nil {
		return err
	}
	kept := in.kept(disk, cfg, d, say)
	in.keeps = kept.Space != nil
	in.engine, err = engine.New(bridge.Model(in.backend), bridge.Codec(in.tokenizer, in.eos), engine.Config{
		Settings:  schedSettings(in.limits, cfg.Runtime.PrefixSharing),
		Observer:  obs,
		Demand:    in.demand,
		Disk:      kept,
		Watcher:   watcher,
		Verify:    cfg.Runtime.Verify,
		GuestWait: time.Duration(cfg.Runtime.PluginWait),

		PromptStretch: in.stretch(cfg.Limits),
		PromptStep:    time.Duration(cfg.Limits.PrefillStepTime),

		Speculation: in.speculation(cfg.Model.Speculation),
		DraftModel:  in.draft.guesser(),
	})
	return err
}

// stretch is how much longer a step may take for prompts, 0 for no bound. A graph that gives other tokens where prompts
// are cut otherwise must not have them cut by what steps take.
func (in *instance) stretch(l config.Limits) float64 {
	if in.graph != nil && in.graph.ByRun {
		return 0
	}
	return l.PrefillStretch
}

// speculation returns settings as the engine wants them. The graphs of others give no logits for guesses, or compute a
// row otherwise beside others; so do GPUs, which are fastest with one token for each row.
func (in *instance) speculation(s config.Speculation) draft.Settings {
	if in.graph != nil || in.built.Device == models.CUDA {
		return draft.Settings{}
	}
	out := draft.Settings{Tokens: s.Limit(), Always: s.Always}
	for source := range draft.Sources {
		out.Off[source] = !slices.Contains(s.Kinds, source.String())
	}
	out.Off[draft.Modelled] = s.Model == ""
	return out
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
	in.draft.Close()
	in.images.Close()
	if in.backend != nil {
		in.backend.Close()
	}
	return err
}
