package host

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"reflect"
	"slices"
	"sync"
	"time"

	"tgi/models/library"
	"tgi/models/library/fetch"
	"tgi/models/library/lifecycle"
	"tgi/plugins"
	"tgi/runtime/engine"
	"tgi/runtime/filestamp"
	"tgi/runtime/kvdisk"
	"tgi/server"
	"tgi/server/api/admin"
	"tgi/server/api/generateapi/store"
	responsestore "tgi/server/api/responses/store"
	"tgi/server/batches"
	"tgi/server/config"
	"tgi/server/kvevents"
	"tgi/server/mcp"
)

// manager is all models of a server: those of the settings and those of the models
// folder, loaded or not. It loads them, hands them out to requests by name, and is
// what the models API and the admin routes act on.
type manager struct {
	boot          *bootServer
	log           *slog.Logger
	device        device // where models run
	library       *library.Library
	roster        *lifecycle.Roster
	fetcher       *fetch.Client
	continuations store.Store // of the generate API
	responses     responsestore.Store
	tools         *mcp.Servers
	batches       *batches.Store      // nil where they are switched off
	kvDisk        *kvdisk.Folder      // nil without
	kvEvents      *kvevents.Publisher // nil without
	obs           engine.Observer
	demand        engine.Demand // of all models that run
	// governor gives the plugins of all models their shares of the processors.
	governor *plugins.Governor
	// turns shares the processors among the calls of plugins for requests to all models.
	turns *plugins.Turns
	// programs does so among programs.
	programs *plugins.Turns
	// kinds are those that files of plugins had in models, also in those that were unloaded.
	kinds *plugins.Kinds
	// configKey makes the checksums of plugins' configurations in receipts.
	configKey *plugins.ConfigKey
	opened    time.Time
	build     string // of the program; "" where it is not known
	// single says that the settings name one model: the log need not say which.
	single bool
	// systemMemory returns the bytes of memory that are to be had; atStart is what it said then.
	systemMemory func() int64
	atStart      int64
	gpuAtStart   int64 // bytes of the device that were free then
	// bounds are the limits of memory that the system enforces.
	bounds func() []bound
	memory *plugins.Memory // of the plugins of all models

	limiting  sync.Mutex // held while the limit of the heap is computed and set
	reloading sync.Mutex // held while settings are read and taken over
	// held while an upload that is loaded is installed or removed, and while settings are taken over, which may take or
	// free its name; locked after reloading, before mu
	uploading sync.Mutex
	// held while an adapter is added to a model or removed; locked before mu
	adapting sync.Mutex
	folder   uploadFolder
	reload   ReloadFunc // set before the first reload

	mu          sync.Mutex
	cfg         config.Config // as it runs
	loaded      map[library.ID]*loadedModel
	embedders   map[library.ID]*embedder // those that run
	embedded    server.TextsStats        // of those that were unloaded
	plans       map[library.ID]plan
	uploads     map[string]upload
	canaries    map[string]canary       // by the name of the plugin
	decided     map[string]admin.Canary // what became of the last one, where nobody asked for it
	deciding    sync.WaitGroup          // what promotes canaries
	closed      bool                    // no canary is promoted any more
	pluginLogs  *plugins.Logs
	counters    map[string]server.Plugin // of the plugins of models that were unloaded
	titles      map[library.ID]string    // what people call models, as they said when they brought them
	pullSources map[library.ID]string    // where models were fetched from, by requests
	preloading  map[library.ID]bool      // to be loaded at the start, and not yet tried
	// adapters are those that requests added to the settings', by name, with their folders; removed ones have none.
	adapters map[library.ID]map[string]string
	// seeing are the models that read images, as far as they were loaded once.
	seeing map[library.ID]bool
}

// newManager finds the models of the settings. It loads none.
func newManager(o Options, b *bootServer, d device, obs engine.Observer) (*manager, error) {
	cfg, log := o.Config, o.Log
	fl := &manager{
		boot: b, log: log, obs: obs, opened: time.Now(), build: o.Build, cfg: cfg,
		single: len(cfg.ModelList) == 0, reload: o.Reload, device: d,
		systemMemory: availableMemory, bounds: system.bounds,
		loaded: map[library.ID]*loadedModel{}, embedders: map[library.ID]*embedder{}, plans: map[library.ID]plan{},
		adapters: map[library.ID]map[string]string{}, seeing: map[library.ID]bool{},
		folder:   uploadFolder(cfg.Plugins.Uploads),
		canaries: map[string]canary{}, decided: map[string]admin.Canary{}, counters: map[string]server.Plugin{},
		titles: map[library.ID]string{}, pullSources: map[library.ID]string{},
		preloading: map[library.ID]bool{},
	}
	fl.pluginLogs = plugins.NewLogs()
	fl.turns, fl.programs, fl.kinds = plugins.NewTurns(), plugins.NewProgramTurns(), plugins.NewKinds()
	fl.configKey = plugins.NewConfigKey(cfg.Server.ReceiptKey)
	fl.governor = plugins.NewGovernor(func() bool { return fl.demand.Rows() > 0 })
	if fl.reload == nil {
		fl.reload = func(running config.Config, _ *filestamp.Stamp) (config.Config, []string, error) {
			return running, nil, nil
		}
	}
	var err error
	if err = fl.loadUploads(); err != nil {
		return nil, err
	}
	if fl.library, err = OpenLibrary(cfg); err != nil {
		return nil, err
	}
	fl.library.Sweep()
	if fl.fetcher, err = NewFetcher(cfg.Models, o.Version); err != nil {
		return nil, err
	}
	if fl.continuations, err = openContinuations(cfg.GenerateAPI.Store, log); err != nil {
		return nil, err
	}
	fl.tools = mcp.New(cfg, o.Version, server.Tools{Metrics: b.metrics}, log)
	if fl.responses, err = openResponses(cfg.Responses, log); err != nil {
		return nil, errors.Join(err, fl.continuations.Close())
	}
	if fl.kvEvents, err = openKVEvents(cfg.KVEvents, log); err != nil {
		return nil, errors.Join(err, fl.continuations.Close(), fl.responses.Close())
	}
	fl.kvDisk = openKVDisk(cfg.Runtime, o.Brief, log)
	fl.atStart = fl.systemMemory()
	fl.gpuAtStart, _ = d.free()
	fl.memory = plugins.NewMemory(pluginMemory(cfg.Plugins, fl.atStart, fl.bounds()))
	fl.roster, err = lifecycle.New(lifecycle.Config{
		Runner:   fl,
		Estimate: fl.estimate,
		Present:  fl.library.Has,
		Remove:   fl.library.Delete,
		Budget:   fl.budget(),
		Policy:   lifecycle.Policy(cfg.Models.Policy),
		Drain:    time.Duration(cfg.Models.Drain),
		Pulls:    cfg.Models.Pulls,
		Observe:  fl.observe,
	})
	if err != nil {
		return nil, errors.Join(err, fl.continuations.Close(), fl.responses.Close(), fl.kvDisk.Close(),
			fl.kvEvents.Close())
	}
	for _, m := range cfg.All() {
		fl.roster.Add(library.ID(m.Name), lifecycle.Options{
			KeepAlive: time.Duration(m.KeepAlive), Declared: true,
		})
	}
	if err := fl.scan(); err != nil {
		return nil, errors.Join(err, fl.Close())
	}
	return fl, nil
}

// scan brings what is known of the models folder up to date.
func (f *manager) scan() error {
	models, err := f.library.List()
	if err != nil {
		return err
	}
	ids := make([]library.ID, len(models))
	for i, m := range models {
		ids[i] = m.ID
	}
	f.roster.Sync(ids)
	return nil
}

// Start implements lifecycle.Runner.
func (f *manager) Start(ctx context.Context, id library.ID) (lifecycle.Instance, error) {
	cfg, err := f.settingsFor(id)
	if err != nil {
		return nil, err
	}
	form, cache := f.reserved(id)
	if form != "" {
		cfg.Model.Weights = string(form)
	}
	if cache > 0 { // none is an error that open tells
		cfg.Runtime.KVMemory = config.Size(cache)
	}
	status, _ := f.roster.Get(id)
	f.limitHeap()
	if f.task(id) != server.Generates {
		e, err := f.startEmbedder(ctx, id, cfg)
		if err != nil {
			return nil, err
		}
		f.mu.Lock()
		defer f.mu.Unlock()
		f.embedders[id] = e
		return e, nil
	}
	f.shrinkGrammars(status.Memory)
	s, err := f.start(ctx, id, cfg, f.obs)
	if err != nil {
		return nil, err
	}
	f.prepareUploads(ctx, s)
	// From here on no change of plugins and settings passes it by.
	f.reloading.Lock()
	defer f.reloading.Unlock()
	f.applyMissedChanges(ctx, s, cfg)
	f.uploading.Lock()
	defer f.uploading.Unlock()
	f.putUploads(ctx, s)
	f.adapting.Lock()
	defer f.adapting.Unlock()
	f.changeAdapters(ctx, s)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.loaded[id] = s
	return &managedModel{s, f}, nil
}

// applyMissedChanges applies to a model the settings that were changed while it was being loaded. before
// are those that it was loaded with. f.reloading is held.
func (f *manager) applyMissedChanges(ctx context.Context, s *loadedModel, before config.Config) {
	f.mu.Lock()
	cfg := f.cfg
	f.mu.Unlock()
	now := SettingsFor(cfg, s.id)
	now.Model.Path, now.Model.Weights, now.Runtime.KVMemory = before.Model.Path, before.Model.Weights,
		before.Runtime.KVMemory
	if !reflect.DeepEqual(now, before) {
		_, took, err := s.control.reload(ctx, now) // which logs the plugins that failed
		if err != nil && ctx.Err() == nil {
			f.log.Error("reload of the settings failed; keeping the previous ones", "model", s.id, "error", err)
		} else if err == nil {
			f.mu.Lock()
			f.cfg = withConversations(cfg, took.Model)
			f.mu.Unlock()
		}
	}
}

// managedModel is a model that its manager forgets when it stops.
type managedModel struct {
	*loadedModel
	manager *manager
}

// Stop implements lifecycle.Instance.
func (l *managedModel) Stop(ctx context.Context) error {
	l.manager.mu.Lock()
	delete(l.manager.loaded, l.id)
	l.manager.keepCounters(l.loadedModel)
	l.manager.mu.Unlock()
	defer l.manager.limitHeap()
	return l.loadedModel.Stop(ctx)
}

// settingsFor returns the settings of a model, whether they name it or not.
func (f *manager) settingsFor(id library.ID) (config.Config, error) {
	f.mu.Lock()
	cfg := f.cfg
	f.mu.Unlock()
	m := declared(cfg, id)
	if m.Path == "" && !m.Demo() {
		found, err := f.library.Find(id)
		if err != nil {
			return cfg, err
		}
		m.Path = found.Dir
	}
	return settingsOf(cfg, m), nil
}

// declared returns the settings' model of an id, or what a model has that they do
// not name.
func declared(cfg config.Config, id library.ID) config.Model {
	for _, m := range cfg.All() {
		if m.Name == string(id) {
			return m
		}
	}
	m := config.Default().Model
	m.Name = string(id)
	return m
}

// defaultID is the model that requests without one mean.
func (f *manager) defaultID() library.ID {
	f.mu.Lock()
	defer f.mu.Unlock()
	return library.ID(f.cfg.DefaultModel())
}

// running returns the models that run, by id.
func (f *manager) running() []*loadedModel {
	f.mu.Lock()
	defer f.mu.Unlock()
	list := make([]*loadedModel, 0, len(f.loaded))
	for _, id := range slices.Sorted(maps.Keys(f.loaded)) {
		list = append(list, f.loaded[id])
	}
	return list
}

// defaultModel returns the default model, or nil where it does not run.
func (f *manager) defaultModel() *loadedModel {
	id := f.defaultID()
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.loaded[id]
}

// preload loads the models that are to be there from the beginning: the default
// one now, whose failure is the server's, and the others in the background, having
// fetched what is not there yet. The result waits for these.
func (f *manager) preload(ctx context.Context) (wait func(), err error) {
	first := f.defaultID()
	f.mu.Lock()
	all := f.cfg.All()
	f.mu.Unlock()
	var rest []config.Model
	for _, m := range all {
		switch {
		case !m.Preload:
		case m.Name == string(first):
			if err := f.preloadFirst(ctx, m); err != nil {
				return nil, err
			}
		default:
			rest = append(rest, m)
		}
	}
	// What must be fetched holds up nothing that is there.
	slices.SortStableFunc(rest, func(a, b config.Model) int { return cmp.Compare(f.mustFetch(a), f.mustFetch(b)) })
	var loading sync.WaitGroup
	f.mu.Lock()
	for _, m := range rest {
		f.preloading[library.ID(m.Name)] = true
	}
	f.mu.Unlock()
	loading.Go(func() {
		for _, m := range rest {
			if ctx.Err() != nil {
				return
			}
			if err := f.load(ctx, m); err != nil && ctx.Err() == nil {
				f.log.Error("a model is not served", "model", m.Name, "error", err)
			}
			f.mu.Lock()
			delete(f.preloading, library.ID(m.Name))
			f.mu.Unlock()
		}
	})
	return loading.Wait, nil
}

// preloadFirst loads the default model.
func (f *manager) preloadFirst(ctx context.Context, m config.Model) error {
	mark := func(is bool) {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.preloading[library.ID(m.Name)] = is
	}
	mark(true)
	defer mark(false)
	return f.load(ctx, m)
}

// mustFetch is 1 of a model that must be fetched before it can be loaded, else 0.
func (f *manager) mustFetch(m config.Model) int {
	if m.Source != "" && !f.library.Has(library.ID(m.Name)) {
		return 1
	}
	return 0
}

// load loads a model, having fetched it if it is not there.
func (f *manager) load(ctx context.Context, m config.Model) error {
	id := library.ID(m.Name)
	if f.mustFetch(m) > 0 {
		p, err := f.pull(id, sourceOf(m))
		if err == nil {
			err = p.Wait(ctx)
		}
		if err != nil {
			return err
		}
	}
	if m.Path != "" {
		if _, err := describe(m.Path); err != nil { // which says what is missing
			f.mu.Lock()
			cfg := SettingsFor(f.cfg, id)
			f.mu.Unlock()
			return pathError(cfg, err)
		}
	}
	p, err := f.roster.Start(id)
	if s, _ := f.roster.Get(id); s.State == lifecycle.Running { // a request was quicker
		return nil
	}
	if err != nil {
		return err
	}
	return p.Wait(ctx)
}

// observe logs what becomes of models, and lets one know that it is to stop. The
// roster's lock is held.
func (f *manager) observe(c lifecycle.Change) {
	f.mu.Lock()
	if s, ok := f.loaded[c.ID]; ok && c.To == lifecycle.Stopping {
		s.stopping.Store(true)
	}
	atStart := f.preloading[c.ID]
	f.mu.Unlock()
	attrs := []any{"model", c.ID, "from", c.From, "to", c.To}
	switch {
	case c.Err != nil && atStart: // whoever preloads reports it
		f.log.Debug("model", append(attrs, "error", c.Err)...)
	case c.Err != nil:
		f.log.Error("model", append(attrs, "error", c.Err)...)
	case f.single:
		f.log.Debug("model", attrs...)
	default:
		f.log.Info("model", attrs...)
	}
}

// healthy returns nil while the engines that run make progress.
func (f *manager) healthy() error {
	var errs []error
	for _, s := range f.running() {
		if err := s.engine.Healthy(); err != nil && f.isLoaded(s) {
			errs = append(errs, fmt.Errorf("model %s: %w", s.id, err))
		}
	}
	for _, e := range f.embeddersNow() {
		if err := e.batcher.Healthy(); err != nil {
			errs = append(errs, fmt.Errorf("model %s: %w", e.id, err))
		}
	}
	return errors.Join(errs...)
}

// isLoaded says whether a model that ran a moment ago was not unloaded meanwhile.
func (f *manager) isLoaded(s *loadedModel) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.loaded[s.id] == s
}

// names are the ids of the models, the default first.
func (f *manager) names() []string {
	first := f.defaultID()
	list := []string{string(first)}
	for _, s := range f.roster.All() {
		if s.ID != first {
			list = append(list, string(s.ID))
		}
	}
	return list
}

// stats are those of all engines together.
func (f *manager) stats() (sum engine.Stats) {
	for _, s := range f.running() {
		st := s.engine.Stats()
		sum.Waiting += st.Waiting
		sum.Running += st.Running
		sum.Parked += st.Parked
		sum.KVTotal += st.KVTotal
		sum.KVUsed += st.KVUsed
		sum.KVCached += st.KVCached
		sum.KVTokens += st.KVTokens
	}
	return sum
}

// modelMetrics are what the metrics show of models.
func (f *manager) modelMetrics() []server.ModelMetrics {
	all := f.roster.All()
	out := make([]server.ModelMetrics, len(all))
	for i, s := range all {
		out[i] = server.ModelMetrics{
			ID: string(s.ID), State: string(s.State), Memory: s.Memory, Uses: s.Uses, LoadSeconds: s.LoadTook.Seconds(),
		}
	}
	return out
}

// Close unloads all models. Requests are over.
func (f *manager) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	var err error
	if f.batches != nil {
		err = f.batches.Close() // what runs goes on when the folder is opened again
	}
	f.tools.Close()
	f.endCanaries()
	return errors.Join(err, f.roster.Close(ctx), f.continuations.Close(), f.responses.Close(), f.kvDisk.Close(),
		f.kvEvents.Close())
}

// closeTimeout bounds how long unloading all models may take.
const closeTimeout = time.Minute
