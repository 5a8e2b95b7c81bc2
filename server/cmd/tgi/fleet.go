package main

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
	"tgi/server"
	"tgi/server/api/generateapi/store"
	"tgi/server/config"
)

// fleet is all models of a server: those of the settings and those of the models
// folder, loaded or not. It loads them, hands them out to requests by name, and is
// what the models API and the admin routes act on.
type fleet struct {
	front   *front
	log     *slog.Logger
	library *library.Library
	roster  *lifecycle.Roster
	fetcher *fetch.Client
	kept    store.Store // of the generate API
	obs     engine.Observer
	demand  engine.Demand // of all models that run
	// governor gives the plugins of all models their shares of the processors.
	governor *plugins.Governor
	opened   time.Time
	// alone says that the settings name one model: the log need not say which.
	alone bool
	// available returns the bytes of memory that are to be had; atStart is what it said then.
	available func() int64
	atStart   int64
	// bounds are the limits of memory that the system enforces.
	bounds func() []bound
	memory *plugins.Memory // of the plugins of all models

	reloading sync.Mutex // held while settings are read and taken over
	uploading sync.Mutex // held while an upload that is loaded is installed or removed; locked after reloading, before mu
	folder    uploadFolder
	reread    rereader // set before the first reload

	mu      sync.Mutex
	cfg     config.Config // as it runs
	running map[library.ID]*served
	plans   map[library.ID]plan
	uploads map[string]upload
	past    map[string]server.Plugin // figures of the plugins of models that were unloaded
	titles  map[library.ID]string    // what people call models, as they said when they brought them
	sources map[library.ID]string    // where models were fetched from, by requests
	awaited map[library.ID]bool      // to be loaded at the start, and not yet tried
}

// newFleet finds the models of cfg. It loads none.
func newFleet(cfg config.Config, f *front, log *slog.Logger, obs engine.Observer) (*fleet, error) {
	fl := &fleet{
		front: f, log: log, obs: obs, opened: time.Now(), cfg: cfg, alone: len(cfg.ModelList) == 0, reread: f.reread, available: availableMemory, bounds: system.bounds,
		running: map[library.ID]*served{}, plans: map[library.ID]plan{}, folder: uploadFolder(cfg.Plugins.Uploads),
		past: map[string]server.Plugin{}, titles: map[library.ID]string{}, sources: map[library.ID]string{}, awaited: map[library.ID]bool{},
	}
	fl.governor = plugins.NewGovernor(func() bool { return fl.demand.Rows() > 0 })
	if fl.reread == nil {
		fl.reread = func(running config.Config) (config.Config, []string, error) { return running, nil, nil }
	}
	var err error
	if fl.uploads, err = fl.folder.load(); err != nil { // the others are there
		log.Error("uploaded plugins that cannot be read", "folder", cfg.Plugins.Uploads, "error", err)
	}
	if fl.library, err = openLibrary(cfg); err != nil {
		return nil, err
	}
	fl.library.Sweep()
	if fl.fetcher, err = newFetcher(cfg.Models); err != nil {
		return nil, err
	}
	if fl.kept, err = openKept(cfg.GenerateAPI.Store); err != nil {
		return nil, err
	}
	fl.atStart = fl.available()
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
		return nil, errors.Join(err, fl.kept.Close())
	}
	for _, m := range cfg.All() {
		fl.roster.Add(library.ID(m.Name), lifecycle.Options{
			KeepAlive: time.Duration(m.KeepAlive), Preload: m.Preload, Declared: true,
		})
	}
	if err := fl.scan(); err != nil {
		return nil, errors.Join(err, fl.Close())
	}
	return fl, nil
}

// scan brings what is known of the models folder up to date.
func (f *fleet) scan() error {
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
func (f *fleet) Start(ctx context.Context, id library.ID) (lifecycle.Instance, error) {
	cfg, err := f.settingsFor(id)
	if err != nil {
		return nil, err
	}
	form, cache := f.promised(id)
	if form != "" {
		cfg.Model.Weights = string(form)
	}
	if cache > 0 { // none is an error that open tells
		cfg.Runtime.KVMemory = config.Size(cache)
	}
	s, err := f.start(ctx, id, cfg, f.obs)
	if err != nil {
		return nil, err
	}
	f.prepareUploads(ctx, s)
	// From here on no change of plugins and settings passes it by.
	f.reloading.Lock()
	defer f.reloading.Unlock()
	f.catchUp(ctx, s, cfg)
	f.uploading.Lock()
	defer f.uploading.Unlock()
	f.putUploads(ctx, s)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.running[id] = s
	return &leaving{s, f}, nil
}

// catchUp gives a model what was changed while it was loaded with the settings
// before. f.reloading is held.
func (f *fleet) catchUp(ctx context.Context, s *served, before config.Config) {
	f.mu.Lock()
	cfg := f.cfg
	f.mu.Unlock()
	now := ownSettings(cfg, s.id)
	now.Model.Path, now.Model.Weights, now.Runtime.KVMemory = before.Model.Path, before.Model.Weights, before.Runtime.KVMemory
	if !reflect.DeepEqual(now, before) {
		_, took, err := s.control.reload(ctx, now) // which logs the plugins that failed
		if err != nil && ctx.Err() == nil {
			f.log.Error("settings not taken over", "model", s.id, "error", err)
		} else if err == nil {
			f.mu.Lock()
			f.cfg = withConversations(cfg, took.Model)
			f.mu.Unlock()
		}
	}
}

// leaving is a model that the fleet forgets when it stops.
type leaving struct {
	*served
	fleet *fleet
}

// Stop implements lifecycle.Instance.
func (l *leaving) Stop(ctx context.Context) error {
	l.fleet.mu.Lock()
	delete(l.fleet.running, l.id)
	l.fleet.remember(l.served)
	l.fleet.mu.Unlock()
	return l.served.Stop(ctx)
}

// settingsFor returns the settings of a model, whether they name it or not.
func (f *fleet) settingsFor(id library.ID) (config.Config, error) {
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
	return settingsOfModel(cfg, m), nil
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
func (f *fleet) defaultID() library.ID {
	f.mu.Lock()
	defer f.mu.Unlock()
	return library.ID(f.cfg.DefaultModel())
}

// all returns the models that run, by id.
func (f *fleet) all() []*served {
	f.mu.Lock()
	defer f.mu.Unlock()
	list := make([]*served, 0, len(f.running))
	for _, id := range slices.Sorted(maps.Keys(f.running)) {
		list = append(list, f.running[id])
	}
	return list
}

// main returns the default model, or nil where it does not run.
func (f *fleet) main() *served {
	id := f.defaultID()
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.running[id]
}

// preload loads the models that are to be there from the beginning: the default
// one now, whose failure is the server's, and the others in the background, having
// fetched what is not there yet. The result waits for these.
func (f *fleet) preload(ctx context.Context) (wait func(), err error) {
	first := f.defaultID()
	f.mu.Lock()
	all := f.cfg.All()
	f.mu.Unlock()
	var rest []config.Model
	for _, m := range all {
		switch {
		case !m.Preload:
		case m.Name == string(first):
			if err := f.bring(ctx, m); err != nil {
				return nil, err
			}
		default:
			rest = append(rest, m)
		}
	}
	// What must be fetched holds up nothing that is there.
	slices.SortStableFunc(rest, func(a, b config.Model) int { return cmp.Compare(f.absent(a), f.absent(b)) })
	var loading sync.WaitGroup
	f.mu.Lock()
	for _, m := range rest {
		f.awaited[library.ID(m.Name)] = true
	}
	f.mu.Unlock()
	loading.Go(func() {
		for _, m := range rest {
			if ctx.Err() != nil {
				return
			}
			if err := f.bring(ctx, m); err != nil && ctx.Err() == nil {
				f.log.Error("a model is not served", "model", m.Name, "error", err)
			}
			f.mu.Lock()
			delete(f.awaited, library.ID(m.Name))
			f.mu.Unlock()
		}
	})
	return loading.Wait, nil
}

// absent is 1 of a model that must be fetched before it can be loaded, else 0.
func (f *fleet) absent(m config.Model) int {
	if m.Source != "" && !f.library.Has(library.ID(m.Name)) {
		return 1
	}
	return 0
}

// bring loads a model, having fetched it if it is not there.
func (f *fleet) bring(ctx context.Context, m config.Model) error {
	id := library.ID(m.Name)
	if f.absent(m) > 0 {
		p, err := f.pull(id, m.Source)
		if err == nil {
			err = p.Wait(ctx)
		}
		if err != nil {
			return err
		}
	}
	if m.Path != "" {
		if _, err := describe(m.Path); err != nil { // which says what is missing
			return err
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
func (f *fleet) observe(c lifecycle.Change) {
	f.mu.Lock()
	if s, ok := f.running[c.ID]; ok && c.To == lifecycle.Stopping {
		s.stopping.Store(true)
	}
	f.mu.Unlock()
	attrs := []any{"model", c.ID, "from", c.From, "to", c.To}
	switch {
	case c.Err != nil:
		f.log.Error("model", append(attrs, "error", c.Err)...)
	case f.alone:
		f.log.Debug("model", attrs...)
	default:
		f.log.Info("model", attrs...)
	}
}

// healthy returns nil while the engines that run make progress.
func (f *fleet) healthy() error {
	var errs []error
	for _, s := range f.all() {
		if err := s.engine.Healthy(); err != nil && f.runs(s) {
			errs = append(errs, fmt.Errorf("model %s: %w", s.id, err))
		}
	}
	return errors.Join(errs...)
}

// runs says whether a model that ran a moment ago was not unloaded meanwhile.
func (f *fleet) runs(s *served) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.running[s.id] == s
}

// names are the ids of the models, the default first.
func (f *fleet) names() []string {
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
func (f *fleet) stats() (sum engine.Stats) {
	for _, s := range f.all() {
		st := s.engine.Stats()
		sum.Waiting += st.Waiting
		sum.Running += st.Running
		sum.Parked += st.Parked
		sum.KVTotal += st.KVTotal
		sum.KVUsed += st.KVUsed
		sum.KVCached += st.KVCached
	}
	return sum
}

// figures are what the metrics show of models.
func (f *fleet) figures() []server.ModelFigures {
	all := f.roster.All()
	out := make([]server.ModelFigures, len(all))
	for i, s := range all {
		out[i] = server.ModelFigures{
			ID: string(s.ID), State: string(s.State), Memory: s.Memory, Uses: s.Uses, LoadSeconds: s.LoadTook.Seconds(),
		}
	}
	return out
}

// Close unloads all models. Requests are over.
func (f *fleet) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), closingPatience)
	defer cancel()
	return errors.Join(f.roster.Close(ctx), f.kept.Close())
}

// closingPatience bounds how long unloading all models may take.
const closingPatience = time.Minute
