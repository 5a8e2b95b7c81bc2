package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"tgi/models/library"
)

// Use returns a running model. Until release is called the model is not unloaded, except
// when Config.Drain has passed after a Stop. release may be called twice. A model that
// is not running gives ErrNotRunning and its status.
func (r *Roster) Use(id library.ID) (_ Instance, release func(), _ Status, _ error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	m, err := r.find(id)
	if err != nil {
		return nil, nil, Status{}, err
	}
	if m.State != Running {
		return nil, nil, m.Status, fmt.Errorf("model %s: %w: it is %s", id, ErrNotRunning, m.State)
	}
	m.Uses++
	m.LastUse = time.Now()
	instance, load := m.instance, m.loadCount
	release = sync.OnceFunc(func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		if m.instance == nil || m.loadCount != load { // cut off at the end of a drain
			return
		}
		m.Uses--
		m.LastUse = time.Now()
		if m.Uses == 0 && m.State == Running {
			r.watchIdle(m)
		}
		r.broadcast()
	})
	return instance, release, m.Status, nil
}

// UseOrStart is Use for a model that may have to be loaded first: one that was not loaded
// yet, or was unloaded because it was idle or evicted. It waits for the load, and the
// model is not unloaded as idle before it is used. A model that was stopped on request,
// or whose last start failed, is not started.
func (r *Roster) UseOrStart(ctx context.Context, id library.ID) (_ Instance, release func(), _ Status, _ error) {
	defer r.addWaiter(id)()
	for {
		instance, release, status, err := r.Use(id)
		if err == nil || status.State == "" {
			return instance, release, status, err
		}
		switch {
		case status.State == Downloaded || status.State == Starting,
			status.State == Stopped && (status.Cause == Idle || status.Cause == Evicted):
			p, startErr := r.Start(id)
			if startErr == nil {
				startErr = p.Wait(ctx)
			}
			if startErr == nil || errors.Is(startErr, ErrState) { // ErrState: its state has changed meanwhile
				continue
			}
			return nil, nil, status, startErr
		case status.State == Stopping && (status.Cause == Idle || status.Cause == Evicted):
			r.mu.Lock()
			waitErr := r.wait(ctx, func() bool { m, ok := r.models[id]; return !ok || m.State != Stopping })
			r.mu.Unlock()
			if waitErr != nil {
				return nil, nil, status, waitErr
			}
		default:
			return nil, nil, status, err
		}
	}
}

// addWaiter registers a caller that is about to use a model, until the returned function
// is called. Otherwise a model that was loaded for a waiting caller would count as idle
// until that goroutine runs, and two models that do not fit together could evict each
// other forever.
func (r *Roster) addWaiter(id library.ID) (over func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	m, ok := r.models[id]
	if !ok {
		return func() {}
	}
	m.waiters++
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		if m.waiters--; m.waiters == 0 && m.Uses == 0 && m.State == Running { // the caller gave up
			r.watchIdle(m)
		}
	}
}
