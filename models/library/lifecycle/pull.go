package lifecycle

import (
	"context"
	"fmt"
	"slices"

	"tgi/models/library"
)

// Pull begins to fetch a model into the library and returns without waiting for it. The
// model need not be known before. fetch does the work: it calls report with the bytes
// done and the total (0 if not known), and returns when ctx is done. A model that is in
// the library, or being fetched, gives ErrState; ErrBusy says that Config.Pulls fetches
// are running.
func (r *Roster) Pull(id library.ID, fetch func(ctx context.Context, report func(done, total int64)) error) (*Pending,
	error) {
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
	case m.deleting:
		return nil, fmt.Errorf("model %s: %w: it is being deleted", id, ErrState)
	case !m.State.CanBecome(Downloading) || m.present:
		return nil, m.stateError("downloaded")
	}
	r.pulls++
	ctx, cancel := context.WithCancelCause(context.Background())
	pending := newPending()
	m.cancel, m.pull = cancel, pending
	m.Done, m.Total = 0, 0
	r.transition(m, Downloading, nil)
	r.tasks.Go(func() {
		err := fetch(ctx, func(done, total int64) {
			r.mu.Lock()
			defer r.mu.Unlock()
			m.Done, m.Total = done, total
		})
		r.mu.Lock()
		defer r.mu.Unlock()
		pending.finish(r.finishPull(ctx, m, err))
		cancel(nil)
	})
	return pending, nil
}

// finishPull records the result of a fetch and returns it.
func (r *Roster) finishPull(ctx context.Context, m *model, err error) error {
	r.pulls--
	m.cancel, m.pull = nil, nil
	m.present = r.cfg.Present(m.ID)
	switch {
	case m.present: // even if it was cancelled just after it had completed
		r.transition(m, Downloaded, nil)
		return nil
	case ctx.Err() != nil:
		r.transition(m, NotDownloaded, nil)
		return fmt.Errorf("model %s: %w", m.ID, context.Cause(ctx))
	case err == nil:
		err = fmt.Errorf("model %s: the download ended without a model", m.ID)
	}
	r.transition(m, Error, err)
	return err
}

// CancelPull cancels a fetch; what has arrived is kept for the next one. The result is
// that of the fetch: ErrStopped, unless it had ended before.
func (r *Roster) CancelPull(id library.ID) (*Pending, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	m, err := r.find(id)
	if err != nil {
		return nil, err
	}
	if m.State != Downloading {
		return nil, m.stateError("cancelled")
	}
	m.cancel(ErrStopped)
	return m.pull, nil
}

// Delete removes a model, and the remains of a fetch, from the library. A model that is
// being fetched or is in memory gives ErrState.
func (r *Roster) Delete(id library.ID) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	m, err := r.find(id)
	if err != nil {
		return err
	}
	if m.State != NotDownloaded && !m.State.CanBecome(NotDownloaded) || m.State == Downloading {
		return m.stateError("deleted")
	}
	m.deleting = true
	r.mu.Unlock()
	err = r.cfg.Remove(id)
	r.mu.Lock()
	m.deleting = false
	r.broadcast()
	if m.present = r.cfg.Present(id); !m.present {
		r.markMissing(m)
	}
	return err
}

// markMissing records that a model is no longer in the library.
func (r *Roster) markMissing(m *model) {
	m.present = false
	m.Done, m.Total, m.Cause = 0, 0, ""
	if m.State != NotDownloaded {
		r.transition(m, NotDownloaded, nil)
	}
	if !m.Declared {
		r.forget(m)
	}
}

// Sync updates the roster to the models found in the library: new ones are added, and
// missing ones are removed or become NotDownloaded. Models that are in memory or being
// fetched are left alone.
func (r *Roster) Sync(found []library.ID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, id := range found {
		if _, known := r.models[id]; !known && !r.cfg.Present(id) { // deleted after the list was made
			continue
		}
		m := r.add(id)
		if !m.present && m.State.CanBecome(Downloaded) && m.State != Downloading && r.cfg.Present(id) {
			m.present = true
			r.transition(m, Downloaded, nil)
		}
	}
	for _, id := range slices.Clone(r.order) {
		m := r.models[id]
		settled := m.State == Downloaded || m.State == Stopped || m.State == Error && m.present
		// The list may be out of date; Present is not.
		if settled && !m.deleting && !slices.Contains(found, id) && !r.cfg.Present(id) {
			r.markMissing(m)
		}
	}
}
