package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"testing"
	"time"

	"tgi/models/library"
)

// world is a library and a runner that hold the roster to its promises.
type world struct {
	t      *testing.T
	roster *Roster
	budget int64

	mu      sync.Mutex
	present map[library.ID]bool
	need    map[library.ID]int64
	alive   map[library.ID]*instance // loading, or loaded and not yet stopped
	memory  int64
	last    map[library.ID]State
	changes []string

	// load and stop take this long; loadErr, when set, is what a load fails with.
	load, stop func(library.ID) time.Duration
	loadErr    func(library.ID) error
	stopErr    error
	pause      func() time.Duration // before an estimate and before a deletion
}

type instance struct {
	w  *world
	id library.ID
	// stopped is set when Stop returns, stopping when it begins.
	stopping, stopped bool
	cut               bool // Stop's context had ended
}

func newWorld(t *testing.T, cfg Config, needs map[library.ID]int64) *world {
	t.Helper()
	w := &world{t: t, budget: cfg.Budget, present: map[library.ID]bool{}, need: maps.Clone(needs),
		alive: map[library.ID]*instance{}, last: map[library.ID]State{}}
	for id := range needs {
		w.present[id] = true
	}
	w.load = func(library.ID) time.Duration { return time.Second }
	w.stop = w.load
	w.pause = func() time.Duration { return 0 }
	w.loadErr = func(library.ID) error { return nil }
	cfg.Runner = w
	cfg.Estimate = func(id library.ID) (int64, error) {
		time.Sleep(w.pause())
		if n, ok := w.need[id]; ok {
			return n, nil
		}
		return 0, errors.New("cannot be read")
	}
	cfg.Present = func(id library.ID) bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		return w.present[id]
	}
	cfg.Remove = func(id library.ID) error {
		time.Sleep(w.pause())
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.alive[id] != nil {
			t.Errorf("%s was deleted while it was in memory", id)
		}
		if !w.present[id] {
			return library.ErrNotFound
		}
		delete(w.present, id)
		return nil
	}
	cfg.Observe = w.observe
	r, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	w.roster = r
	return w
}

// legal is the table once more, written down by pairs from the description of the states.
var legal = map[string]bool{
	"not_downloaded downloading": true, "not_downloaded downloaded": true,
	"downloading downloaded": true, "downloading not_downloaded": true, "downloading error": true,
	"downloaded starting": true, "downloaded not_downloaded": true,
	"starting running": true, "starting stopping": true, "starting error": true,
	"running stopping": true, "stopping stopped": true, "stopping error": true,
	"stopped starting": true, "stopped not_downloaded": true,
	"error starting": true, "error downloading": true, "error downloaded": true, "error not_downloaded": true,
}

func (w *world) observe(c Change) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !legal[fmt.Sprint(c.From, " ", c.To)] {
		w.t.Errorf("%s went from %s to %s", c.ID, c.From, c.To)
	}
	if last, ok := w.last[c.ID]; ok && last != c.From {
		w.t.Errorf("%s left %s, but it was %s", c.ID, c.From, last)
	}
	if (c.Err != nil) != (c.To == Error) {
		w.t.Errorf("%s went to %s with error %v", c.ID, c.To, c.Err)
	}
	w.last[c.ID] = c.To
	if c.To == NotDownloaded {
		delete(w.last, c.ID) // the row may go
	}
	w.changes = append(w.changes, fmt.Sprintf("%s %s", c.ID, c.To))
}

// Start implements Runner.
func (w *world) Start(ctx context.Context, id library.ID) (Instance, error) {
	in := &instance{w: w, id: id}
	w.mu.Lock()
	if w.alive[id] != nil {
		w.t.Errorf("two loads of %s", id)
	}
	if !w.present[id] {
		w.t.Errorf("%s was loaded and is not there", id)
	}
	w.alive[id] = in
	if w.memory += w.need[id]; w.budget > 0 && w.memory > w.budget {
		w.t.Errorf("%d bytes in memory, the budget is %d", w.memory, w.budget)
	}
	w.mu.Unlock()
	select {
	case <-time.After(w.load(id)):
	case <-ctx.Done():
		w.gone(in)
		return nil, context.Cause(ctx)
	}
	if err := w.loadErr(id); err != nil {
		w.gone(in)
		return nil, err
	}
	return in, nil
}

func (w *world) gone(in *instance) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if in.stopped || w.alive[in.id] != in {
		w.t.Errorf("%s was stopped twice", in.id)
	}
	in.stopped = true
	delete(w.alive, in.id)
	w.memory -= w.need[in.id]
}

// Stop implements Instance.
func (in *instance) Stop(ctx context.Context) error {
	in.w.mu.Lock()
	if in.stopping {
		in.w.t.Errorf("%s was told to stop twice", in.id)
	}
	in.stopping, in.cut = true, ctx.Err() != nil
	in.w.mu.Unlock()
	time.Sleep(in.w.stop(in.id))
	in.w.gone(in)
	return in.w.stopErr
}

func (w *world) wantState(id library.ID, want State) Status {
	w.t.Helper()
	s, ok := w.roster.Get(id)
	if !ok || s.State != want {
		w.t.Fatalf("%s is %q (%v), want %q", id, s.State, s.Err, want)
	}
	if err := w.roster.Check(); err != nil {
		w.t.Fatal(err)
	}
	return s
}

func (w *world) begun(p *Pending, err error) *Pending {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
	return p
}

func (w *world) must(p *Pending, err error) {
	w.t.Helper()
	if err := w.begun(p, err).Wait(context.Background()); err != nil {
		w.t.Fatal(err)
	}
}

// end closes the roster and holds that everything is gone.
func (w *world) end() {
	w.t.Helper()
	if err := w.roster.Close(context.Background()); err != nil {
		w.t.Fatal(err)
	}
	if err := w.roster.Check(); err != nil {
		w.t.Error(err)
	}
	if promised, _ := w.roster.Memory(); promised != 0 || w.roster.allocated != 0 || w.memory != 0 ||
		len(w.alive) != 0 {
		w.t.Errorf("left: promised %d, taken %d, in memory %d, instances %v", promised, w.roster.allocated, w.memory,
			w.alive)
	}
}
