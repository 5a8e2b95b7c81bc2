package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"time"

	"tgi/models/library"
)

// Stop begins to unload a model and returns without waiting for it. The model takes no
// new work from now on; running work has Config.Drain to finish. A start in progress is
// cancelled. For a model that is stopping already it returns that stop. Any other state
// gives ErrState.
func (r *Roster) Stop(id library.ID) (*Pending, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	m, err := r.find(id)
	if err != nil {
		return nil, err
	}
	switch m.State {
	case Stopping:
		m.Cause = Requested // so UseOrStart does not start it again
		return m.stop, nil
	case Starting, Running:
		return r.beginStop(m, Requested), nil
	}
	return nil, m.stateError("stopped")
}

// beginStop stops a model that starts or runs.
func (r *Roster) beginStop(m *model, cause Cause) *Pending {
	starts := m.State == Starting
	r.reserved -= m.Memory
	m.Cause, m.stop = cause, newPending()
	if m.idle != nil {
		m.idle.Stop()
	}
	r.transition(m, Stopping, nil)
	if starts {
		m.cancel(ErrStopped) // load continues with unload
		return m.stop
	}
	pending := m.stop
	r.tasks.Go(func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.unload(m)
	})
	return pending
}

// unload waits for the model's users, stops its instance, if it has one, and frees the
// memory. The lock is held on entry and on return.
func (r *Roster) unload(m *model) {
	ctx, cancel := context.WithTimeout(context.Background(), r.cfg.Drain)
	defer cancel()
	var err error
	if m.instance != nil {
		if r.wait(ctx, func() bool { return m.Uses == 0 }) != nil {
			err = fmt.Errorf("%d uses were cut off after %s", m.Uses, r.cfg.Drain)
		}
		instance := m.instance
		r.mu.Unlock()
		stopErr := instance.Stop(ctx)
		r.mu.Lock()
		err = errors.Join(err, stopErr)
	}
	// Users that were cut off may still release their use; it no longer counts.
	m.Uses, m.keep = 0, nil
	r.releaseMemory(m)
	pending := m.stop
	m.stop = nil
	if err != nil {
		err = fmt.Errorf("model %s: stop: %w", m.ID, err)
		r.transition(m, Error, err)
	} else {
		r.transition(m, Stopped, nil)
	}
	pending.finish(err)
}

// watchIdle starts the timer that unloads an unused model after its KeepAlive.
func (r *Roster) watchIdle(m *model) {
	if m.idle != nil {
		m.idle.Stop()
	}
	keep, ends := m.keeps()
	if !ends {
		return
	}
	m.idle = time.AfterFunc(keep-time.Since(m.LastUse), func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		// A use that began and ended while the timer fired has started its own timer.
		keep, ends := m.keeps()
		if !r.closing && m.State == Running && m.Uses == 0 && m.waiters == 0 && ends && time.Since(m.LastUse) >= keep {
			r.beginStop(m, Idle)
		}
	})
}

// keeps returns how long the model stays loaded when nobody uses it, unless that has no end.
func (m *model) keeps() (d time.Duration, ends bool) {
	if m.keep != nil {
		return *m.keep, *m.keep >= 0
	}
	return m.opt.KeepAlive, m.opt.KeepAlive > 0
}

// Keep sets how long a model that runs stays loaded when nobody uses it, until it is unloaded: 0 unloads it as soon as
// nobody does, less than 0 never. Of a model that does not run nothing is kept.
func (r *Roster) Keep(id library.ID, d time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	m, err := r.find(id)
	if err != nil || m.State != Running {
		return
	}
	m.keep = &d
	if m.Uses == 0 {
		r.watchIdle(m)
	}
}

// Expires returns when a model that runs is unloaded if nobody uses it any more, unless that has no end.
func (r *Roster) Expires(id library.ID) (at time.Time, ends bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	m, err := r.find(id)
	if err != nil || m.State != Running {
		return time.Time{}, false
	}
	keep, ends := m.keeps()
	if m.Uses > 0 {
		return time.Now().Add(keep), ends
	}
	return m.LastUse.Add(keep), ends
}
