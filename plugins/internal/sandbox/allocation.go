package sandbox

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// allocation is an instance's part of its module's share.
type allocation struct {
	share *share

	// The quota's lock guards these.
	bytes   atomic.Int64 // charged; read without the lock too
	use     uint64       // the number of its present use, which no other has; 0 while nobody uses it, or it is closed
	closed  bool
	request <-chan struct{} // the request that uses it
	brief   bool            // used for one call only

	termination atomic.Pointer[abort] // not nil: why the instance must end

	// mu guards the page counts, and is held while pages are counted and while the memory is freed.
	mu        sync.Mutex
	freed     bool
	admitted  int64         // bytes charged at admission
	size      int64         // of the memory, at the last update
	touched   int64         // bytes of its own pages, at the last count
	uncounted atomic.Int64  // upper bound of bytes touched since; written under mu
	runTime   time.Duration // since
	countTime time.Duration // time that the last count took

	// Used by the instance's user alone.
	pendingRunTime time.Duration // not yet in runTime
	credit         int64         // bytes charged ahead for clones
	reserved       int64         // of it, for each clone
}

const (
	// instanceBytes is about what an instance takes beside the pages of its memory.
	instanceBytes = 256 << 10
	// pageSize is the unit in which memory is touched.
	pageSize = 4096
	// touchTime is how quickly a guest can touch a page, at best: the system must find and clear one. (Measured: 0.5 to
	// 3 us.)
	touchTime = 250 * time.Nanosecond
	// countFraction bounds the time for counting to a thirty-second of the guest's own.
	countFraction = 32
	// countFractionLowMemory is the same when little memory is left, or the guest may have touched all that is.
	countFractionLowMemory = 4
	// minCharge is the least growth that is charged, minRunTime a time in which no more can be touched.
	minCharge  = 64 << 10
	minRunTime = minCharge / pageSize * touchTime
)

// addRunTime adds the time that the guest ran. The result is not nil if the instance must end, and says why.
func (in *Instance) addRunTime(took time.Duration) *abort {
	h := &in.alloc
	if h.pendingRunTime += took; in.memory == nil || h.pendingRunTime < minRunTime {
		return h.termination.Load()
	}
	h.mu.Lock()
	h.update(int64(in.memory.size))
	over := false
	if in.countIsDue() {
		in.countPages()
		over = in.recordBytes()
	}
	h.mu.Unlock()
	if over {
		in.module.engine.quota.enforceBound(in)
	}
	return h.termination.Load()
}

// countIsDue reports whether the guest ran for long enough since the last count for another. mu is held.
func (in *Instance) countIsDue() bool {
	h, q := &in.alloc, in.module.engine.quota
	uncounted := h.uncounted.Load()
	if uncounted < minCharge {
		return false
	}
	took := max(h.countTime, time.Microsecond)
	if room := q.room.Load(); room >= q.c.Bytes/4 && uncounted <= room {
		return h.runTime >= countFraction*took
	}
	// The guest may have passed the bound. That the last count took long, on a busy machine, is no reason to wait.
	return h.runTime >= countFractionLowMemory*min(took, time.Microsecond+usualCountTime(h.size))
}

// usualCountTime is what a count of a memory of so many bytes may take where nothing interrupts it. (Measured: 7 ns for
// a page.)
func usualCountTime(size int64) time.Duration {
	return time.Duration(size/pageSize) * 20 * time.Nanosecond
}

// update takes over the size and the pending run time. mu is held, by the instance's user.
func (h *allocation) update(size int64) {
	h.size = size
	h.runTime += h.pendingRunTime
	h.pendingRunTime = 0
	h.uncounted.Store(min(max(0, h.size-h.touched), int64(h.runTime/touchTime)*pageSize))
}

// recountPages counts the pages if there may be uncounted ones, and reports whether it did.
func (in *Instance) recountPages() bool {
	h := &in.alloc
	h.mu.Lock()
	if h.freed || h.uncounted.Load() == 0 {
		h.mu.Unlock()
		return false
	}
	in.countPages()
	over := in.recordBytes()
	h.mu.Unlock()
	if over {
		in.module.engine.quota.enforceBound(in)
	}
	return true
}

// chargeable is the bytes to charge for the instance. mu is held.
func (h *allocation) chargeable() int64 { return instanceBytes + max(h.admitted, h.touched) }

// known is what the instance has by the last count, without what it may come to need.
func (in *Instance) known() int64 {
	h := &in.alloc
	h.mu.Lock()
	defer h.mu.Unlock()
	return instanceBytes + h.touched
}

// recordBytes charges what was counted, unless the growth is below minCharge, and reports whether the quota is exceeded
// now. mu is held, so that the count of one use is not charged to the next one.
func (in *Instance) recordBytes() (over bool) {
	bytes := in.alloc.chargeable()
	if change := bytes - in.alloc.bytes.Load(); change >= minCharge || change < 0 {
		return in.module.engine.quota.setBytes(in, bytes)
	}
	return false
}

// countPages counts the instance's own pages. mu is held.
func (in *Instance) countPages() {
	h := &in.alloc
	began := time.Now()
	n, ok := in.memory.touched(h.size)
	if !ok { // the system does not say
		n = h.size
		if in.origin != nil && !in.origin.copied() {
			n -= int64(in.origin.size)
		}
	}
	h.touched, h.runTime = n, 0
	h.uncounted.Store(0)
	// A count that the system interrupted must not delay the next one for long.
	h.countTime = min(time.Since(began), 4*h.countTime+usualCountTime(h.size))
}

// acquire hands an idle or new instance to a taker that was admitted with so many bytes.
func (in *Instance) acquire(bytes int64, l Lease) {
	h, q := &in.alloc, in.module.engine.quota
	h.mu.Lock()
	h.admitted = bytes - instanceBytes
	h.mu.Unlock()
	q.mu.Lock()
	defer q.mu.Unlock()
	q.charge(h.share, -h.bytes.Load()) // admission charged it anew
	h.bytes.Store(bytes)
	h.use = q.nextUse()
	h.request, h.brief = l.Cancel, l.Brief
	h.share.out[in] = struct{}{}
	q.grantPending()
}

// returnToPool ends a sequence's use and updates what the next one is expected to touch. The instance keeps its pages
// until it is reset or closed.
func (in *Instance) returnToPool() {
	h, q := &in.alloc, in.module.engine.quota
	h.mu.Lock()
	if in.memory != nil {
		if h.update(int64(in.memory.size)); h.uncounted.Load() > 0 {
			in.countPages()
		}
	}
	touched := h.touched
	credit := h.credit
	h.admitted, h.credit, h.reserved = 0, 0, 0
	h.mu.Unlock()
	q.mu.Lock()
	defer q.mu.Unlock()
	delete(h.share.out, in)
	if h.termination.Load() != nil {
		q.terminating -= h.bytes.Load()
	}
	h.use = 0
	h.request = nil
	h.termination.Store(nil)
	s := h.share
	if !h.brief {
		s.expected = max(touched, s.expected-(s.expected-touched)/16)
	}
	q.charge(s, -credit)
	q.grantPending()
}

// resetCharge records that the instance's pages were freed.
func (in *Instance) resetCharge() {
	h, q := &in.alloc, in.module.engine.quota
	h.mu.Lock()
	h.touched, h.runTime = 0, 0
	h.uncounted.Store(0)
	h.mu.Unlock()
	q.mu.Lock()
	defer q.mu.Unlock()
	q.charge(h.share, instanceBytes-h.bytes.Load())
	h.bytes.Store(instanceBytes)
	q.grantPending()
}

// reserve is the system's, within the quota's address space.
func (m *Module) reserve(n uint64) ([]byte, error) {
	if err := m.engine.quota.chargeAddressSpace(m.share, int64(n)); err != nil {
		return nil, err
	}
	b, err := reserve(n)
	if err != nil {
		_ = m.engine.quota.chargeAddressSpace(m.share, -int64(n))
		return nil, fmt.Errorf("%s: %w: %w", m.name, ErrMemory, err)
	}
	return b, nil
}

// release runs free and returns the address space that it frees to the quota.
func (in *Instance) release(free func()) {
	n := 0
	if in.memory != nil {
		n = len(in.memory.reserved)
	}
	free()
	_ = in.module.engine.quota.chargeAddressSpace(in.module.share, -int64(n)) // which can't fail
}

// endBuild ends the use of an instance by the pool that built it. The result is not nil if the instance must end.
func (in *Instance) endBuild() *abort {
	h, q := &in.alloc, in.module.engine.quota
	q.mu.Lock()
	defer q.mu.Unlock()
	h.use = 0
	return h.termination.Load()
}

// chargeNew charges a new instance.
func (in *Instance) chargeNew() {
	h, q := &in.alloc, in.module.engine.quota
	h.share = in.module.share
	q.mu.Lock()
	defer q.mu.Unlock()
	h.bytes.Store(instanceBytes)
	h.use = q.nextUse()
	q.charge(h.share, instanceBytes)
}

// free runs release, which frees the memory, while no count runs, and takes the instance off the quota.
func (in *Instance) free(release func()) {
	h, q := &in.alloc, in.module.engine.quota
	h.mu.Lock()
	h.freed = true
	h.uncounted.Store(0)
	release()
	h.mu.Unlock()
	q.mu.Lock()
	defer q.mu.Unlock()
	if h.closed {
		return
	}
	h.closed, h.use = true, 0
	delete(h.share.out, in)
	if h.termination.Load() != nil {
		q.terminating -= h.bytes.Load()
	}
	q.charge(h.share, -h.bytes.Load())
	h.bytes.Store(0)
	q.grantPending()
}
