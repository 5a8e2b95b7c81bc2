package lifecycle

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"tgi/models/library"
)

// Start begins to load a model and returns without waiting for it. It reserves memory
// before it returns; ErrMemory has changed nothing. For a model that is starting already
// it returns that start. A model that runs, or is in another state that does not allow a
// start, gives ErrState.
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
	// The state may have changed while the lock was released.
	if p, err := r.startable(id); p != nil || err != nil {
		return p, err
	}
	if need < 0 {
		return nil, fmt.Errorf("model %s: estimate of %d bytes", id, need)
	}
	m := r.models[id]
	if err := r.evictFor(m, need); err != nil {
		return nil, err
	}
	m.Memory, m.Cause = need, ""
	r.reserved += need
	ctx, cancel := context.WithCancelCause(context.Background())
	m.cancel, m.start = cancel, newPending()
	r.transition(m, Starting, nil)
	r.tasks.Go(func() { r.load(ctx, m) })
	return m.start, nil
}

// startable returns the start in progress, if any, or an error if none may begin.
func (r *Roster) startable(id library.ID) (*Pending, error) {
	m, err := r.find(id)
	switch {
	case err != nil:
		return nil, err
	case m.State == Starting:
		return m.start, nil
	case m.State == NotDownloaded:
		return nil, fmt.Errorf("model %s: %w: it is %s: the models folder does not have it; pull it, or name its path or "+
			"source in the settings", m.ID, ErrState, m.State)
	case !m.State.CanBecome(Starting) || !m.present:
		return nil, m.stateError("started")
	}
	return nil, nil
}

// evictFor evicts idle models until need bytes fit, or changes nothing.
func (r *Roster) evictFor(m *model, need int64) error {
	budget := r.cfg.Budget
	if budget == 0 || need <= budget-r.reserved {
		return nil
	}
	fail := func(more string) error {
		return fmt.Errorf("model %s: %w: it needs %d bytes, %d of %d are free%s", m.ID, ErrMemory, need,
			budget-r.reserved, budget, more)
	}
	if r.cfg.Policy == Refuse || need > budget {
		return fail("")
	}
	var idle []*model
	for _, other := range r.models {
		if other.State == Running && other.Uses == 0 && other.waiters == 0 {
			idle = append(idle, other)
		}
	}
	slices.SortFunc(idle, func(a, b *model) int {
		return cmp.Or(a.LastUse.Compare(b.LastUse), strings.Compare(string(a.ID), string(b.ID)))
	})
	free := budget - r.reserved
	for i, other := range idle {
		if free += other.Memory; free >= need {
			for _, victim := range idle[:i+1] {
				r.beginStop(victim, Evicted)
			}
			return nil
		}
	}
	return fail(fmt.Sprintf(", %d with idle models unloaded", free))
}

// load waits until the reserved memory is free, loads the model and records the result.
func (r *Roster) load(ctx context.Context, m *model) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var instance Instance
	var took time.Duration
	err := r.wait(ctx, func() bool { return r.cfg.Budget == 0 || r.allocated+m.Memory <= r.cfg.Budget })
	if err == nil {
		m.loaded = true
		r.allocated += m.Memory
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
		m.loadCount++
		r.transition(m, Running, nil)
		r.watchIdle(m)
		pending.finish(nil)
		return
	}
	if m.State == Starting {
		r.reserved -= m.Memory
		r.releaseMemory(m)
		err = fmt.Errorf("model %s: start: %w", m.ID, err)
		r.transition(m, Error, err)
		pending.finish(err)
		return
	}
	// Stopping: Stop was called meanwhile. The model may have been loaded all the same.
	pending.finish(fmt.Errorf("model %s: %w while it started", m.ID, ErrStopped))
	m.instance = instance
	r.unload(m)
}

// releaseMemory subtracts a model from the allocated memory.
func (r *Roster) releaseMemory(m *model) {
	if m.loaded {
		m.loaded = false
		r.allocated -= m.Memory
	}
	m.Memory, m.instance, m.cancel = 0, nil, nil
	r.broadcast()
}
