package lora

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"tgi/models"
	"tgi/models/hf"
)

// Backend computes adapters. Its methods may be called beside each other and beside steps.
type Backend interface {
	// AdapterBytes returns the memory that an adapter takes.
	AdapterBytes(*Adapter) int64
	// AddAdapter returns the adapter's number.
	AddAdapter(*Adapter) (int, error)
	// RemoveAdapter frees it, after the step that runs; no later step has it.
	RemoveAdapter(number int)
}

// Errors of a Pool.
var (
	// ErrUnknown says that no adapter has the name.
	ErrUnknown = errors.New("no such adapter")
	// ErrTaken says that an adapter has the name already.
	ErrTaken = errors.New("an adapter of this name is loaded")
	// errMemory says that an adapter does not fit beside those that requests use.
	errMemory = errors.New("no memory for the adapter")
	// ErrTooLarge says that an adapter does not fit into the memory for adapters at all.
	ErrTooLarge = errors.New("the adapter is too large")
)

// Pool holds the adapters of one model that runs. Those in memory stay within a budget: one that is needed takes the
// place of those that no request uses, the longest unused first, which are read again from their folders when they are
// needed again. Where requests use all of them, others wait in a line. It is safe for concurrent use.
type Pool struct {
	backend Backend
	device  models.Device
	base    func() (*hf.Checkpoint, error) // opens the model's checkpoint
	budget  int64                          // bytes

	mu    sync.Mutex // protects what follows and all entries
	known map[string]*entry
	bytes int64  // of the adapters in memory, those that are being freed included
	clock uint64 // counts uses
	line  []*waiter
}

// waiter is a user that waits for memory.
type waiter struct {
	name  string
	since time.Time
	woken chan struct{} // has room for one
}

// patience is how long users of adapters in memory may pass a waiter; then they wait behind it, so that it gets the
// memory when those end that have theirs.
const patience = time.Second

// entry is one adapter. It is in memory while loaded is not nil, and being read while reading is not nil.
type entry struct {
	name, dir string
	reading   chan struct{} // closed when it has been read or could not be
	loaded    *Loaded
	bytes     int64 // that it takes in memory, known once it was read
	users     int
	lastUse   uint64
	removed   bool // freed with its last user
}

// Loaded is an adapter in memory.
type Loaded struct {
	// Number is the backend's.
	Number int
	// Sum differs between adapters that compute different results.
	Sum string
	// Rank is the highest of its matrices, Bytes what it takes.
	Rank  int
	Bytes int64
}

// Status describes an adapter.
type Status struct {
	Name, Dir string
	Loaded    bool
	Users     int // requests that use it
	Waiters   int // requests that wait for memory for it
	Bytes     int64
}

// NewPool returns an empty pool for a model on a device. base opens the checkpoint of the model, which the pool closes.
func NewPool(b Backend, d models.Device, base func() (*hf.Checkpoint, error), budget int64) *Pool {
	return &Pool{backend: b, device: d, base: base, budget: budget, known: map[string]*entry{}}
}

// Add reads the adapter in dir and gives it a name. If the name is taken, it fails with ErrTaken unless replace: then
// requests that use the old adapter end with it, and later ones get the new one. An adapter that fits into the budget,
// but not beside those in use, is known all the same, and loaded when it is used.
func (p *Pool) Add(ctx context.Context, name, dir string, replace bool) (Loaded, error) {
	if err := p.checkName(name, replace); err != nil {
		return Loaded{}, err
	}
	a, err := p.read(dir)
	if err == nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		return Loaded{}, err
	}
	e := &entry{name: name, dir: dir}
	p.mu.Lock()
	defer p.mu.Unlock()
	old := p.known[name]
	if old != nil && !replace {
		return Loaded{}, fmt.Errorf("%w: %s", ErrTaken, name)
	}
	if err := p.load(e, a); err != nil && !errors.Is(err, errMemory) {
		return Loaded{}, err
	}
	if old != nil {
		p.drop(old)
	}
	p.known[name] = e
	p.wake()
	if e.loaded == nil {
		return Loaded{Sum: a.Sum, Rank: a.Rank, Bytes: e.bytes}, nil
	}
	return *e.loaded, nil
}

// checkName returns ErrTaken for a name that is.
func (p *Pool) checkName(name string, replace bool) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, taken := p.known[name]; taken && !replace {
		return fmt.Errorf("%w: %s", ErrTaken, name)
	}
	return nil
}

// Remove forgets an adapter. Requests that use it end with it; then its memory is free.
func (p *Pool) Remove(name string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	e, ok := p.known[name]
	if !ok {
		return fmt.Errorf("%w: %s", ErrUnknown, name)
	}
	delete(p.known, name)
	p.drop(e)
	p.wake()
	return nil
}

// Use returns the adapter of a name, which stays in memory until release is called, exactly once. It reads the adapter
// if it is not in memory, for all that wait for it at once; where there is no room beside those in use, it waits until
// there is, or until ctx ends.
func (p *Pool) Use(ctx context.Context, name string) (a Loaded, release func(), err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	w := &waiter{name: name, woken: make(chan struct{}, 1)}
	defer p.leave(w)
	for {
		e, ok := p.known[name]
		switch {
		case !ok:
			return Loaded{}, nil, fmt.Errorf("%w: %s", ErrUnknown, name)
		case p.yields(w, e):
			err = p.await(ctx, p.join(w))
		case e.loaded != nil:
			p.clock++
			e.users, e.lastUse = e.users+1, p.clock
			return *e.loaded, func() { p.release(e) }, nil
		case e.reading != nil:
			err = p.await(ctx, e.reading)
		default:
			if err = p.reload(e); errors.Is(err, errMemory) {
				err = p.await(ctx, p.join(w))
			}
		}
		if err != nil {
			return Loaded{}, nil, err
		}
	}
}

// yields reports whether w, which wants e, waits for those before it. The caller holds the lock.
func (p *Pool) yields(w *waiter, e *entry) bool {
	if len(p.line) == 0 || p.line[0] == w {
		return false
	}
	return e.loaded == nil && e.reading == nil || time.Since(p.line[0].since) > patience
}

// join puts w at the end of the line, if it is not in it, and returns what wakes it. The caller holds the lock.
func (p *Pool) join(w *waiter) <-chan struct{} {
	if w.since.IsZero() {
		w.since = time.Now()
		p.line = append(p.line, w)
	}
	return w.woken
}

// leave takes w out of the line, where it may not be. The caller holds the lock.
func (p *Pool) leave(w *waiter) {
	if !w.since.IsZero() {
		p.line = slices.DeleteFunc(p.line, func(o *waiter) bool { return o == w })
		p.wake()
	}
}

// wake lets all in the line look again: one has left it, memory may be free, or an adapter has come or gone. The caller
// holds the lock.
func (p *Pool) wake() {
	for _, w := range p.line {
		select {
		case w.woken <- struct{}{}:
		default: // it has not yet looked since the last time
		}
	}
}

// await waits without the lock, which the caller holds, until done is closed or sends, or ctx ends.
func (p *Pool) await(ctx context.Context, done <-chan struct{}) error {
	p.mu.Unlock()
	defer p.mu.Lock()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// reload brings an adapter back into memory. The caller holds the lock, which is given up while the files are read.
func (p *Pool) reload(e *entry) error {
	if err := p.makeRoom(e.bytes); err != nil { // before anything is read
		return err
	}
	done := make(chan struct{})
	e.reading = done
	p.mu.Unlock()
	a, err := p.read(e.dir)
	p.mu.Lock()
	e.reading = nil
	close(done)
	switch {
	case err != nil:
		return err
	case e.removed: // another may have its name by now
		return nil
	}
	return p.load(e, a)
}

// read reads the adapter in dir.
func (p *Pool) read(dir string) (*Adapter, error) {
	base, err := p.base()
	if err != nil {
		return nil, err
	}
	defer base.Close()
	return Open(dir, base, p.device)
}

// load gives the backend an adapter that was read. The caller holds the lock.
func (p *Pool) load(e *entry, a *Adapter) error {
	e.bytes = p.backend.AdapterBytes(a)
	if err := p.makeRoom(e.bytes); err != nil {
		return err
	}
	number, err := p.backend.AddAdapter(a)
	if err != nil {
		return err
	}
	p.clock++
	e.loaded, e.lastUse = &Loaded{Number: number, Sum: a.Sum, Rank: a.Rank, Bytes: e.bytes}, p.clock
	p.bytes += e.bytes
	p.wake()
	return nil
}

// makeRoom frees adapters that nobody uses until there is room for some bytes. The caller holds the lock.
func (p *Pool) makeRoom(bytes int64) error {
	if bytes > p.budget {
		return fmt.Errorf("%w: it takes %d bytes, the memory for adapters has %d", ErrTooLarge, bytes, p.budget)
	}
	var idle []*entry
	free := p.budget - p.bytes
	for _, e := range p.known {
		if e.loaded != nil && e.users == 0 {
			idle, free = append(idle, e), free+e.loaded.Bytes
		}
	}
	if bytes > free {
		return fmt.Errorf("%w: it takes %d bytes, %d of %d are in use", errMemory, bytes, p.budget-free, p.budget)
	}
	slices.SortFunc(idle, func(a, b *entry) int { return cmp.Compare(a.lastUse, b.lastUse) })
	for _, e := range idle {
		if p.budget-p.bytes >= bytes {
			return nil
		}
		p.free(e)
	}
	return nil
}

// release ends a use.
func (p *Pool) release(e *entry) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if e.users--; e.users > 0 {
		return
	}
	if e.removed {
		p.free(e)
	}
	p.wake()
}

// drop frees an adapter that is no longer known, once nobody uses it. The caller holds the lock.
func (p *Pool) drop(e *entry) {
	e.removed = true
	if e.users == 0 {
		p.free(e)
	}
}

// free takes an adapter out of memory, if it is there. The caller holds the lock.
func (p *Pool) free(e *entry) {
	if e.loaded != nil {
		p.backend.RemoveAdapter(e.loaded.Number)
		p.bytes -= e.loaded.Bytes
		e.loaded = nil
	}
}

// Has reports whether an adapter has the name.
func (p *Pool) Has(name string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	_, ok := p.known[name]
	return ok
}

// List describes the adapters, by name.
func (p *Pool) List() []Status {
	p.mu.Lock()
	defer p.mu.Unlock()
	list := make([]Status, 0, len(p.known))
	waiters := map[string]int{}
	for _, w := range p.line {
		waiters[w.name]++
	}
	for _, e := range p.known {
		list = append(list, Status{Name: e.name, Dir: e.dir, Loaded: e.loaded != nil, Users: e.users,
			Waiters: waiters[e.name], Bytes: e.bytes})
	}
	slices.SortFunc(list, func(a, b Status) int { return cmp.Compare(a.Name, b.Name) })
	return list
}

// Bytes returns what the adapters in memory take, and what they may take at most.
func (p *Pool) Bytes() (used, budget int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.bytes, p.budget
}
