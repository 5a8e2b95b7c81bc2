package host

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"os"
	"reflect"
	"slices"
	"strings"
	"syscall"
	"time"

	"tgi/models/library"
	"tgi/plugins"
	"tgi/runtime/filestamp"
	"tgi/runtime/llm"
	"tgi/runtime/regular"
	"tgi/server"
	"tgi/server/api/admin"
	"tgi/server/config"
)

// List implements admin.Plugins: a plugin that several models have is one, with
// their counters added up.
func (f *manager) List() []server.Plugin {
	f.mu.Lock() // through all of it: what a model that goes leaves in past is counted once
	defer f.mu.Unlock()
	sum := map[string]server.Plugin{}
	for _, id := range slices.Sorted(maps.Keys(f.loaded)) {
		for _, p := range f.loaded[id].control.List() {
			if before, ok := sum[p.Name]; ok {
				p = mergePlugin(before, p, string(id))
			}
			sum[p.Name] = p
		}
	}
	out := make([]server.Plugin, 0, len(sum))
	for _, name := range slices.Sorted(maps.Keys(sum)) {
		p := sum[name]
		if before, ok := f.counters[name]; ok {
			p = addCounters(p, before)
		}
		out = append(out, p)
	}
	return out
}

// mergePlugin is what p of the model id adds to before. What is wrong with it there is
// told.
func mergePlugin(before, p server.Plugin, id string) server.Plugin {
	sum := addCounters(before, p)
	sum.OffClients += p.OffClients
	sum.InstancesOut += p.InstancesOut
	sum.InstancesWaiting += p.InstancesWaiting
	sum.InstanceBytes += p.InstanceBytes
	if before.State == server.PluginReady && p.State != server.PluginReady {
		sum.State = p.State
	}
	if p.Error != "" && p.Error != before.Error {
		sum.Error = strings.TrimPrefix(fmt.Sprintf("%s; model %s: %s", before.Error, id, p.Error), "; ")
	}
	if p.Loaded.After(sum.Loaded) {
		sum.Loaded = p.Loaded
	}
	return sum
}

// addCounters is p with the counters of q added.
func addCounters(p, q server.Plugin) server.Plugin {
	p.Calls += q.Calls
	p.Seconds += q.Seconds
	p.Fuel += q.Fuel
	p.Paused += q.Paused
	p.Slices += q.Slices
	p.Skips += q.Skips
	p.Resets += q.Resets
	p.Loads += q.Loads
	p.Faults = plugins.AddCounts(p.Faults, q.Faults)
	if g := q.Guard; g != nil {
		sum := *g
		if own := p.Guard; own != nil {
			sum = server.Guard(plugins.GuardStats(*own).Plus(plugins.GuardStats(*g)))
		}
		p.Guard = &sum
	}
	return p
}

// keepCounters keeps the counters of a model's plugins and of their canaries, which never go down. f.mu is
// held.
func (f *manager) keepCounters(s *loadedModel) {
	for _, p := range s.control.List() {
		f.counters[p.Name] = addCounters(p, f.counters[p.Name])
	}
	for name, c := range f.canaries {
		old, used, ok := s.control.set.CanaryUse(name)
		if !ok {
			continue
		}
		// Instances are counted as they are now, and the model has none any more.
		old.InstancesOut, old.InstanceBytes, used.InstancesOut, used.InstanceBytes = 0, 0, 0, 0
		c.old, c.used = c.old.Plus(old), c.used.Plus(used)
		f.canaries[name] = c
	}
}

// Get implements admin.Plugins.
func (f *manager) Get(name string) (server.Plugin, bool) {
	list := f.List()
	i := slices.IndexFunc(list, func(p server.Plugin) bool { return p.Name == name })
	if i < 0 {
		return server.Plugin{}, false
	}
	return list[i], true
}

// Put implements admin.Plugins: all models that run get the module, or none, and
// those that are loaded later do. Other changes go on while it is loaded; of
// several under one name the last stays.
func (f *manager) Put(ctx context.Context, name string, wasm []byte, s admin.Settings) (server.Plugin, error) {
	return f.putOver(ctx, name, wasm, s, func() {})
}

// putOver is Put. ready is called before each installation, when the module is about to be loaded.
func (f *manager) putOver(ctx context.Context, name string, wasm []byte, s admin.Settings,
	ready func()) (server.Plugin, error) {
	for {
		use, kept, err := f.useOver(name, s)
		if err != nil {
			return server.Plugin{}, err
		}
		ready()
		p, err := f.put(ctx, name, newUpload(wasm, s.Signed, use), func(kinds []string) error {
			now, _, err := f.useOver(name, s)
			switch {
			case err != nil:
				return err
			case !reflect.DeepEqual(now, use):
				return errOtherUse
			}
			return f.checkKinds(name, kinds, s)
		})
		if !errors.Is(err, errOtherUse) {
			return p, kept.explain(err)
		}
	}
}

// errOtherUse: what serves was replaced by one that is used differently, while the next one was loaded to be used as it
// was.
var errOtherUse = errors.New("what serves is used differently now")

// put is Put of an upload, new or of before. still is asked when it is loaded, with its kinds, and with f.uploading and
// the lock of the folder held, and its error is why it is not wanted, or not any more.
func (f *manager) put(ctx context.Context, name string, u upload, still func(kinds []string) error) (server.Plugin,
	error) {
	ready := map[*loadedModel]*plugins.Prepared{}
	defer func() {
		for _, p := range ready {
			p.Discard()
		}
	}()
	if err := f.prepare(ctx, name, u, ready); err != nil {
		return server.Plugin{}, adminError(err)
	}
	f.uploading.Lock()
	defer f.uploading.Unlock()
	if err := f.prepare(ctx, name, u, ready); err != nil { // for models that came meanwhile
		return server.Plugin{}, adminError(err)
	}
	unlock, err := f.lockToKeep(ctx)
	if err != nil {
		return server.Plugin{}, err
	}
	defer unlock()
	if err := still(kindsOf(ready)); err != nil {
		return server.Plugin{}, err
	}
	if err := f.install(ctx, name, u, ready); err != nil {
		return server.Plugin{}, err
	}
	p, _ := f.Get(name)
	return p, nil
}

// prepare loads an upload for each model that runs and may have it and is not in
// ready.
func (f *manager) prepare(ctx context.Context, name string, u upload, ready map[*loadedModel]*plugins.Prepared) error {
	if err := f.checkSigned(name, u); err != nil {
		return err
	}
	for _, m := range f.running() {
		if ready[m] != nil || !mayUsePlugin(m.control.settings().Model, name) {
			continue
		}
		p, err := m.control.set.Prepare(ctx, name, u.wasm, u.settings)
		switch {
		case errors.Is(err, plugins.ErrClosed): // it is being unloaded
		case err != nil && len(ready) > 0:
			return fmt.Errorf("model %s: %w", m.id, err)
		case err != nil:
			return err
		default:
			ready[m] = p
		}
	}
	return nil
}

// install gives models an upload that was prepared for them, and keeps it. What is
// installed is taken out of ready. f.uploading and the lock of the folder are held.
func (f *manager) install(ctx context.Context, name string, u upload, ready map[*loadedModel]*plugins.Prepared) error {
	f.mu.Lock()
	before, replaces := f.uploads[name]
	f.mu.Unlock()
	var done []*loadedModel
	for _, m := range f.running() {
		p := ready[m]
		if p == nil {
			continue
		}
		delete(ready, m)
		status, err := p.Commit(ctx)
		if errors.Is(err, plugins.ErrClosed) {
			continue
		}
		if err != nil {
			if len(done) > 0 {
				err = fmt.Errorf("model %s: %w", m.id, err)
			}
			return errors.Join(adminError(err), f.undo(ctx, done, name, before, replaces))
		}
		u.version = status.Version
		ctx = context.WithoutCancel(ctx) // one that leaves now must not have some models with it and some without
		done = append(done, m)
	}
	if len(done) == 0 {
		return fmt.Errorf("%w: no model that runs may have plugin %s: nothing can check it", server.ErrRefused, name)
	}
	u.past = before.replace(name, u, f.folder != "")
	if err := f.folder.put(name, u); err != nil {
		return errors.Join(fmt.Errorf("%w: %w", whyNotKept(err), err), f.undo(ctx, done, name, before, replaces))
	}
	f.mu.Lock()
	f.forgetCanary(name) // the models lost it with what it was to replace
	f.uploads[name] = u
	f.mu.Unlock()
	return nil
}

// whyNotKept is what it means to who uploads a module that it can't be kept.
func whyNotKept(err error) error {
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) || errors.Is(err, syscall.EROFS) {
		return server.ErrNoRoom
	}
	return server.ErrRefused
}

// undo gives models what they had under name before.
func (f *manager) undo(ctx context.Context, done []*loadedModel, name string, before upload, replaces bool) error {
	var errs []error
	if len(done) > 0 {
		f.dropCanary(ctx, name) // some models lost it
	}
	ctx = context.WithoutCancel(ctx)
	for _, m := range done {
		if replaces && before.damaged == nil {
			_, err := m.control.set.Put(ctx, name, before.wasm, before.settings)
			errs = append(errs, err)
			continue
		}
		errs = append(errs, m.control.set.Delete(name))
		if replaces {
			errs = append(errs, m.control.set.Fail(ctx, name, before.settings, before.damaged))
		}
	}
	return errors.Join(errs...)
}

// Delete implements admin.Plugins.
func (f *manager) Delete(ctx context.Context, name string) error {
	f.uploading.Lock()
	defer f.uploading.Unlock()
	unlock, err := f.lockUploads(ctx)
	switch {
	case err == nil:
		defer unlock()
	case errors.Is(err, server.ErrUploadsBusy) || ctx.Err() != nil:
		return err
	} // else there is no folder, or the removal from it says what is wrong: the models do without the plugin
	there := false
	unknown := fmt.Errorf("%w: %q", plugins.ErrUnknown, llm.Shorten(name))
	for _, m := range f.running() {
		err := m.control.set.Delete(name)
		switch {
		case err == nil:
			there = true
		case errors.Is(err, plugins.ErrUnknown): // others may have it
			unknown = err
		case errors.Is(err, plugins.ErrClosed):
		case errors.Is(err, plugins.ErrConfigured) && f.waits(name):
			return fmt.Errorf("%w; the upload of this name waits: take the [[plugin]] away, reload, and remove the upload",
				adminError(err))
		default:
			return adminError(err)
		}
	}
	f.mu.Lock()
	_, kept := f.uploads[name] // also for models that do not run now
	delete(f.uploads, name)
	f.forgetCanary(name)
	f.mu.Unlock()
	if !there && !kept {
		return adminError(unknown)
	}
	f.pluginLogs.Forget(name)
	return f.folder.remove(name)
}

// Reload implements admin.Plugins.
func (f *manager) Reload(ctx context.Context) (admin.Report, error) {
	return f.reloadSettings(ctx, nil)
}

// reloadSettings is Reload of a file that was seen so, nil where somebody asked for it.
func (f *manager) reloadSettings(ctx context.Context, seen *filestamp.Stamp) (admin.Report, error) {
	f.reloading.Lock()
	defer f.reloading.Unlock()
	f.mu.Lock()
	cfg := f.cfg
	f.mu.Unlock()
	next, restart, err := f.reload(cfg, seen)
	f.uploading.Lock()
	defer f.uploading.Unlock()
	if err == nil && seen != nil {
		err = f.keepsUploads(next)
	}
	if err != nil {
		f.log.Error("reload of the settings failed; keeping the previous ones", "error", err)
		return admin.Report{}, fmt.Errorf("%w: %w", server.ErrRefused, err)
	}
	sum := admin.Report{Restart: restart}
	var first error
	took := false
	for _, m := range f.running() {
		report, runs, err := m.control.reload(ctx, SettingsFor(next, m.id))
		switch {
		case errors.Is(err, plugins.ErrClosed): // it is being unloaded
			continue
		case err != nil: // others have, or get, what is new
			f.log.Error("reload of the settings failed; keeping the previous ones", "model", m.id, "error", err)
			first = cmp.Or(first, err)
			report.Failed = append(report.Failed, admin.Failure{Name: string(m.id), Error: err.Error()})
		default:
			// A client that leaves must not have some models run with what is new and some not.
			ctx, took = context.WithoutCancel(ctx), true
			next = withConversations(next, runs.Model)
		}
		sum = mergeReports(sum, report, f.single, string(m.id))
	}
	if first != nil && !took {
		return admin.Report{}, first
	}
	f.mu.Lock()
	f.cfg = next
	f.mu.Unlock()
	f.forgetCanaries()
	f.warnOfWaiting()
	sum.Failed = append(sum.Failed, f.unsignedUploads()...)
	if len(restart) > 0 {
		f.log.Warn("settings that changed and take effect at a restart", "keys", restart)
	}
	return sum, nil
}

// withConversations returns cfg with what m says of conversations in the place of what
// its model of that name does: m runs, and may have had to keep what was there before.
func withConversations(cfg config.Config, m config.Model) config.Config {
	if own := declared(cfg, library.ID(m.Name)); own.Template == m.Template && own.Tools == m.Tools {
		return cfg
	}
	if len(cfg.ModelList) == 0 {
		cfg.Model.Template, cfg.Model.Tools = m.Template, m.Tools
		return cfg
	}
	cfg.ModelList = slices.Clone(cfg.ModelList)
	for i := range cfg.ModelList {
		if cfg.ModelList[i].Name == m.Name {
			cfg.ModelList[i].Template, cfg.ModelList[i].Tools = m.Template, m.Tools
		}
	}
	return cfg
}

// mergeReports adds the report of a model to that of the server.
func mergeReports(sum, r admin.Report, alone bool, id string) admin.Report {
	merge := func(a, b []string) []string {
		a = append(a, b...)
		slices.Sort(a)
		return slices.Compact(a)
	}
	sum.Loaded, sum.Removed = merge(sum.Loaded, r.Loaded), merge(sum.Removed, r.Removed)
	for _, failed := range r.Failed {
		same := slices.Contains(sum.Failed, failed)
		if !same && !alone && failed.Name != id {
			failed.Error = fmt.Sprintf("model %s: %s", id, failed.Error)
		}
		if !same {
			sum.Failed = append(sum.Failed, failed)
		}
	}
	return sum
}

// watch reloads when hup says so and when the settings' file changed, until ctx ends.
func (f *manager) watch(ctx context.Context, hup <-chan os.Signal) {
	f.mu.Lock()
	path, every := f.cfg.File, time.Duration(f.cfg.Plugins.Watch)
	f.mu.Unlock()
	var tick <-chan time.Time
	if every > 0 {
		t := time.NewTicker(max(every/2, time.Millisecond))
		defer t.Stop()
		tick = t.C
	}
	file := watchedFile{path: path, steady: max(every, leastSteady)}
	for {
		select {
		case <-ctx.Done():
			return
		case <-hup:
			f.reloadLogged(ctx, nil)
		case now := <-tick:
			if file.changed(now) {
				f.reloadLogged(ctx, &file.taken)
			}
		}
	}
}

// leastSteady is how long a file of settings must not have changed before it is read, however often it is looked at:
// whoever writes one in place empties it first, and may take its time between two writes.
const leastSteady = 100 * time.Millisecond

// watchedFile looks at a file for changes. Its zero value has seen nothing: the file may have changed since it was
// read at the start.
type watchedFile struct {
	path   string
	steady time.Duration
	// taken is what was read last, seen what is there since a time, and sum that of its bytes.
	taken, seen filestamp.Stamp
	sum         [sha256.Size]byte
	since       time.Time
}

// changed reports whether the file is to be read: it is not what was taken, and it has been the same for a while. The
// bytes are looked at beside the stamp, since some file systems keep times of seconds.
func (s *watchedFile) changed(now time.Time) bool {
	stamp := filestamp.Of(s.path)
	if stamp.Same(s.taken) {
		s.seen = stamp
		return false
	}
	text, _ := regular.Read(s.path, 0, config.MaxFile) // the reload says what is wrong
	sum := sha256.Sum256(text)
	if !stamp.Same(s.seen) || sum != s.sum {
		s.seen, s.sum, s.since = stamp, sum, now
		return false
	}
	if now.Sub(s.since) < s.steady {
		return false
	}
	s.taken = stamp
	return true
}

// reloadLogged is reloadSettings for nobody who waits for what comes of it: that is logged.
func (f *manager) reloadLogged(ctx context.Context, seen *filestamp.Stamp) {
	_, _ = f.reloadSettings(ctx, seen)
}
