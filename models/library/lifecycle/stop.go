package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"time"

	"tgi/models/library"
)

// Stop begins to unload a model and returns without waiting for it. The model
// takes no new work from now on; what runs is waited for, up to Config.Drain. A
// start that goes on is given up. Of a model that stops already, the result is
// that stop. Any other state gives ErrState.
func (r *Roster) Stop(id library.ID) (*Pending, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	m, err := r.find(id)
	if err != nil {
		return nil, err
	}
	switch m.State {
	case Stopping:
		m.Cause = Requested // it is not to come back by itself
		return m.stop, nil
	case Starting, Running:
		return r.beginStop(m, Requested, nil), nil
	}
	return nil, m.wrong("stopped")
}

// Fail unloads a model that runs but no longer works. It ends in Error with
// err. In other states it does nothing.
func (r *Roster) Fail(id library.ID, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if m, ok := r.models[id]; ok && m.State == Running {
		r.beginStop(m, Failed, err)
	}
}

// beginStop stops a model that starts or runs. failure, when not nil, makes it end in Error.
func (r *Roster) beginStop(m *model, cause Cause, failure error) *Pending {
	starts := m.State == Starting
	r.promised -= m.Memory
	m.Cause, m.failure, m.stop = cause, failure, newPending()
	if m.idle != nil {
		m.idle.Stop()
	}
	r.to(m, Stopping, nil)
	if starts {
		m.cancel(ErrStopped) // load goes on to unload
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

// unload waits for those who use the model, stops its instance, if it has one, and
// frees the memory. The lock is held when it is called and when it returns.
func (r *Roster) unload(m *model) {
	ctx, cancel := context.WithTimeout(context.Background(), r.cfg.Drain)
	defer cancel()
	err := m.failure
	if m.instance != nil {
		if waited := r.wait(ctx, func() bool { return m.Uses == 0 }); waited != nil && err == nil {
			err = fmt.Errorf("%d uses were cut off after %s", m.Uses, r.cfg.Drain)
		}
		instance := m.instance
		r.mu.Unlock()
		stopErr := instance.Stop(ctx)
		r.mu.Lock()
		err = errors.Join(err, stopErr)
	}
	// Those who were cut off may still give their use back; it counts no more.
	m.Uses = 0
	r.freed(m)
	pending := m.stop
	m.stop, m.failure = nil, nil
	if err != nil {
		err = fmt.Errorf("model %s: stop: %w", m.ID, err)
		r.to(m, Error, err)
	} else {
		r.to(m, Stopped, nil)
	}
	pending.finish(err)
}

// watchIdle unloads a model that nobody uses when its KeepAlive is over.
func (r *Roster) watchIdle(m *model) {
	if m.idle != nil {
		m.idle.Stop()
	}
	keep := m.opt.KeepAlive
	if keep <= 0 {
		return
	}
	m.idle = time.AfterFunc(keep-time.Since(m.LastUse), func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		// A use that came and went while the timer fired has set a timer of its own.
		if !r.closing && m.State == Running && m.Uses == 0 && m.awaited == 0 && time.Since(m.LastUse) >= m.opt.KeepAlive && m.opt.KeepAlive > 0 {
			r.beginStop(m, Idle, nil)
		}
	})
}
