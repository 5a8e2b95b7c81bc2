package lifecycle

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"tgi/models/library"
)

// Start begins to load a model and returns without waiting for it. Whether
// there is memory for it is decided before it returns: ErrMemory has changed nothing. Of a model
// that starts already, the result is that start. A model that runs, or is in a
// state that cannot be started from, gives ErrState.
func (r *Roster) Start(id library.ID) (*Pending, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if p, err := r.startable(id); p != nil || err != nil {
		return p, err
	}
	r.mu.Unlock()
	need, err := r.cfg.Estimate(id)
	r.mu.Lock()
	if err != nil {
		return nil, fmt.Errorf("model %s: %w", id, err)
	}
	// Meanwhile anything may have happened.
	if p, err := r.startable(id); p != nil || err != nil {
		return p, err
	}
	if need < 0 {
		return nil, fmt.Errorf("model %s: estimate of %d bytes", id, need)
	}
	m := r.models[id]
	if err := r.makeRoom(m, need); err != nil {
		return nil, err
	}
	m.Memory, m.Cause = need, ""
	r.promised += need
	ctx, cancel := context.WithCancelCause(context.Background())
	m.cancel, m.start = cancel, newPending()
	r.to(m, Starting, nil)
	r.tasks.Go(func() { r.load(ctx, m) })
	return m.start, nil
}

// startable returns the start that goes on already, or an error when none may begin.
func (r *Roster) startable(id library.ID) (*Pending, error) {
	m, err := r.find(id)
	switch {
	case err != nil:
		return nil, err
	case m.State == Starting:
		return m.start, nil
	case !m.State.To(Starting) || !m.present:
		return nil, m.wrong("started")
	}
	return nil, nil
}

// makeRoom makes the promise of need bytes possible, or changes nothing.
func (r *Roster) makeRoom(m *model, need int64) error {
	budget := r.cfg.Budget
	if budget == 0 || need <= budget-r.promised {
		return nil
	}
	fail := func(more string) error {
		return fmt.Errorf("model %s: %w: it needs %d bytes, %d of %d are free%s", m.ID, ErrMemory, need, budget-r.promised, budget, more)
	}
	if r.cfg.Policy == Refuse || need > budget {
		return fail("")
	}
	var idle []*model
	for _, other := range r.models {
		if other.State == Running && other.Uses == 0 && other.awaited == 0 {
			idle = append(idle, other)
		}
	}
	slices.SortFunc(idle, func(a, b *model) int {
		return cmp.Or(a.LastUse.Compare(b.LastUse), strings.Compare(string(a.ID), string(b.ID)))
	})
	free := budget - r.promised
	for i, other := range idle {
		if free += other.Memory; free >= need {
			for _, victim := range idle[:i+1] {
				r.beginStop(victim, Evicted, nil)
			}
			return nil
		}
	}
	return fail(fmt.Sprintf(", %d with idle models unloaded", free))
}

// load waits for the memory that was promised, loads, and notes the outcome.
func (r *Roster) load(ctx context.Context, m *model) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var instance Instance
	var took time.Duration
	err := r.wait(ctx, func() bool { return r.cfg.Budget == 0 || r.taken+m.Memory <= r.cfg.Budget })
	if err == nil {
		m.loaded = true
		r.taken += m.Memory
		r.mu.Unlock()
		begin := time.Now()
		instance, err = r.cfg.Runner.Start(ctx, m.ID)
		took = time.Since(begin)
		r.mu.Lock()
	}
	pending := m.start
	m.start = nil
	if m.State == Starting && err == nil {
		m.instance, m.LastUse, m.LoadTook = instance, time.Now(), took
		m.loads++
		r.to(m, Running, nil)
		r.watchIdle(m)
		pending.finish(nil)
		return
	}
	if m.State == Starting {
		r.promised -= m.Memory
		r.freed(m)
		err = fmt.Errorf("model %s: start: %w", m.ID, err)
		r.to(m, Error, err)
		pending.finish(err)
		return
	}
	// Stopping: it was told to stop meanwhile. The model may have been loaded all the same.
	pending.finish(fmt.Errorf("model %s: %w while it started", m.ID, ErrStopped))
	m.instance = instance
	r.unload(m)
}

// freed takes a model out of the memory that is taken.
func (r *Roster) freed(m *model) {
	if m.loaded {
		m.loaded = false
		r.taken -= m.Memory
	}
	m.Memory, m.instance, m.cancel = 0, nil, nil
	r.broadcast()
}

// Preload starts the models that are to be there from the beginning, one after another in
// the order in which they were added. A model that fails does not keep the
// others from starting; the errors are joined.
func (r *Roster) Preload(ctx context.Context) error {
	r.mu.Lock()
	ids := slices.DeleteFunc(slices.Clone(r.order), func(id library.ID) bool { return !r.models[id].opt.Preload })
	r.mu.Unlock()
	var errs []error
	for _, id := range ids {
		p, err := r.Start(id)
		if err == nil {
			err = p.Wait(ctx)
		}
		if s, _ := r.Get(id); err != nil && s.State != Running { // who was quicker did as well
			errs = append(errs, err)
		}
		if ctx.Err() != nil {
			break
		}
	}
	return errors.Join(errs...)
}
