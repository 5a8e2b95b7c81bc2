package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"tgi/models/library"
)

// Instance is a loaded model.
type Instance interface {
	// Stop refuses new work, waits for running work and frees the model's memory, even if
	// it returns an error. When ctx is done it aborts the work. It is called once.
	Stop(ctx context.Context) error
}

// Runner loads models.
type Runner interface {
	// Start loads a model. It may be called for different models at the same time. ctx
	// is for the load alone; when it is done, Start should return soon. After an error
	// nothing of the model is left in memory.
	Start(ctx context.Context, id library.ID) (Instance, error)
}

// Policy decides what happens if a model does not fit beside the running ones.
type Policy string

// The policies.
const (
	// Refuse fails the start.
	Refuse Policy = "refuse"
	// Evict stops idle models, least recently used first, if that frees enough memory.
	Evict Policy = "evict"
)

// Config of New.
type Config struct {
	Runner Runner
	// Estimate returns what a model will take in memory, in bytes. It is
	// called before each load, without locks held.
	Estimate func(library.ID) (int64, error)
	// Present reports whether the library has the model. It is called with the roster's
	// lock held, so it must be quick and must not call the roster.
	Present func(library.ID) bool
	// Remove deletes a model from the library.
	Remove func(library.ID) error
	// Budget limits the memory of all models together, in bytes; 0 is no limit.
	Budget int64
	// Policy is Refuse when empty.
	Policy Policy
	// Drain limits how long a stop waits for the model's users; 0 is 30 seconds.
	Drain time.Duration
	// Pulls limits the fetches at a time; 0 is 2.
	Pulls int
	// Observe, if set, receives every transition in order, one at a time. It must be
	// quick and must not call the roster.
	Observe func(Change)
}

// Options of one model.
type Options struct {
	// KeepAlive is how long an unused model stays loaded; 0 is forever.
	KeepAlive time.Duration
	// Declared models stay known when they are deleted.
	Declared bool
}

// Roster holds the models and their states. Its methods are safe for concurrent use.
type Roster struct {
	cfg Config

	mu      sync.Mutex
	models  map[library.ID]*model
	order   []library.ID  // in which models were added
	changed chan struct{} // closed and replaced at every change
	closing bool
	pulls   int
	// reserved is the memory of models that start or run, allocated that of models in memory.
	reserved, allocated int64
	tasks               sync.WaitGroup
}

// model is one row of the roster. The roster's lock guards it.
type model struct {
	Status
	opt       Options
	present   bool // the library has it, as far as known
	instance  Instance
	loaded    bool // its memory is in Roster.allocated
	loadCount int  // tells uses of this load from uses of an earlier one
	deleting  bool
	keep      *time.Duration // opt.KeepAlive until the model is unloaded, where Keep said so
	waiters   int            // calls of UseOrStart that wait for it to run
	idle      *time.Timer
	cancel    context.CancelCauseFunc // of a fetch or a load
	start     *Pending
	stop      *Pending
	pull      *Pending
}

// New returns an empty roster.
func New(cfg Config) (*Roster, error) {
	if cfg.Runner == nil || cfg.Estimate == nil || cfg.Present == nil || cfg.Remove == nil {
		return nil, errors.New("lifecycle: Runner, Estimate, Present and Remove must be set")
	}
	if cfg.Policy == "" {
		cfg.Policy = Refuse
	}
	if cfg.Policy != Refuse && cfg.Policy != Evict {
		return nil, fmt.Errorf("lifecycle: policy %q, want %q or %q", cfg.Policy, Refuse, Evict)
	}
	if cfg.Budget < 0 || cfg.Drain < 0 || cfg.Pulls < 0 {
		return nil, fmt.Errorf("lifecycle: budget %d, drain %s, pulls %d: want none below 0", cfg.Budget, cfg.Drain,
			cfg.Pulls)
	}
	if cfg.Drain == 0 {
		cfg.Drain = 30 * time.Second
	}
	if cfg.Pulls == 0 {
		cfg.Pulls = 2
	}
	return &Roster{cfg: cfg, models: map[library.ID]*model{}, changed: make(chan struct{})}, nil
}

// Add makes a model known, or replaces the options of a known one. Config.Present tells
// whether the library has it.
func (r *Roster) Add(id library.ID, opt Options) {
	r.mu.Lock()
	defer r.mu.Unlock()
	m := r.add(id)
	m.opt, m.Declared = opt, opt.Declared
	if m.State == Running && m.Uses == 0 {
		r.watchIdle(m)
	}
}

// add returns the row of a model and creates it if there is none.
func (r *Roster) add(id library.ID) *model {
	if m, ok := r.models[id]; ok {
		return m
	}
	m := &model{Status: Status{ID: id, State: NotDownloaded, Since: time.Now()}, present: r.cfg.Present(id)}
	if m.present {
		m.State = Downloaded
	}
	r.models[id] = m
	r.order = append(r.order, id)
	r.broadcast()
	return m
}

// forget removes a row.
func (r *Roster) forget(m *model) {
	delete(r.models, m.ID)
	r.order = slices.DeleteFunc(r.order, func(id library.ID) bool { return id == m.ID })
	r.broadcast()
}

// Get returns a model's status; ok is false if the model is not known.
func (r *Roster) Get(id library.ID) (s Status, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	m, ok := r.models[id]
	if !ok {
		return Status{}, false
	}
	return m.Status, true
}

// All returns every model's status at one moment, in order of ids.
func (r *Roster) All() []Status {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := make([]Status, 0, len(r.models))
	for _, id := range slices.Sorted(maps.Keys(r.models)) {
		out = append(out, r.models[id].Status)
	}
	return out
}

// Memory returns the bytes reserved for models that start or run, and the budget; 0 is none.
func (r *Roster) Memory() (reserved, budget int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.reserved, r.cfg.Budget
}

// find returns a row, or an error if no operation is allowed on it.
func (r *Roster) find(id library.ID) (*model, error) {
	m, ok := r.models[id]
	if !ok {
		return nil, fmt.Errorf("model %s: %w", id, ErrUnknown)
	}
	if r.closing {
		return nil, fmt.Errorf("model %s: %w", id, ErrClosed)
	}
	if m.deleting {
		return nil, fmt.Errorf("model %s: %w: it is being deleted", id, ErrState)
	}
	return m, nil
}

// stateError is the error of an operation that the state does not allow.
func (m *model) stateError(what string) error {
	return fmt.Errorf("model %s: %w: it is %s and cannot be %s", m.ID, ErrState, m.State, what)
}

// transition changes the state of a model. Nothing else does.
func (r *Roster) transition(m *model, state State, err error) {
	if !m.State.CanBecome(state) {
		panic(fmt.Sprintf("BUG: lifecycle: model %s from %s to %s", m.ID, m.State, state))
	}
	c := Change{ID: m.ID, From: m.State, To: state, At: time.Now(), Err: err}
	m.State, m.Since, m.Err = state, c.At, err
	if r.cfg.Observe != nil {
		r.cfg.Observe(c)
	}
	r.broadcast()
}

func (r *Roster) broadcast() {
	close(r.changed)
	r.changed = make(chan struct{})
}

// wait waits until cond is true. The lock is held on entry and on return.
func (r *Roster) wait(ctx context.Context, cond func() bool) error {
	for !cond() {
		changed := r.changed
		r.mu.Unlock()
		var err error
		select {
		case <-changed:
		case <-ctx.Done():
			err = context.Cause(ctx)
		}
		r.mu.Lock()
		if err != nil {
			return err
		}
	}
	return nil
}

// Pending is an operation in progress.
type Pending struct {
	done chan struct{}
	err  error
}

func newPending() *Pending { return &Pending{done: make(chan struct{})} }

func (p *Pending) finish(err error) {
	p.err = err
	close(p.done)
}

// Done returns a channel that is closed when the operation has ended.
func (p *Pending) Done() <-chan struct{} { return p.done }

// Wait waits for the operation and returns its error. When ctx is done, Wait returns its
// cause and the operation continues.
func (p *Pending) Wait(ctx context.Context) error {
	select {
	case <-p.done:
		return p.err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Close cancels fetches, stops all models and waits until that is done or ctx is done.
// Afterwards nothing new starts. It may be called again to continue waiting.
func (r *Roster) Close(ctx context.Context) error {
	r.mu.Lock()
	r.closing = true
	for _, m := range r.models {
		switch m.State {
		case Downloading:
			m.cancel(ErrClosed)
		case Starting, Running:
			r.beginStop(m, Closing)
		}
	}
	r.mu.Unlock()
	done := make(chan struct{})
	go func() {
		r.tasks.Wait()
		close(done)
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Check verifies the invariants of the roster: the sums match the rows and fit into the budget,
// and only running and stopping models have instances. Tests call it; an error is a bug.
func (r *Roster) Check() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	var reserved, allocated int64
	pulls := 0
	for _, m := range r.models {
		switch m.State {
		case Starting, Running:
			reserved += m.Status.Memory
		case Downloading:
			pulls++
		}
		if m.loaded {
			allocated += m.Status.Memory
		}
		up := m.State == Running || m.State == Stopping && m.instance != nil
		if (m.instance != nil) != up || m.Uses < 0 || m.Uses > 0 && m.instance == nil {
			return fmt.Errorf("model %s: %s with instance %v and %d uses", m.ID, m.State, m.instance != nil, m.Uses)
		}
	}
	if reserved != r.reserved || allocated != r.allocated || pulls != r.pulls {
		return fmt.Errorf("promised %d, taken %d, fetches %d; want %d, %d, %d", r.reserved, r.allocated, r.pulls,
			reserved, allocated, pulls)
	}
	if b := r.cfg.Budget; b > 0 && (reserved > b || allocated > b) {
		return fmt.Errorf("promised %d, taken %d: the budget is %d", reserved, allocated, b)
	}
	return nil
}
