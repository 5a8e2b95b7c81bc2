package host

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"time"

	"tgi/models"
	"tgi/models/hf"
	"tgi/models/library"
	"tgi/runtime/embed"
	"tgi/runtime/ort"
	"tgi/server"
	"tgi/server/config"
	"tgi/server/dispatch"
	"tgi/server/embeddings"
)

// embedder is a model that turns texts into vectors or scores, as it runs. It implements lifecycle.Instance.
type embedder struct {
	id      library.ID
	manager *manager
	model   *ort.Embedder
	batcher *embed.Batcher
	built   models.Built
	task    server.Task
	serves  *dispatch.Embedder
	unhold  func()
}

// startEmbedder loads the model of cfg, whose [model] is the only one.
func (f *manager) startEmbedder(ctx context.Context, id library.ID, cfg config.Config) (_ *embedder, err error) {
	free, err := f.library.Hold(id)
	if err != nil {
		return nil, err
	}
	e := &embedder{id: id, manager: f, task: f.task(id), unhold: free}
	defer func() {
		if err != nil {
			err = errors.Join(err, e.Stop(ctx))
		}
	}()
	say := func(format string, args ...any) { f.log.Info(fmt.Sprintf(format, args...), "model", id) }
	src, err := describe(cfg.Model.Path)
	if err != nil {
		return nil, pathError(cfg, err)
	}
	in := &instance{source: src}
	if err := in.loadTokenizer(src.desc); err != nil {
		return nil, err
	}
	onCPU := f.device
	onCPU.Processor = models.Processor{Device: models.CPU}
	w, err := weightsFor(cfg, onCPU.Processor, EstimateParams(src.desc.Config), src.desc.Coded)
	if err != nil {
		return nil, err
	}
	if e.built, err = src.convert(ctx, onCPU, w, say); err != nil {
		return nil, err
	}
	if e.model, err = ort.OpenEmbedder(embedderOptions(e.built, src.desc, cfg)); err != nil {
		return nil, err
	}
	e.batcher = embed.New(e.model, embed.Config{MaxBatchTokens: cfg.Embeddings.MaxBatchTokens,
		Busy: func() bool { return f.demand.Rows() > 0 }, BusyStep: time.Duration(cfg.Embeddings.BusyStep)})
	model := embedderModel(src.desc)
	if src.desc.Score != nil {
		if model.Template, err = f.pairTemplate(ctx, cfg, in); err != nil {
			return nil, err
		}
	}
	l := embeddings.Limits{Requests: cfg.Limits.MaxConcurrentRequests, Texts: cfg.Embeddings.MaxClientBatchSize,
		Workers: cfg.Limits.ValidationWorkers, BatchTokens: cfg.Embeddings.MaxBatchTokens,
		Truncate: cfg.Embeddings.AutoTruncate, Vocab: src.desc.Config.Vocab}
	e.serves = &dispatch.Embedder{ID: string(id), DType: string(e.built.Weights),
		Service: embeddings.New(model,
			server.Runner(string(id), operation(e.task), e.batcher), in.tokenizer, l,
			server.Client).WithObserver(f.boot.metrics)}
	if info, err := f.library.Describe(id); err == nil && info.Origin != nil {
		e.serves.Revision = info.Origin.Revision
	}
	return e, nil
}

// textsStats sums what all models of texts computed since they were loaded, with those that were unloaded.
func (f *manager) textsStats() (s server.TextsStats) {
	f.mu.Lock()
	defer f.mu.Unlock()
	s = f.embedded
	for _, e := range f.embedders {
		e.addTo(&s)
	}
	return s
}

// addTo adds what a model computed.
func (e *embedder) addTo(s *server.TextsStats) {
	if e.batcher == nil {
		return
	}
	now := e.batcher.Stats()
	s.Waiting, s.Steps, s.Texts, s.Tokens = s.Waiting+now.Waiting, s.Steps+now.Steps, s.Texts+now.Texts,
		s.Tokens+now.Tokens
}

// operation names what a model for a task does.
func operation(t server.Task) server.Operation {
	switch t {
	case server.Reranks:
		return server.Rerank
	case server.Classifies:
		return server.Classify
	}
	return server.Embeddings
}

// embedderOptions describes a built model to ONNX Runtime.
func embedderOptions(b models.Built, ck *hf.Checkpoint, cfg config.Config) ort.EmbedderOptions {
	c := ck.Config
	o := ort.EmbedderOptions{ModelPath: b.ModelFile, StagesPath: b.StagesFile, Places: c.Tensors.Positions != "",
		Types: c.Encoder.TokenTypes > 0, Threads: cfg.Runtime.Threads,
		Shape: embed.Shape{Width: c.Hidden, MaxTokens: c.MaxPositions}}
	pooling := []string{c.Encoder.Pooling}
	if s := ck.Sentence; s != nil {
		pooling = s.Pooling
		if s.MaxLength > 0 {
			o.MaxTokens = min(o.MaxTokens, s.MaxLength)
		}
	}
	if s := ck.Score; s != nil && s.MaxLength > 0 {
		o.MaxTokens = min(o.MaxTokens, s.MaxLength)
	}
	if n := ck.Tokenizer.MaxLength; n > 0 {
		o.MaxTokens = min(o.MaxTokens, n)
	}
	if n := cfg.Model.Context; n > 0 {
		o.MaxTokens = min(o.MaxTokens, n)
	}
	if s := ck.Sentence; s != nil && s.Sparse != nil {
		o.Sparse, pooling = &embed.Sparse{Sum: s.Sparse.Sum, Twice: s.Sparse.Twice}, nil
	}
	for _, p := range pooling {
		o.Pooling = append(o.Pooling, embed.Pooling(p))
	}
	o.Out = len(pooling) * o.Width
	if n := len(c.Encoder.Stages); n > 0 {
		o.Out = c.Encoder.Stages[n-1].Out
	}
	return o
}

// embedderModel describes a model to clients.
func embedderModel(ck *hf.Checkpoint) embeddings.Model {
	m := embeddings.Model{Pooling: ck.Config.Encoder.Pooling, Labels: ck.Config.Encoder.Labels}
	if s := ck.Sentence; s != nil {
		m.Pooling, m.Prompts, m.Default = s.Pooling[0], s.Prompts, s.DefaultPrompt
		m.Sparse = s.Sparse != nil
		m.SkipPrompt, m.Lowercase = s.WithoutPrompt, s.Lowercase
	}
	return m
}

// Stop implements lifecycle.Instance: whoever used the model is gone, or cut off here. It may be called on what is half
// open.
func (e *embedder) Stop(context.Context) error {
	f := e.manager
	f.mu.Lock()
	if f.embedders[e.id] == e {
		e.addTo(&f.embedded)
		f.embedded.Waiting = 0
	}
	delete(f.embedders, e.id)
	f.mu.Unlock()
	if e.batcher != nil {
		e.batcher.Close()
	}
	if e.model != nil {
		e.model.Close()
	}
	e.unhold()
	debug.FreeOSMemory()
	return nil
}

// task returns what a model is for. One whose files cannot be read generates, as far as anybody knows.
func (f *manager) task(id library.ID) server.Task {
	f.mu.Lock()
	_, generates := f.loaded[id]
	e := f.embedders[id]
	f.mu.Unlock()
	switch {
	case generates:
		return server.Generates
	case e != nil:
		return e.task
	}
	info, err := f.library.Describe(id)
	if err != nil {
		return server.Generates
	}
	return TaskOf(info.Task, info.Labels)
}

// TaskOf returns what a model is for by what its files say, with the number of a classifier's labels.
func TaskOf(task library.Task, labels int) server.Task {
	switch {
	case task == library.Classify && labels == 1:
		return server.Reranks
	case task == library.Classify:
		return server.Classifies
	case task == library.Embed:
		return server.Embeds
	}
	return server.Generates
}

// defaultFor is the model that requests for some tasks mean that name none: the default one if it can do one of them,
// or else the first of the settings, and then of the models folder, that can and that the request's key may use.
func (f *manager) defaultFor(ctx context.Context, tasks []server.Task) library.ID {
	first := f.defaultID()
	if slices.Contains(tasks, f.task(first)) {
		return first // also where the key may not use it: that is said, and no other model answers
	}
	var names []string
	f.mu.Lock()
	for _, m := range f.cfg.All() {
		names = append(names, m.Name)
	}
	f.mu.Unlock()
	for _, name := range append(names, f.names()...) {
		id := library.ID(name)
		if slices.Contains(tasks, f.task(id)) && server.MayUse(ctx, name) {
			return id
		}
	}
	return first
}

// cannot returns why a model cannot be used for any of some tasks, nil if it can.
func (f *manager) cannot(ctx context.Context, id library.ID, tasks []server.Task) error {
	own := f.task(id)
	if slices.Contains(tasks, own) {
		return nil
	}
	e := &server.WrongTask{ID: string(id), Own: own, Wanted: tasks[0]}
	for _, name := range f.names() {
		if slices.Contains(tasks, f.task(library.ID(name))) && server.MayUse(ctx, name) {
			e.Others = append(e.Others, name)
		}
	}
	return e
}

// UseEmbedder implements dispatch.Embedders.
func (f *manager) UseEmbedder(ctx context.Context, name string, tasks ...server.Task) (*dispatch.Embedder, func(),
	error) {
	id, adapter, err := f.resolve(ctx, name, tasks)
	if err != nil {
		return nil, nil, err
	}
	if adapter != "" { // adapters are those of models that generate
		return nil, nil, &server.WrongTask{ID: name, Own: server.Generates, Wanted: tasks[0]}
	}
	if !server.MayUse(ctx, string(id)) {
		return nil, nil, fmt.Errorf("%w: `%s`", server.ErrModelKey, id)
	}
	if err := f.cannot(ctx, id, tasks); err != nil {
		return nil, nil, err
	}
	instance, release, err := f.instance(ctx, id)
	if err != nil {
		return nil, nil, err
	}
	e, ok := instance.(*embedder)
	if !ok { // its files were changed since it was loaded
		release()
		return nil, nil, &server.WrongTask{ID: string(id), Own: server.Generates, Wanted: tasks[0]}
	}
	return e.serves, release, nil
}

// Task implements dispatch.Embedders.
func (f *manager) Task(ctx context.Context, name string) server.Task {
	id, adapter, err := f.resolve(ctx, name, []server.Task{server.Generates, server.Embeds, server.Reranks,
		server.Classifies})
	if err != nil || adapter != "" {
		return server.Generates
	}
	return f.task(id)
}

// embeddersNow returns the embedding models that run.
func (f *manager) embeddersNow() []*embedder {
	f.mu.Lock()
	defer f.mu.Unlock()
	var list []*embedder
	for _, e := range f.embedders {
		list = append(list, e)
	}
	return list
}

// defaultEmbedder returns the default model, or nil where it does not run or generates.
func (f *manager) defaultEmbedder() *embedder {
	id := f.defaultID()
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.embedders[id]
}

// onCPUText says what such models run on.
func onCPUText() string {
	return fmt.Sprintf("ONNX Runtime %s on the CPU, %s attention, %s products", ort.Version(), ort.Attention(),
		ort.Product())
}
