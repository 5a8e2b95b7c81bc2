package sandbox

import (
	"errors"
	"fmt"
	"sync"
)

// Defaults of PoolConfig. The price of a waiting instance is its address space, the machine's page tables for it, and
// 150 KB (C) to 300 KB (Go) of bookkeeping; pages that no guest wrote are shared.
const (
	DefaultReady = 4
	DefaultMax   = 1024
)

// maxIdle is how many returned instances a pool keeps, if Ready is not more: they are cheaper than new ones.
const maxIdle = 64

// PoolConfig says how instances begin and how many there may be.
type PoolConfig struct {
	// Init brings a new instance to the state every sequence starts from. It runs once, before the snapshot, or, when
	// the module keeps state that a snapshot can't hold, for every instance. nil does nothing.
	Init  func(*Instance) error
	Lease Lease // during Init: the seed, and Host for host functions
	// Account is charged with the time that the instances run; nil for none.
	Account *Account
	// Cancel ends the first instance's start function and Init when it is closed, and with them NewPool.
	Cancel <-chan struct{}
	// Keep, if not nil, says how the state after Init is kept over restarts.
	Keep  *Keep
	Ready int // instances kept waiting; 0 means DefaultReady
	Max   int // instances in all, taken and waiting; 0 means DefaultMax
}

// Stats counts a pool's instances.
type Stats struct {
	Bytes                       int64 // that those of its module have now, the snapshot aside
	Out, Waiting                int   // now
	Made, Reset, Discarded, Cut int   // since the start; Cut: given back when enough were waiting
}

// Pool hands out instances in the state that Init left. It is safe for concurrent use.
//
// One goroutine per pool makes instances ahead; Close stops it, and Drained tells when it has ended.
type Pool struct {
	module *Module
	c      PoolConfig
	origin *snapshot // nil when every instance is built by Init

	mu          sync.Mutex
	idle        []*Instance
	live        int // idle, out, or being made
	prebuilding int // of them, being built by the filler
	out         int
	stats       Stats
	closed      bool
	filling     bool          // the filler runs
	drained     chan struct{} // closed when the pool is closed, nothing lives and the filler has ended

	wakeup chan struct{} // holds one token while the filler has work
	stop   chan struct{} // closed by Close
}

// NewPool makes the first instance, runs its start function and Init, takes the snapshot, and begins to fill. An error
// of Init is returned as it is, wrapped.
func (m *Module) NewPool(c PoolConfig) (*Pool, error) {
	if c.Ready == 0 {
		c.Ready = DefaultReady
	}
	if c.Max == 0 {
		c.Max = DefaultMax
	}
	if c.Ready < 0 || c.Max < 1 {
		return nil, fmt.Errorf("%s: pool of %d ready and %d in all: both must be positive", m.name, c.Ready, c.Max)
	}
	p := &Pool{module: m, c: c, drained: make(chan struct{}), wakeup: make(chan struct{}, 1),
		stop: make(chan struct{})}
	var err error
	if p.origin, err = m.takeKept(c.Keep); err != nil {
		return nil, err
	}
	if p.origin == nil {
		if err := p.begin(); err != nil {
			return nil, err
		}
	}
	m.engine.quota.addPool(p)
	p.filling = true
	go p.fill()
	p.wake()
	return p, nil
}

// begin makes the first instance and its snapshot.
func (p *Pool) begin() error {
	lease := p.c.Lease
	lease.Cancel = p.c.Cancel
	first, err := p.build(lease)
	if err != nil {
		return err
	}
	switch p.origin, err = first.capture(); {
	case errors.Is(err, ErrHiddenState):
		p.idle, p.live, p.stats.Made = append(p.idle, first), 1, 1
	case err != nil:
		first.Close()
		return err
	default:
		p.module.keepState(p.c.Keep, first, p.origin)
		first.Close() // its memory is not mapped from the snapshot
	}
	return nil
}

// build makes an instance by running the start function and Init.
func (p *Pool) build(l Lease) (*Instance, error) {
	in, err := p.module.fresh(l, p.c.Account)
	if err != nil {
		return nil, err
	}
	if p.c.Init != nil {
		if err := p.c.Init(in); err != nil {
			in.Close()
			return nil, fmt.Errorf("%s: init: %w", p.module.name, err)
		}
	}
	if cause := in.endBuild(); cause != nil { // its last call went too far
		in.Close()
		return nil, in.fault("init", Budget{}, 0, cause)
	}
	return in, nil
}

func (p *Pool) create() (in *Instance, err error) {
	if p.origin != nil {
		if in, err = p.module.restore(p.origin); err == nil {
			in.account = p.c.Account
		}
	} else {
		in, err = p.build(p.c.Lease)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if err != nil {
		p.live--
		p.closeIfDrained()
		return nil, err
	}
	in.home = p
	p.stats.Made++
	return in, nil
}

// fill keeps Ready instances waiting. Whoever waits for Drained waits for its end.
func (p *Pool) fill() {
	defer func() {
		p.mu.Lock()
		p.filling = false
		p.closeIfDrained()
		p.mu.Unlock()
	}()
	for {
		select {
		case <-p.wakeup:
		case <-p.stop:
			return
		}
		for p.reserveSlot() {
			in, err := p.create()
			p.mu.Lock()
			p.prebuilding--
			if err != nil {
				p.mu.Unlock()
				break // the next Take meets the same error and reports it
			}
			if p.closed || p.live > p.c.Max { // a Take did not wait for this one
				p.mu.Unlock()
				p.closeInstance(in)
				break
			}
			p.idle = append(p.idle, in)
			p.mu.Unlock()
		}
	}
}

// reserveSlot counts one more instance if the pool needs one ahead.
func (p *Pool) reserveSlot() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || len(p.idle) >= p.c.Ready || p.live >= p.c.Max || p.module.engine.quota.isTight() {
		return false
	}
	p.live++
	p.prebuilding++
	return true
}

// wake wakes the filler.
func (p *Pool) wake() {
	select {
	case p.wakeup <- struct{}{}:
	default:
	}
}

// Take returns an instance in the state Init left: a waiting one, or a new one when none waits. It fails with ErrBusy
// when Max are out, with ErrMemory when there is no room for it, and with ErrClosed after Close. Give it back with Put.
func (p *Pool) Take(l Lease) (*Instance, error) {
	q := p.module.engine.quota
	each, err := q.admit(p.module.share, 1, instanceBytes, q.initialCharge(p.module.share, l), l)
	if err != nil {
		return nil, err
	}
	return p.takeCharged(l, each)
}

// takeCharged is Take for a caller that was charged bytes already. They are refunded on an error.
func (p *Pool) takeCharged(l Lease, bytes int64) (*Instance, error) {
	in, err := p.take()
	if err != nil {
		p.module.engine.quota.refund(p.module.share, bytes)
		return nil, err
	}
	in.acquire(bytes, l)
	in.begin(l)
	return in, nil
}

// take is Take without a charge and a lease.
func (p *Pool) take() (*Instance, error) {
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		return nil, fmt.Errorf("%s: pool %w", p.module.name, ErrClosed)
	}
	var in *Instance
	if n := len(p.idle); n > 0 {
		in = p.idle[n-1]
		p.idle[n-1] = nil
		p.idle = p.idle[:n-1]
	} else if p.live-p.prebuilding >= p.c.Max { // instances built ahead must not keep a sequence out
		p.mu.Unlock()
		return nil, fmt.Errorf("%s: %w: %d", p.module.name, ErrBusy, p.c.Max)
	} else {
		p.live++
	}
	p.out++
	low := len(p.idle) < (p.c.Ready+1)/2
	p.mu.Unlock()
	if low {
		p.wake()
	}
	if in == nil {
		var err error
		if in, err = p.create(); err != nil {
			p.mu.Lock()
			p.out--
			p.mu.Unlock()
			return nil, err
		}
	}
	in.home = p
	return in, nil
}

// Put takes an instance back. One that is as it should be is reset for the next taker; one that is broken, grew, or
// can't be reset is thrown away and replaced in the background.
func (p *Pool) Put(in *Instance) {
	if in.home != p {
		panic("BUG: instance given back to another pool, or twice")
	}
	in.home = nil
	in.returnToPool()
	good := in.reusable() && in.reset() == nil
	in.begin(Lease{})
	p.mu.Lock()
	p.out--
	switch {
	case !good:
		p.stats.Discarded++
	case p.closed:
		good = false
	case len(p.idle) >= max(p.c.Ready, maxIdle):
		p.stats.Cut++
		good = false
	default:
		p.stats.Reset++
		p.idle = append(p.idle, in)
	}
	p.mu.Unlock()
	if !good {
		p.closeInstance(in)
		p.wake()
	}
}

// closeInstance closes an instance and stops counting it.
func (p *Pool) closeInstance(in *Instance) {
	in.Close()
	p.mu.Lock()
	p.live--
	p.closeIfDrained()
	p.mu.Unlock()
}

// Clone returns another instance in the state that in has now (for best_of and beams), its random numbers included. in
// is of this pool and not running.
func (p *Pool) Clone(in *Instance, l Lease) (*Instance, error) {
	if p.origin == nil {
		return nil, fmt.Errorf("%s: clone: %w: %s", p.module.name, ErrHiddenState, p.module.info.HiddenState)
	}
	if in.broken != nil {
		return nil, &Fault{Kind: ErrBroken, Module: p.module.name, Func: "clone", Cause: in.broken.Error()}
	}
	twin, err := p.takeForClone(in, l)
	if err != nil {
		return nil, err
	}
	if err := twin.copyFrom(in); err != nil {
		twin.Break("clone", err.Error())
		p.Put(twin)
		return nil, fmt.Errorf("%s: clone: %w", p.module.name, err)
	}
	return twin, nil
}

// Reserve charges n clones of an instance of this pool, as it is now, so that they can be had one after the other. What
// was not cloned is given back with the instance.
func (p *Pool) Reserve(in *Instance, n int, l Lease) error {
	in.recountPages()
	each, err := p.module.engine.quota.admit(p.module.share, n, in.known(), in.alloc.bytes.Load(), l)
	if err != nil {
		return err
	}
	in.alloc.credit += int64(n) * each
	in.alloc.reserved = each
	return nil
}

// takeForClone is Take for a clone of in, paid from in's credit if it has enough.
func (p *Pool) takeForClone(in *Instance, l Lease) (*Instance, error) {
	h := &in.alloc
	if h.reserved >= in.known() && h.credit >= h.reserved { // it has not grown since
		h.credit -= h.reserved
		return p.takeCharged(l, h.reserved)
	}
	each, err := p.module.engine.quota.admit(p.module.share, 1, in.known(), h.bytes.Load(), l)
	if err != nil {
		return nil, err
	}
	return p.takeCharged(l, each)
}

// dropIdle frees the idle instances.
func (p *Pool) dropIdle() int {
	p.mu.Lock()
	idle := p.idle
	if p.origin == nil && len(idle) > 0 { // building one anew costs more than it takes
		idle = idle[1:]
		p.idle = p.idle[:1]
	} else {
		p.idle = nil
	}
	p.mu.Unlock()
	for _, in := range idle {
		p.closeInstance(in)
	}
	return len(idle)
}

// Stats returns the pool's counts.
func (p *Pool) Stats() Stats {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.stats
	s.Out, s.Waiting, s.Bytes = p.out, len(p.idle), p.module.engine.quota.shareBytes(p.module.share)
	return s
}

// Module returns the pool's module.
func (p *Pool) Module() *Module { return p.module }

// Close ends the pool: waiting instances are freed now, those that are out when they are put back. It does not wait;
// Drained tells when the module may be closed. Closing twice is fine.
func (p *Pool) Close() {
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		return
	}
	p.closed = true
	idle := p.idle
	p.idle = nil
	close(p.stop)
	p.closeIfDrained()
	p.mu.Unlock()
	for _, in := range idle {
		p.closeInstance(in)
	}
}

// Drained is closed when the pool is closed, every instance has been put back and the goroutine that made them ended.
func (p *Pool) Drained() <-chan struct{} { return p.drained }

// closeIfDrained frees the snapshot after the last instance and the filler of a closed pool. The lock is held.
func (p *Pool) closeIfDrained() {
	if !p.closed || p.live > 0 || p.filling {
		return
	}
	p.module.engine.quota.removePool(p)
	if p.origin != nil {
		p.module.freeSnapshot(p.origin)
	}
	close(p.drained)
}
