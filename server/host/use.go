package host

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"tgi/models/library"
	"tgi/models/library/lifecycle"
	"tgi/runtime/llm"
	"tgi/server"
	"tgi/server/dispatch"
)

// When clients whose model cannot answer should ask again: of a model that loads
// and has never been loaded here, and of one that somebody must start first.
const (
	firstLoad  = 5 * time.Second
	untilStart = 30 * time.Second
)

// Use implements dispatch.Models.
func (f *manager) Use(ctx context.Context, name string) (*dispatch.Model, func(), error) {
	id, adapter, err := f.resolve(ctx, name, generating)
	if err != nil {
		return nil, nil, err
	}
	if asked := cmp.Or(adapter, string(id)); !server.MayUse(ctx, asked) {
		return nil, nil, fmt.Errorf("%w: `%s`", server.ErrModelKey, asked)
	}
	if err := f.cannot(ctx, id, generating); err != nil {
		return nil, nil, err
	}
	m, release, err := f.acquire(ctx, id)
	if err != nil {
		return nil, nil, err
	}
	return adapted(m.model, adapter), release, nil
}

// generating is what the requests of most routes want.
var generating = []server.Task{server.Generates}

// acquire returns a model that generates and runs until release, and loads it if the settings let requests do so.
func (f *manager) acquire(ctx context.Context, id library.ID) (*managedModel, func(), error) {
	instance, release, err := f.instance(ctx, id)
	if err != nil {
		return nil, nil, err
	}
	m, ok := instance.(*managedModel)
	if !ok {
		release()
		return nil, nil, &server.WrongTask{ID: string(id), Own: server.Embeds, Wanted: server.Generates}
	}
	return m, release, nil
}

// instance returns a model of any kind that runs until release, and loads it if the settings let requests do so.
func (f *manager) instance(ctx context.Context, id library.ID) (lifecycle.Instance, func(), error) {
	f.mu.Lock()
	settings := f.cfg.Models
	f.mu.Unlock()
	instance, release, status, err := f.roster.Use(id)
	if err != nil && !f.isGone(id) && settings.Autoload {
		patience, cancel := context.WithTimeout(ctx, time.Duration(settings.LoadWait))
		defer cancel()
		instance, release, status, err = f.roster.UseOrStart(patience, id)
	}
	if err != nil {
		if ctx.Err() != nil {
			return nil, nil, context.Cause(ctx)
		}
		return nil, nil, f.notServing(id, status, settings.Autoload, err)
	}
	return instance, release, nil
}

// Has implements dispatch.Models.
func (f *manager) Has(name string) bool {
	if _, ok := f.lookup(name); ok {
		return true
	}
	_, ok := f.adapterOf(name)
	return ok
}

// resolve returns the model that a client calls name and wants for one of some tasks. If name is that of an adapter, it
// is the adapter's model.
func (f *manager) resolve(ctx context.Context, name string, tasks []server.Task) (id library.ID, adapter string,
	err error) {
	if name == "" {
		return f.defaultFor(ctx, tasks), "", nil
	}
	if id, ok := f.lookup(name); ok {
		return id, "", nil
	}
	if id, ok := f.adapterOf(name); ok {
		return id, name, nil
	}
	f.mu.Lock()
	refuse := f.cfg.RefuseUnknown()
	f.mu.Unlock()
	if !refuse || dispatch.Placeholder(name) {
		return f.defaultFor(ctx, tasks), "", nil
	}
	return "", "", &server.NoModel{ID: name}
}

// lookup returns the id that name is, and whether there is such a model: one whose
// folder was made by hand a moment ago is found, too.
func (f *manager) lookup(name string) (library.ID, bool) {
	id, err := library.ParseID(name)
	if err != nil {
		return "", false
	}
	if _, ok := f.roster.Get(id); ok {
		return id, true
	}
	if !f.library.Has(id) || f.scan() != nil {
		return "", false
	}
	_, ok := f.roster.Get(id)
	return id, ok
}

// isGone says whether a model that was there is not any more, as when somebody
// removed its folder: then it cannot be loaded.
func (f *manager) isGone(id library.ID) bool {
	return !f.library.Has(id) && f.scan() == nil && !f.library.Has(id)
}

// notServing says what it means to a request that its model is not to be had. What
// went wrong when it was loaded is in the log, and the models API tells it.
func (f *manager) notServing(id library.ID, s lifecycle.Status, autoload bool, err error) error {
	now, ok := f.roster.Get(id)
	if ok {
		s = now
	}
	f.mu.Lock()
	awaited := f.preloading[id]
	f.mu.Unlock()
	e := &server.NotServing{ID: string(id), RetryAfter: untilStart}
	switch {
	case errors.Is(err, lifecycle.ErrClosed):
		return llm.ErrDraining
	case !ok, errors.Is(err, lifecycle.ErrUnknown), s.State == lifecycle.NotDownloaded:
		return &server.NoModel{ID: string(id)}
	case errors.Is(err, lifecycle.ErrState):
		e.Reason = "is being deleted"
	case errors.Is(err, lifecycle.ErrMemory):
		f.log.Warn("a model does not fit", "error", err)
		e.Needed, e.Free = f.shortfall(id)
	case s.State == lifecycle.Starting, s.State == lifecycle.Running, s.State == lifecycle.Downloading, awaited:
		e.Loading, e.RetryAfter = true, max(s.LoadTook, firstLoad)
	case s.State == lifecycle.Error:
		e.Reason = "could not be loaded"
	case s.Cause == lifecycle.Requested: // of a stop
	case !autoload && s.State == lifecycle.Downloaded:
		e.Reason = "is not loaded"
	case !autoload:
	// it comes back, or somebody else was quicker
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, lifecycle.ErrNotRunning):
		e.Loading, e.RetryAfter = true, max(s.LoadTook, firstLoad)
	default:
		f.log.Error("a model cannot be loaded", "model", id, "error", err)
		e.Reason = "could not be loaded"
	}
	return e
}
