package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"tgi/models/library"
)

// Use returns a model that runs. It is not unloaded, other than at the end of
// Config.Drain, until release is called; that may be done twice. A model that
// does not run gives ErrNotRunning and its status.
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
	instance, load := m.instance, m.loads
	release = sync.OnceFunc(func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		if m.instance == nil || m.loads != load { // cut off at the end of a drain
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

// UseOrStart is Use for a model that may have to be loaded first: one that was
// not loaded yet, or was unloaded because it was idle or another needed its
// memory. It waits for the load, and the model does not go as an idle one before it was used. A model
// that was stopped on request, or whose last start failed, stays as it is.
func (r *Roster) UseOrStart(ctx context.Context, id library.ID) (_ Instance, release func(), _ Status, _ error) {
	defer r.await(id)()
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
			if startErr == nil || errors.Is(startErr, ErrState) { // ErrState: it is in another by now
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

// await counts somebody who is about to use a model until the returned function is called. A model that was loaded
// for who waits would else be idle until that goroutine runs, and two models that do not fit together could evict each
// other without end.
func (r *Roster) await(id library.ID) (over func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	m, ok := r.models[id]
	if !ok {
		return func() {}
	}
	m.awaited++
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		if m.awaited--; m.awaited == 0 && m.Uses == 0 && m.State == Running { // it gave up
			r.watchIdle(m)
		}
	}
}
