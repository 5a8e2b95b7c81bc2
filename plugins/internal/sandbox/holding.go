package sandbox

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// holding is what an instance has of its module's share.
type holding struct {
	share *share

	// The quota's lock guards these.
	bytes   atomic.Int64 // charged; read without the lock too
	closed  bool
	request <-chan struct{} // whose sequence has it
	brief   bool            // it has it for one call

	doom atomic.Pointer[abort] // why it is to end

	// mu guards what is known of the pages, and is held while they are counted and while the memory is freed.
	mu      sync.Mutex
	freed   bool
	floor   int64         // bytes that it was admitted with
	size    int64         // of the memory, when it was looked at last
	touched int64         // bytes of pages of its own, when they were counted last
	doubt   atomic.Int64  // bytes that it may have touched since, at most; written under mu
	ran     time.Duration // since
	took    time.Duration // by counting

	// Used by the instance's user alone.
	recent time.Duration // of its running, not yet in ran
	credit int64         // charged for clones
}

const (
	// instanceBytes is about what an instance takes beside the pages of its memory.
	instanceBytes = 256 << 10
	// pageSize is the unit in which memory is touched.
	pageSize = 4096
	// touchTime is how quickly a guest can touch a page, at best: the system must find and clear one. (Measured: 0.5 to 3 us.)
	touchTime = 250 * time.Nanosecond
	// countShare bounds the time for counting: a thirty-second of the guest's own.
	countShare = 32
	// pressedShare is that where little memory is left.
	pressedShare = 4
	// bookStep is the least change that is booked, trifle a time in which no more can be touched.
	bookStep = 64 << 10
	trifle   = bookStep / pageSize * touchTime
)

// spent notes that the guest ran for so long. The result says why the instance is to end, nil for going on.
func (in *Instance) spent(took time.Duration) *abort {
	h := &in.held
	if h.recent += took; in.memory == nil || h.recent < trifle {
		return h.doom.Load()
	}
	h.mu.Lock()
	h.note(int64(in.memory.size))
	parts := time.Duration(countShare)
	if in.module.engine.quota.pressed.Load() {
		parts = pressedShare
	}
	counted := h.doubt.Load() >= bookStep && h.ran >= parts*max(h.took, time.Microsecond)
	if counted {
		in.count()
	}
	bytes := h.want()
	h.mu.Unlock()
	if counted {
		in.book(bytes)
	}
	return h.doom.Load()
}

// note takes over what happened since it was looked at last. mu is held, by the instance's user.
func (h *holding) note(size int64) {
	h.size = size
	h.ran += h.recent
	h.recent = 0
	h.doubt.Store(min(max(0, h.size-h.touched), int64(h.ran/touchTime)*pageSize))
}

// settle counts the pages of an instance of which it is not known what it touched, and reports whether it was one.
func (in *Instance) settle() bool {
	h := &in.held
	h.mu.Lock()
	if h.freed || h.doubt.Load() == 0 {
		h.mu.Unlock()
		return false
	}
	in.count()
	bytes := h.want()
	h.mu.Unlock()
	in.book(bytes)
	return true
}

// want is what the instance is to be charged. mu is held.
func (h *holding) want() int64 { return instanceBytes + max(h.floor, h.touched) }

// book charges bytes, where that is no trifle.
func (in *Instance) book(bytes int64) {
	if change := bytes - in.held.bytes.Load(); change >= bookStep || change < 0 {
		in.module.engine.quota.grew(in, bytes)
	}
}

// count counts the pages that are the instance's own. mu is held.
func (in *Instance) count() {
	h := &in.held
	began := time.Now()
	n, ok := in.memory.touched(h.size)
	if !ok { // the system does not say
		n = h.size
		if in.origin != nil && !in.origin.copied() {
			n -= int64(in.origin.size)
		}
	}
	h.touched, h.ran = n, 0
	h.doubt.Store(0)
	// One that the system interrupted must not keep the next one away.
	h.took = min(time.Since(began), 4*h.took+time.Duration(h.size/pageSize)*20*time.Nanosecond)
}

// enter hands an instance that waited, or is new, to a taker that was admitted with so many bytes.
func (in *Instance) enter(bytes int64, l Lease) {
	h, q := &in.held, in.module.engine.quota
	h.mu.Lock()
	h.floor = bytes - instanceBytes
	h.mu.Unlock()
	q.mu.Lock()
	defer q.mu.Unlock()
	q.charge(h.share, -h.bytes.Load()) // admission charged it anew
	h.bytes.Store(bytes)
	h.request, h.brief = l.Cancel, l.Brief
	h.share.out[in] = struct{}{}
	q.serve()
}

// leave ends a sequence's use: what it touched is what the next one is expected to. Its pages are the instance's until it is
// reset or closed.
func (in *Instance) leave() {
	h, q := &in.held, in.module.engine.quota
	h.mu.Lock()
	if in.memory != nil {
		if h.note(int64(in.memory.size)); h.doubt.Load() > 0 {
			in.count()
		}
	}
	touched := h.touched
	credit := h.credit
	h.floor, h.credit = 0, 0
	h.mu.Unlock()
	q.mu.Lock()
	defer q.mu.Unlock()
	delete(h.share.out, in)
	if h.doom.Load() != nil {
		q.doomed -= h.bytes.Load()
	}
	h.request = nil
	h.doom.Store(nil)
	s := h.share
	if !h.brief {
		s.expect = max(touched, s.expect-(s.expect-touched)/16)
	}
	q.charge(s, -credit)
	q.serve()
}

// cleared notes that the instance's pages were given back.
func (in *Instance) cleared() {
	h, q := &in.held, in.module.engine.quota
	h.mu.Lock()
	h.touched, h.ran = 0, 0
	h.doubt.Store(0)
	h.mu.Unlock()
	q.mu.Lock()
	defer q.mu.Unlock()
	q.charge(h.share, instanceBytes-h.bytes.Load())
	h.bytes.Store(instanceBytes)
	q.serve()
}

// reserve is the system's, within the quota's address space.
func (m *Module) reserve(n uint64) ([]byte, error) {
	if err := m.engine.quota.space(m.share, int64(n)); err != nil {
		return nil, err
	}
	b, err := reserve(n)
	if err != nil {
		_ = m.engine.quota.space(m.share, -int64(n))
		return nil, fmt.Errorf("%s: %w: %w", m.name, ErrMemory, err)
	}
	return b, nil
}

// release runs free and books the address space back that it frees.
func (in *Instance) release(free func()) {
	n := 0
	if in.memory != nil {
		n = len(in.memory.reserved)
	}
	free()
	_ = in.module.engine.quota.space(in.module.share, -int64(n)) // which can't fail
}

// open charges a new instance.
func (in *Instance) open() {
	h, q := &in.held, in.module.engine.quota
	h.share = in.module.share
	q.mu.Lock()
	defer q.mu.Unlock()
	h.bytes.Store(instanceBytes)
	q.charge(h.share, instanceBytes)
}

// free runs release, which frees the memory, while nobody counts it, and books everything back.
func (in *Instance) free(release func()) {
	h, q := &in.held, in.module.engine.quota
	h.mu.Lock()
	h.freed = true
	h.doubt.Store(0)
	release()
	h.mu.Unlock()
	q.mu.Lock()
	defer q.mu.Unlock()
	if h.closed {
		return
	}
	h.closed = true
	delete(h.share.out, in)
	if h.doom.Load() != nil {
		q.doomed -= h.bytes.Load()
	}
	q.charge(h.share, -h.bytes.Load())
	h.bytes.Store(0)
	q.serve()
}
