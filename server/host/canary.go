package host

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"time"

	"tgi/plugins"
	"tgi/sdk/abi"
	"tgi/server"
	"tgi/server/api/admin"
)

// canary is a new version of a plugin of which requests get a share. It lives in memory alone.
type canary struct {
	upload
	sum    string // of the module
	shared *plugins.Canary
	began  time.Time
	least  time.Duration      // that it lasts before it is promoted by itself
	end    context.CancelFunc // of what promotes it

	// CanaryUse of the models that had it and are gone. Only f.canaries has them as they are now.
	old, used plugins.Stats
}

// StartCanary implements admin.Plugins. All models that run and may have the plugin get the canary, or none.
func (f *manager) StartCanary(ctx context.Context, name string, wasm []byte, s admin.Settings) (admin.Canary, error) {
	if err := f.mayTry(name, s); err != nil {
		return admin.Canary{}, err
	}
	use, kept, err := f.useOver(name, s)
	if err != nil {
		return admin.Canary{}, err
	}
	c := canary{upload: newUpload(wasm, s.Signed, use), sum: moduleSum(wasm), began: time.Now().UTC(),
		least: time.Duration(s.PromoteTime), shared: plugins.NewCanary(plugins.CanaryOptions{Percent: s.Canary,
			Faults: s.CanaryFaults, Shadow: s.Shadow, Texts: s.CanaryTexts, After: s.PromoteAfter,
			Differences: s.CanaryDifferences})}
	beside := c.upload
	beside.settings.Canary, beside.settings.Shadow = true, s.Shadow
	ready := map[*loadedModel]*plugins.Prepared{}
	defer func() {
		for _, p := range ready {
			p.Discard()
		}
	}()
	if err := f.prepare(ctx, name, beside, ready); err != nil {
		return admin.Canary{}, kept.explain(adminError(err))
	}
	f.uploading.Lock()
	defer f.uploading.Unlock()
	if now, _, err := f.useOver(name, s); err != nil || !reflect.DeepEqual(now, use) {
		return admin.Canary{}, cmp.Or(err, fmt.Errorf("%w: %s: %w", server.ErrRefused, name, errOtherUse))
	}
	if err := f.prepare(ctx, name, beside, ready); err != nil { // for models that came meanwhile
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
	f.keepCanary(ctx, name, c)
	return f.shownCanary(name, c), nil
}

// keepCanary notes a canary that begins, in the place of what was noted, and has it promoted when the time comes.
// f.uploading is held.
func (f *manager) keepCanary(ctx context.Context, name string, c canary) {
	ctx, c.end = context.WithCancel(context.WithoutCancel(ctx))
	f.mu.Lock()
	defer f.mu.Unlock()
	f.forgetCanary(name)
	f.canaries[name] = c
	if c.shared.Options().After > 0 && !f.closed {
		f.deciding.Go(func() { f.decide(ctx, name, c) })
	}
}

// forgetCanary forgets the canary of a plugin and what was decided of one. f.mu is held.
func (f *manager) forgetCanary(name string) {
	if c, ok := f.canaries[name]; ok {
		c.end()
	}
	delete(f.canaries, name)
	delete(f.decided, name)
}

// decide promotes a canary when enough requests have finished with it and it has lasted long enough, and ends it when
// it is aborted before. ctx ends with the canary.
func (f *manager) decide(ctx context.Context, name string, c canary) {
	least := time.NewTimer(c.least)
	defer least.Stop()
	ready, over := c.shared.Ready(), false
	for waiting := 2; waiting > 0 && !over; waiting-- {
		select {
		case <-ready:
			ready = nil
		case <-least.C:
		case <-c.shared.Over():
			over = true
		case <-ctx.Done():
			return
		}
	}
	n := c.shared.Stats()
	why := fmt.Sprintf("after %d requests, of which %d were faulty", n.Finished+n.Faulty, n.Faulty)
	if c.shared.Options().Shadow {
		why += fmt.Sprintf(" and %d were answered differently", n.Different)
	}
	var err error
	if !over {
		if _, err = f.promote(ctx, name, c, why); err == nil || ctx.Err() != nil {
			return // it serves, or somebody ended it meanwhile
		}
	}
	f.conclude(ctx, name, c, err)
}

// conclude ends a canary that is not promoted, unless another change was faster.
func (f *manager) conclude(ctx context.Context, name string, c canary, err error) {
	f.uploading.Lock()
	defer f.uploading.Unlock()
	if f.sameCanary(name, c) != nil {
		return
	}
	shown := f.shownCanary(name, c)
	if err != nil && shown.Why == "" {
		shown.State, shown.Why = admin.CanaryAborted, "it can't be promoted: "+err.Error()
	}
	f.dropCanary(ctx, name)
	f.mu.Lock()
	f.decided[name] = shown
	f.mu.Unlock()
	f.log.Warn("canary ended and not promoted", "plugin", name, "sha256", shown.Canary.SHA256, "why", shown.Why)
}

// sameCanary returns an error unless c is the canary of a plugin.
func (f *manager) sameCanary(name string, c canary) error {
	now, err := f.canaryOf(name)
	if err == nil && now.shared != c.shared {
		err = fmt.Errorf("%w: another canary of %s began meanwhile", server.ErrRefused, name)
	}
	return err
}

// canaryOf returns the canary of a plugin.
func (f *manager) canaryOf(name string) (canary, error) {
	f.mu.Lock()
	c, ok := f.canaries[name]
	before := f.decided[name]
	f.mu.Unlock()
	if !ok && before.State == admin.CanaryAborted {
		return c, fmt.Errorf("%w: the canary of %s was aborted and has ended: %s", server.ErrRefused, name, before.Why)
	}
	if !ok {
		return c, reworded{fmt.Sprintf("plugin %.64q has no canary", name), server.ErrNoPlugin}
	}
	return c, nil
}

// Canary implements admin.Plugins.
func (f *manager) Canary(name string) (admin.Canary, error) { return f.canaryAs(name, f.shownCanary) }

// canaryAs returns what was decided of the canary of a plugin, or what show makes of one that runs.
func (f *manager) canaryAs(name string, show func(string, canary) admin.Canary) (admin.Canary, error) {
	f.mu.Lock()
	before, ok := f.decided[name]
	f.mu.Unlock()
	if ok {
		return before, nil
	}
	c, err := f.canaryOf(name)
	if err != nil {
		return admin.Canary{}, err
	}
	return show(name, c), nil
}

// Canaries implements admin.Plugins.
func (f *manager) Canaries() []admin.Canary { return f.canariesAs(f.shownCanary) }

// canariesAs is canaryAs of all.
func (f *manager) canariesAs(show func(string, canary) admin.Canary) (list []admin.Canary) {
	f.mu.Lock()
	names := slices.AppendSeq(slices.Collect(maps.Keys(f.canaries)), maps.Keys(f.decided))
	f.mu.Unlock()
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		if c, err := f.canaryAs(name, show); err == nil {
			list = append(list, c)
		}
	}
	return list
}

// canaryMetrics are what the metrics show of canaries.
func (f *manager) canaryMetrics() (list []server.CanaryMetrics) {
	for _, c := range f.canariesAs(f.countedCanary) {
		m := server.CanaryMetrics{Plugin: c.Name, Shadow: c.Shadow, State: c.State, SHA256: c.Canary.SHA256,
			Share: float64(c.Percent) / 100, Bound: c.Bound, Finished: c.Finished, Faulty: c.Faulty,
			Fallbacks: c.Fallbacks, Calls: c.Canary.Calls, Fuel: c.Canary.Fuel, Seconds: c.Canary.Seconds}
		if x := c.Compared; x != nil {
			m.Answers, m.DifferentAnswers = x.Answers, x.DifferentAnswers
			m.Different, m.Dropped = x.Different, x.Dropped
		}
		list = append(list, m)
	}
	return list
}

// shownCanary is a canary as the admin routes show it.
func (f *manager) shownCanary(name string, c canary) admin.Canary {
	shown := f.countedCanary(name, c)
	if shown.Compared != nil {
		for _, d := range c.shared.Samples() {
			shown.Compared.Samples = append(shown.Compared.Samples, admin.CanaryDifference(d))
		}
	}
	return shown
}

// countedCanary is shownCanary without the samples.
func (f *manager) countedCanary(name string, c canary) admin.Canary {
	s, o := c.shared.Stats(), c.shared.Options()
	shown := admin.Canary{Name: name, State: admin.CanaryRuns, Shadow: o.Shadow, Percent: o.Percent,
		AbortAfter: o.Faults, Began: c.began, PromoteAfter: o.After, MaxDifferences: o.Differences, Bound: s.Bound,
		Faulty: s.Faulty, Fallbacks: s.Fallbacks, Finished: s.Finished}
	if s.Aborted != "" {
		shown.State, shown.Why = admin.CanaryAborted, s.Aborted
	}
	if o.After > 0 {
		shown.PromoteNotBefore = c.began.Add(c.least)
	}
	if o.Shadow {
		shown.Compared = &admin.CanaryCompared{Answers: s.Answers, DifferentAnswers: s.Differing,
			Different: s.Different, Dropped: s.Dropped, Samples: []admin.CanaryDifference{}}
	}
	old, used := f.totalCanaryUse(name, c)
	serving, _ := f.Get(name)
	shown.Serving = canaryUse(serving.SHA256, serving.Version, old)
	shown.Canary = canaryUse(c.sum, c.version, used)
	if slices.Contains(serving.Kinds, abi.KindGuard) && !o.Shadow {
		g := server.Guard(used.Guard)
		shown.Canary.Guard = &g
	}
	return shown
}

// totalCanaryUse is CanaryUse of all models that have or had a canary.
func (f *manager) totalCanaryUse(name string, c canary) (old, used plugins.Stats) {
	f.mu.Lock() // through all of it: what a model that goes leaves is counted once
	defer f.mu.Unlock()
	if now := f.canaries[name]; now.shared == c.shared {
		old, used = now.old, now.used
	}
	for _, m := range f.loaded {
		if a, b, ok := m.control.set.CanaryUse(name); ok {
			old, used = old.Plus(a), used.Plus(b)
		}
	}
	return old, used
}

func canaryUse(sum, version string, s plugins.Stats) admin.CanaryUse {
	faults := map[string]uint64{}
	for kind, n := range s.Faults {
		if n > 0 {
			faults[kind] = n
		}
	}
	return admin.CanaryUse{SHA256: sum, Version: version, Calls: s.Calls, Refusals: s.Refusals, Faults: faults,
		Fuel: s.Fuel, Seconds: s.Seconds, Instances: s.InstancesOut, InstanceBytes: s.InstanceBytes}
}

// PromoteCanary implements admin.Plugins: the canary is uploaded in the place of what serves, which is kept.
func (f *manager) PromoteCanary(ctx context.Context, name string) (server.Plugin, error) {
	c, err := f.canaryOf(name)
	if err != nil {
		return server.Plugin{}, err
	}
	if err := cmp.Or(c.aborted(name), f.mayPromote(name, c)); err != nil {
		return server.Plugin{}, err
	}
	return f.promote(ctx, name, c, "")
}

// promote has a canary serve. why is the reason of one that nobody asked for: what was decided is kept.
func (f *manager) promote(ctx context.Context, name string, c canary, why string) (server.Plugin, error) {
	var shown admin.Canary
	p, err := f.put(ctx, name, c.upload, func([]string) error {
		shown = f.shownCanary(name, c)
		return f.isCanary(name, c)
	})
	if err == nil && why != "" {
		shown.State, shown.Why = admin.CanaryPromoted, why
		f.mu.Lock()
		if _, another := f.canaries[name]; !another && f.uploads[name].uploaded.Equal(c.uploaded) {
			f.decided[name] = shown
		}
		f.mu.Unlock()
	}
	if err == nil {
		f.log.Info("canary promoted", "plugin", name, "sha256", p.SHA256, "why", why)
	}
	return p, err
}

// isCanary returns nil if a canary can still be promoted.
func (f *manager) isCanary(name string, c canary) error {
	return cmp.Or(f.sameCanary(name, c), c.aborted(name))
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
	f.mu.Lock()
	_, known := f.decided[name]
	f.mu.Unlock()
	if _, err := f.canaryOf(name); err != nil && !known {
		return err
	}
	f.dropCanary(ctx, name)
	return nil
}

// forgetCanaries forgets those that no model has any more: the settings have a plugin of their name now. f.uploading is
// held.
func (f *manager) forgetCanaries() {
	running := f.running()
	f.mu.Lock()
	defer f.mu.Unlock()
	for name := range f.canaries {
		if !slices.ContainsFunc(running, func(m *loadedModel) bool {
			_, _, ok := m.control.set.CanaryUse(name)
			return ok
		}) {
			f.forgetCanary(name)
		}
	}
}

// dropCanary takes the canary of a plugin from all models. f.uploading is held.
func (f *manager) dropCanary(ctx context.Context, name string) {
	for _, m := range f.running() {
		// A set that is closed has none any more.
		_ = m.control.set.EndCanary(context.WithoutCancel(ctx), name)
	}
	f.mu.Lock()
	f.forgetCanary(name)
	f.mu.Unlock()
}

// endCanaries has nothing promoted any more, and waits for what is being.
func (f *manager) endCanaries() {
	f.mu.Lock()
	f.closed = true
	for _, c := range f.canaries {
		c.end()
	}
	f.mu.Unlock()
	f.deciding.Wait()
}
