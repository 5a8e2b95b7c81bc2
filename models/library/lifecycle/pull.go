package lifecycle

import (
	"context"
	"fmt"
	"slices"

	"tgi/models/library"
)

// Pull begins to bring a model into the library and returns without waiting
// for it. The model need not be known before. fetch does the work; it tells
// report the bytes that are there and those in all (0: not known), and ends when ctx does. A model that is
// there, or on its way, gives ErrState; ErrBusy says that Config.Pulls run already.
func (r *Roster) Pull(id library.ID, fetch func(ctx context.Context, report func(done, total int64)) error) (*Pending, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closing {
		return nil, fmt.Errorf("model %s: %w", id, ErrClosed)
	}
	if r.pulls >= r.cfg.Pulls {
		return nil, fmt.Errorf("model %s: %w: %d run, at most %d may", id, ErrBusy, r.pulls, r.cfg.Pulls)
	}
	m := r.add(id)
	switch {
	case m.removing:
		return nil, fmt.Errorf("model %s: %w: it is being deleted", id, ErrState)
	case !m.State.To(Downloading) || m.present:
		return nil, m.wrong("downloaded")
	}
	r.pulls++
	ctx, cancel := context.WithCancelCause(context.Background())
	pending := newPending()
	m.cancel, m.pull = cancel, pending
	m.Done, m.Total = 0, 0
	r.to(m, Downloading, nil)
	r.tasks.Go(func() {
		err := fetch(ctx, func(done, total int64) {
			r.mu.Lock()
			defer r.mu.Unlock()
			m.Done, m.Total = done, total
		})
		r.mu.Lock()
		defer r.mu.Unlock()
		pending.finish(r.pulled(ctx, m, err))
		cancel(nil)
	})
	return pending, nil
}

// pulled notes how a fetch ended and returns that.
func (r *Roster) pulled(ctx context.Context, m *model, err error) error {
	r.pulls--
	m.cancel, m.pull = nil, nil
	m.present = r.cfg.Present(m.ID)
	switch {
	case m.present: // also when it was whole before a cancellation was heard
		r.to(m, Downloaded, nil)
		return nil
	case ctx.Err() != nil:
		r.to(m, NotDownloaded, nil)
		return fmt.Errorf("model %s: %w", m.ID, context.Cause(ctx))
	case err == nil:
		err = fmt.Errorf("model %s: the download ended without a model", m.ID)
	}
	r.to(m, Error, err)
	return err
}

// CancelPull ends a fetch; what has arrived is kept for the next. The result is
// that of the fetch: ErrStopped, unless it had ended before.
func (r *Roster) CancelPull(id library.ID) (*Pending, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	m, err := r.find(id)
	if err != nil {
		return nil, err
	}
	if m.State != Downloading {
		return nil, m.wrong("cancelled")
	}
	m.cancel(ErrStopped)
	return m.pull, nil
}

// Delete removes a model from the library, and what is left of a fetch. A
// model that is being fetched or is in memory gives ErrState.
func (r *Roster) Delete(id library.ID) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	m, err := r.find(id)
	if err != nil {
		return err
	}
	if m.State != NotDownloaded && !m.State.To(NotDownloaded) || m.State == Downloading {
		return m.wrong("deleted")
	}
	m.removing = true
	r.mu.Unlock()
	err = r.cfg.Remove(id)
	r.mu.Lock()
	m.removing = false
	r.broadcast()
	if m.present = r.cfg.Present(id); !m.present {
		r.vanish(m)
	}
	return err
}

// vanish notes that a model is not in the library any more.
func (r *Roster) vanish(m *model) {
	m.present = false
	m.Done, m.Total, m.Cause = 0, 0, ""
	if m.State != NotDownloaded {
		r.to(m, NotDownloaded, nil)
	}
	if !m.Declared {
		r.forget(m)
	}
}

// Sync brings the roster up to what was found in the library: models that
// somebody put there are added, those that went are dropped or become
// NotDownloaded. Models that are in memory or being fetched are left alone.
func (r *Roster) Sync(found []library.ID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, id := range found {
		if _, known := r.models[id]; !known && !r.cfg.Present(id) { // the list is older than a deletion
			continue
		}
		m := r.add(id)
		if !m.present && m.State.To(Downloaded) && m.State != Downloading && r.cfg.Present(id) {
			m.present = true
			r.to(m, Downloaded, nil)
		}
	}
	for _, id := range slices.Clone(r.order) {
		m := r.models[id]
		settled := m.State == Downloaded || m.State == Stopped || m.State == Error && m.present
		// The list may be older than what happened since; the folder is not.
		if settled && !m.removing && !slices.Contains(found, id) && !r.cfg.Present(id) {
			r.vanish(m)
		}
	}
}
