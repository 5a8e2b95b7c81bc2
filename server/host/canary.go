package host

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"tgi/plugins"
	"tgi/server"
	"tgi/server/api/admin"
)

// canary is a new version of an upload of which requests get a share. It lives in memory alone.
type canary struct {
	upload
	shared *plugins.Canary
	began  time.Time
}

// StartCanary implements admin.Plugins. All models that run and may have the plugin get the canary, or none.
func (f *manager) StartCanary(ctx context.Context, name string, wasm []byte, s admin.Settings) (admin.Canary, error) {
	if _, err := f.uploaded(name); err != nil {
		return admin.Canary{}, err
	}
	c := canary{upload: uploadOf(wasm, s), shared: plugins.NewCanary(s.Canary, s.CanaryFaults), began: time.Now().UTC()}
	ready := map[*loadedModel]*plugins.Prepared{}
	defer func() {
		for _, p := range ready {
			p.Discard()
		}
	}()
	if err := f.prepare(ctx, name, c.upload, ready); err != nil {
		return admin.Canary{}, adminError(err)
	}
	f.uploading.Lock()
	defer f.uploading.Unlock()
	if err := f.prepare(ctx, name, c.upload, ready); err != nil { // for models that came meanwhile
		return admin.Canary{}, adminError(err)
	}
	begun := false
	for _, m := range f.running() {
		p := ready[m]
		if p == nil {
			continue
		}
		delete(ready, m)
		version, err := p.Canary(ctx, c.shared)
		if errors.Is(err, plugins.ErrClosed) {
			continue
		}
		if err != nil && begun {
			f.dropCanary(ctx, name)
		}
		if err != nil {
			return admin.Canary{}, adminError(err)
		}
		c.version, begun = version, true
		ctx = context.WithoutCancel(ctx) // one that leaves now must not have some models with it and some without
	}
	if !begun {
		return admin.Canary{}, fmt.Errorf("%w: no model that runs may have plugin %s: nothing can try it",
			server.ErrRefused, name)
	}
	f.mu.Lock()
	f.canaries[name] = c
	f.mu.Unlock()
	return f.Canary(name)
}

// canaryOf returns the canary of a plugin.
func (f *manager) canaryOf(name string) (canary, error) {
	f.mu.Lock()
	c, ok := f.canaries[name]
	f.mu.Unlock()
	if !ok {
		return c, reworded{fmt.Sprintf("plugin %.64q has no canary", name), server.ErrNoPlugin}
	}
	return c, nil
}

// Canary implements admin.Plugins.
func (f *manager) Canary(name string) (admin.Canary, error) {
	c, err := f.canaryOf(name)
	if err != nil {
		return admin.Canary{}, err
	}
	s := c.shared.Stats()
	shown := admin.Canary{Name: name, State: admin.CanaryRuns, Percent: s.Percent, AbortAfter: s.Limit, Began: c.began,
		Bound: s.Bound, Faulty: s.Faulty, Fallbacks: s.Fallbacks}
	if s.Aborted != "" {
		shown.State, shown.Why = admin.CanaryAborted, s.Aborted
	}
	var old, used plugins.Stats
	for _, m := range f.running() {
		if a, b, ok := m.control.set.CanaryUse(name); ok {
			old, used = old.Plus(a), used.Plus(b)
		}
	}
	serving, _ := f.Get(name)
	shown.Serving = canaryUse(serving.SHA256, serving.Version, old)
	shown.Canary = canaryUse(moduleSum(c.wasm), c.version, used)
	return shown, nil
}

func canaryUse(sum, version string, s plugins.Stats) admin.CanaryUse {
	faults := map[string]uint64{}
	for kind, n := range s.Faults {
		if n > 0 {
			faults[kind] = n
		}
	}
	return admin.CanaryUse{SHA256: sum, Version: version, Calls: s.Calls, Refusals: s.Refusals, Faults: faults,
		Fuel: s.Fuel, Seconds: s.Seconds}
}

// PromoteCanary implements admin.Plugins: the canary is uploaded in the place of what serves, which is kept.
func (f *manager) PromoteCanary(ctx context.Context, name string) (server.Plugin, error) {
	c, err := f.canaryOf(name)
	if err != nil {
		return server.Plugin{}, err
	}
	if err := c.aborted(name); err != nil {
		return server.Plugin{}, err
	}
	p, err := f.put(ctx, name, c.upload, func() error { return f.isCanary(name, c) })
	if err == nil {
		f.log.Info("canary promoted", "plugin", name, "sha256", p.SHA256)
	}
	return p, err
}

// isCanary returns nil if a canary can still be promoted.
func (f *manager) isCanary(name string, c canary) error {
	now, err := f.canaryOf(name)
	if err != nil {
		return err
	}
	if now.shared != c.shared {
		return fmt.Errorf("%w: another canary of %s began meanwhile", server.ErrRefused, name)
	}
	return c.aborted(name)
}

// aborted returns the error for a canary that was aborted.
func (c canary) aborted(name string) error {
	if s := c.shared.Stats(); s.Aborted != "" {
		return fmt.Errorf("%w: the canary of %s was aborted: %s", server.ErrRefused, name, s.Aborted)
	}
	return nil
}

// EndCanary implements admin.Plugins.
func (f *manager) EndCanary(ctx context.Context, name string) error {
	f.uploading.Lock()
	defer f.uploading.Unlock()
	if _, err := f.canaryOf(name); err != nil {
		return err
	}
	f.dropCanary(ctx, name)
	return nil
}

// forgetCanaries forgets those that no model has any more: the settings have a plugin of their name now.
func (f *manager) forgetCanaries() {
	f.uploading.Lock()
	defer f.uploading.Unlock()
	running := f.running()
	f.mu.Lock()
	defer f.mu.Unlock()
	maps.DeleteFunc(f.canaries, func(name string, _ canary) bool {
		return !slices.ContainsFunc(running, func(m *loadedModel) bool {
			_, _, ok := m.control.set.CanaryUse(name)
			return ok
		})
	})
}

// dropCanary takes the canary of a plugin from all models. f.uploading is held.
func (f *manager) dropCanary(ctx context.Context, name string) {
	for _, m := range f.running() {
		// A set that is closed has none any more.
		_ = m.control.set.EndCanary(context.WithoutCancel(ctx), name)
	}
	f.mu.Lock()
	delete(f.canaries, name)
	f.mu.Unlock()
}
