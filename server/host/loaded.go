package host

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"

	"tgi/models/library"
	"tgi/runtime/engine"
	"tgi/runtime/kv"
	"tgi/server/config"
	"tgi/server/dispatch"
	"tgi/server/kvevents"
)

// loadedModel is a model that runs: the engine, and the plugins over its vocabulary. It
// implements lifecycle.Instance.
type loadedModel struct {
	*instance
	id        library.ID
	control   *pluginController
	model     *dispatch.Model // what requests get of it
	stopWatch func()          // ends what watches its files
	watches   sync.WaitGroup
	unhold    func() // lets others delete its files
	// stopping says that it takes no new requests: sockets, which would hold it for
	// ever, are closed.
	stopping atomic.Bool
	events   *kvevents.Stream // nil without
}

// start loads the model of cfg, whose [model] is the only one. obs is told of the
// engine's steps.
func (f *manager) start(ctx context.Context, id library.ID, cfg config.Config, obs engine.Observer) (_ *loadedModel,
	err error) {
	free, err := f.library.Hold(id)
	if err != nil {
		return nil, err
	}
	s := &loadedModel{id: id, unhold: free, stopWatch: func() {}}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.Stop(ctx))
		}
	}()
	log := f.log
	if !f.single {
		log = log.With("model", id)
	}
	say := func(format string, args ...any) { log.Info(fmt.Sprintf(format, args...)) }
	if err = f.fetchAdapters(ctx, cfg, say); err != nil {
		return nil, err
	}
	second, err := f.draftSource(cfg)
	if err != nil {
		return nil, err
	}
	var watcher kv.Watcher
	if s.events = f.openEvents(id); s.events != nil {
		watcher = cacheWatch{s.events}
	}
	if err = f.openBoth(ctx, cfg, s, func(read func(*instance)) (*instance, error) {
		return open(ctx, cfg, f.device, draftWatch{obs, log}, &f.demand, second, f.kvDisk, watcher, say, read)
	}, log); err != nil {
		return nil, err
	}
	if s.images != nil {
		f.mu.Lock()
		f.seeing[id] = true
		f.mu.Unlock()
	}
	s.model = f.model(cfg, s)
	watching, end := context.WithCancel(context.Background())
	s.stopWatch = end
	s.watches.Go(func() { s.control.watch(watching) })
	return s, nil
}

// openBoth opens a model and, as soon as its vocabulary is known, its plugins beside it: ONNX Runtime keeps one
// processor busy while it opens a model, and so do modules while they are loaded. An error of the model ends their
// loading.
func (f *manager) openBoth(ctx context.Context, cfg config.Config, s *loadedModel,
	open func(read func(*instance)) (*instance, error), log *slog.Logger) (err error) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	var beside sync.WaitGroup
	var wrong error
	s.instance, err = open(func(in *instance) {
		beside.Go(func() { s.control, wrong = f.openPlugins(ctx, cfg, in, log) })
	})
	if err != nil {
		stop()
	}
	beside.Wait()
	if err != nil {
		return err
	}
	return wrong
}

// Stop implements lifecycle.Instance: whoever used the model is gone, or cut off
// here. It may be called on what is half open.
func (s *loadedModel) Stop(context.Context) error {
	s.stopWatch()
	s.watches.Wait()
	var err error
	if s.instance != nil {
		err = s.instance.Close()
	}
	if s.events != nil {
		s.events.Close() // nobody tells it of more
	}
	if s.control != nil {
		s.control.set.Close()
	}
	s.unhold()
	// What a model held is a large part of the heap; the collector would let go of
	// it only after as much again was allocated.
	debug.FreeOSMemory()
	return err
}

// SettingsFor returns the settings of a model, whether cfg names it or not: those of the
// server, with the model's own in their place.
func SettingsFor(cfg config.Config, id library.ID) config.Config {
	return settingsOf(cfg, declared(cfg, id))
}

// settingsOf is SettingsFor for a model that is at hand.
func settingsOf(cfg config.Config, m config.Model) config.Config {
	cfg.Model, cfg.ModelList = m, nil
	if m.Context > 0 {
		cfg.Limits.MaxTotalTokens = m.Context
	}
	if m.KVMemory > 0 {
		cfg.Runtime.KVMemory = m.KVMemory
	}
	if m.Plugins != nil {
		var own []config.Plugin
		for _, p := range cfg.Plugin {
			if mayUsePlugin(m, p.Name) {
				own = append(own, p)
			}
		}
		cfg.Plugin, cfg.Plugins.Folder = own, "" // who lists plugins means these
	}
	return cfg
}

// mayUsePlugin says whether a model has the plugin of a name.
func mayUsePlugin(m config.Model, plugin string) bool {
	return m.Plugins == nil || slices.Contains(m.Plugins, plugin)
}

// prepareUploads loads the modules that were uploaded before the model was, without a lock: putUploads then finds them
// compiled.
func (f *manager) prepareUploads(ctx context.Context, s *loadedModel) {
	for name, u := range f.uploadsFor(s) {
		if u.damaged != nil || f.checkSigned(name, u) != nil {
			continue
		}
		// what is wrong putUploads tells
		if p, err := s.control.set.Prepare(ctx, name, u.wasm, u.settings); err == nil {
			p.Discard()
		}
	}
}

// putUploads gives a model the modules that were uploaded before it was loaded.
// f.uploading is held.
func (f *manager) putUploads(ctx context.Context, s *loadedModel) {
	list := f.uploadsFor(s)
	for _, name := range slices.Sorted(maps.Keys(list)) {
		if settingsBlock(s.control.settings(), name) != nil { // it waits
			continue
		}
		u := list[name]
		err := u.damaged
		if err == nil {
			err = f.checkSigned(name, u)
		}
		if err == nil {
			_, err = s.control.set.Put(ctx, name, u.wasm, u.settings)
		}
		if err != nil && ctx.Err() == nil {
			f.log.Error("an uploaded plugin cannot be used with the model", "plugin", name, "model", s.id, "error", err)
			_ = s.control.set.Fail(ctx, name, u.settings, err)
		}
	}
}

// uploadsFor returns the modules that were uploaded and that a model may have.
func (f *manager) uploadsFor(s *loadedModel) map[string]upload {
	f.mu.Lock()
	list := maps.Clone(f.uploads)
	f.mu.Unlock()
	m := s.control.settings().Model
	maps.DeleteFunc(list, func(name string, _ upload) bool { return !mayUsePlugin(m, name) })
	return list
}
