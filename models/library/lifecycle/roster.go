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
	// Stop refuses new work, ends what runs and frees the model's memory, also
	// when it returns an error. When ctx ends, work is cut off. It is called once.
	Stop(ctx context.Context) error
}

// Runner loads models.
type Runner interface {
	// Start loads a model. It is called for different models at the same time.
	// ctx is for the load alone; when it ends, Start should give up soon. After an
	// error nothing is left in memory.
	Start(ctx context.Context, id library.ID) (Instance, error)
}

// Policy says what happens when a model does not fit beside those that run.
type Policy string

// The policies.
const (
	// Refuse fails the start.
	Refuse Policy = "refuse"
	// Evict stops idle models, least recently used first, when that makes enough room.
	Evict Policy = "evict"
)

// Config of New.
type Config struct {
	Runner Runner
	// Estimate returns what a model will take in memory, in bytes. It is
	// called before each load, without locks held.
	Estimate func(library.ID) (int64, error)
	// Present tells whether the library has the model. It must be quick.
	Present func(library.ID) bool
	// Remove deletes a model from the library.
	Remove func(library.ID) error
	// Budget bounds the memory of all models together, in bytes; 0 is no bound.
	Budget int64
	// Policy is Refuse when empty.
	Policy Policy
	// Drain bounds how long a stop waits for those who use the model; 0 is 30 seconds.
	Drain time.Duration
	// Pulls bounds the fetches at a time; 0 is 2.
	Pulls int
	// Observe, when set, is told of every transition, one after another and in
	// order. It must be quick and must not call the roster.
	Observe func(Change)
}

// Options of one model.
type Options struct {
	// KeepAlive is how long the model stays loaded without being used; 0 is for ever.
	KeepAlive time.Duration
	// Preload says that Preload starts the model.
	Preload bool
	// Declared models stay known when they are deleted.
	Declared bool
}

// Roster is the models and their states. Its methods may be called at the same time.
type Roster struct {
	cfg Config

	mu      sync.Mutex
	models  map[library.ID]*model
	order   []library.ID  // in which models were added: that of Preload
	changed chan struct{} // closed and replaced at every change
	closing bool
	pulls   int
	// promised is the need of models that start or run, taken that of models which are in memory.
	promised, taken int64
	tasks           sync.WaitGroup
}

// model is one row of the roster. The roster's lock guards it.
type model struct {
	Status
	opt      Options
	present  bool // the library has it, as far as known
	instance Instance
	loaded   bool // its need is in Roster.taken
	loads    int  // tells the uses of one load from those of the next
	removing bool
	awaited  int   // calls of UseOrStart that will use it as soon as it runs
	failure  error // why a stop ends in Error
	idle     *time.Timer
	cancel   context.CancelCauseFunc // of a fetch or a load
	start    *Pending
	stop     *Pending
	pull     *Pending
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
		return nil, fmt.Errorf("lifecycle: budget %d, drain %s, pulls %d: want none below 0", cfg.Budget, cfg.Drain, cfg.Pulls)
	}
	if cfg.Drain == 0 {
		cfg.Drain = 30 * time.Second
	}
	if cfg.Pulls == 0 {
		cfg.Pulls = 2
	}
	return &Roster{cfg: cfg, models: map[library.ID]*model{}, changed: make(chan struct{})}, nil
}

// Add makes a model known, or gives a known one other options. Whether it lies in
// the library is asked of Config.Present.
func (r *Roster) Add(id library.ID, opt Options) {
	r.mu.Lock()
	defer r.mu.Unlock()
	m := r.add(id)
	m.opt, m.Declared = opt, opt.Declared
	if m.State == Running && m.Uses == 0 {
		r.watchIdle(m)
	}
}

// add returns the row of a model, a new one when there is none.
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

// forget drops a row.
func (r *Roster) forget(m *model) {
	delete(r.models, m.ID)
	r.order = slices.DeleteFunc(r.order, func(id library.ID) bool { return id == m.ID })
	r.broadcast()
}

// Get returns a model's status; ok is false when it is not known.
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

// Memory returns what is promised to models that start or run, and the budget; 0 is none.
func (r *Roster) Memory() (promised, budget int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.promised, r.cfg.Budget
}

// find returns a row, or why nothing may be done with it.
func (r *Roster) find(id library.ID) (*model, error) {
	m, ok := r.models[id]
	if !ok {
		return nil, fmt.Errorf("model %s: %w", id, ErrUnknown)
	}
	if r.closing {
		return nil, fmt.Errorf("model %s: %w", id, ErrClosed)
	}
	if m.removing {
		return nil, fmt.Errorf("model %s: %w: it is being deleted", id, ErrState)
	}
	return m, nil
}

// wrong is the error of a state that does not allow what was asked for.
func (m *model) wrong(what string) error {
	return fmt.Errorf("model %s: %w: it is %s and cannot be %s", m.ID, ErrState, m.State, what)
}

// to makes a transition. It is the only place that changes a state.
func (r *Roster) to(m *model, state State, err error) {
	if !m.State.To(state) {
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

// wait waits, with the lock held when it is called and when it returns, until cond holds.
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

// Pending is something that was begun.
type Pending struct {
	done chan struct{}
	err  error
}

func newPending() *Pending { return &Pending{done: make(chan struct{})} }

func (p *Pending) finish(err error) {
	p.err = err
	close(p.done)
}

// Done is closed when it has ended.
func (p *Pending) Done() <-chan struct{} { return p.done }

// Wait waits for the end and returns how it went. When ctx ends only the
// waiting does.
func (p *Pending) Wait(ctx context.Context) error {
	select {
	case <-p.done:
		return p.err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Close cancels fetches, stops all models and waits until that is done or ctx ends. Nothing new
// is begun afterwards. It may be called again to go on waiting.
func (r *Roster) Close(ctx context.Context) error {
	r.mu.Lock()
	r.closing = true
	for _, m := range r.models {
		switch m.State {
		case Downloading:
			m.cancel(ErrClosed)
		case Starting, Running:
			r.beginStop(m, Closing, nil)
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

// Check holds the books against the rows. It is for tests and for debugging.
func (r *Roster) Check() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	var promised, taken int64
	pulls := 0
	for _, m := range r.models {
		switch m.State {
		case Starting, Running:
			promised += m.Status.Memory
		case Downloading:
			pulls++
		}
		if m.loaded {
			taken += m.Status.Memory
		}
		up := m.State == Running || m.State == Stopping && m.instance != nil
		if (m.instance != nil) != up || m.Uses < 0 || m.Uses > 0 && m.instance == nil {
			return fmt.Errorf("model %s: %s with instance %v and %d uses", m.ID, m.State, m.instance != nil, m.Uses)
		}
	}
	if promised != r.promised || taken != r.taken || pulls != r.pulls {
		return fmt.Errorf("promised %d, taken %d, fetches %d; the rows say %d, %d, %d", r.promised, r.taken, r.pulls, promised, taken, pulls)
	}
	if b := r.cfg.Budget; b > 0 && (promised > b || taken > b) {
		return fmt.Errorf("promised %d, taken %d: the budget is %d", promised, taken, b)
	}
	return nil
}
