package sandbox

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// ErrMemory: the memory of all guests together is used up. A [*Shortage] says so of an instance that could not be had,
// a [*Fault] of one that was ended.
var ErrMemory = errors.New("out of plugin memory")

// QuotaConfig sets a quota's bounds.
type QuotaConfig struct {
	Bytes int64         // in all; 0 means no bound
	Space int64         // of address space that instances may reserve; 0 means no bound
	Wait  time.Duration // how long a taker that can wait does
	Name  string        // of the setting that Bytes comes from, for errors
}

// Quota bounds the memory of all guests of all engines that have it, and of what is remembered for them: instances by
// the pages that they touched, snapshots, and each [Cache]. It is safe for concurrent use.
//
// The bound is kept by admission, where an instance is charged what those before it came to need, and by ending
// instances whose growth passes it. Pages are counted at the ends of calls and at ticks: not at each, for a count takes
// time, but before an instance can have touched more than is left. So the bound can be passed for a moment, by what the
// guests that run at the same time touch in one slice of their fuel.
type Quota struct {
	c    QuotaConfig
	room atomic.Int64 // bytes that are not charged; the most there is without a bound

	mu            sync.Mutex
	used          int64 // charged in total
	snapshotBytes int64 // of it, snapshots
	cacheBytes    int64 // of it, caches
	terminating   int64 // of it, by instances that will be terminated
	mapped        int64 // address space
	shares        map[*share]struct{}
	pools         map[*Pool]struct{}
	caches        map[*Cache]struct{}
	queue         []*pendingCharge // in the order of arrival
	lastRecount   time.Time        // when all pages were last recounted
	uses          uint64           // of instances, since the start
	stats         QuotaStats
}

// QuotaStats is the state of a quota.
type QuotaStats struct {
	Limit, Used       int64 // bytes
	Snapshots, Cached int64 // of those used
	Queue             int   // takers that wait now
	// Since the start: takers that waited, takers that were refused, instances terminated because they grew, and idle
	// instances that were freed.
	Waited, Refused, Ended, Reclaimed uint64
}

// share is the memory of one module's instances. The quota's lock guards it.
type share struct {
	name     string
	bytes    int64 // charged, the snapshot aside
	expected int64 // bytes that sequences touch: a maximum that decays slowly
	out      map[*Instance]struct{}
}

// initialCharge is what a new instance is charged: what earlier ones came to use, or what those in use have on average.
func (q *Quota) initialCharge(s *share, l Lease) int64 {
	if l.Brief {
		return instanceBytes
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	most, sum, n := s.expected, int64(0), int64(0)
	for in := range s.out {
		if !in.alloc.brief {
			sum += in.alloc.bytes.Load() - instanceBytes
			n++
		}
	}
	return instanceBytes + max(most, sum/max(n, 1))
}

// pendingCharge is a request for memory that waits in the queue.
type pendingCharge struct {
	share   *share
	bytes   int64
	granted chan struct{} // closed when it is charged
	done    bool          // it is charged
}

// Shortage is the error of an instance that there is no memory for.
type Shortage struct {
	Module                  string
	Instances               int
	Need, Held, Used, Limit int64 // bytes: of the instances, of the module's other ones, in all
	Setting                 string
	Waited                  time.Duration
	Never                   bool // more than the quota allows one module
	addressSpace            bool
}

// Error reports the bytes needed, used and allowed.
func (s *Shortage) Error() string {
	many := "another instance needs"
	if s.Instances > 1 {
		many = fmt.Sprintf("%d more instances need", s.Instances)
	}
	what := ErrMemory.Error()
	if s.addressSpace {
		what = "out of address space"
	}
	text := fmt.Sprintf("%s: %s: %s %s, its others have %s, %s of %s are in use (%s)",
		s.Module, what, many, size(s.Need), size(s.Held), size(s.Used), size(s.Limit), s.Setting)
	if s.Never {
		text += ": that is more than one request can have"
	} else if s.Waited > 0 {
		text += fmt.Sprintf(" after %v of waiting", s.Waited)
	}
	return text
}

// Unwrap returns ErrMemory.
func (s *Shortage) Unwrap() error { return ErrMemory }

// size writes a number of bytes.
func size(n int64) string {
	if n < 10<<20 {
		return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
	}
	return fmt.Sprintf("%d MiB", n>>20)
}

// NewQuota makes a quota of which nothing is used.
func NewQuota(c QuotaConfig) *Quota {
	q := &Quota{c: c, shares: map[*share]struct{}{}, pools: map[*Pool]struct{}{}, caches: map[*Cache]struct{}{}}
	q.use(0)
	return q
}

// Stats reads the state.
func (q *Quota) Stats() QuotaStats {
	q.mu.Lock()
	defer q.mu.Unlock()
	s := q.stats
	s.Limit, s.Used, s.Snapshots, s.Cached, s.Queue = q.c.Bytes, q.used, q.snapshotBytes, q.cacheBytes, len(q.queue)
	return s
}

// addShare adds a module to the quota.
func (q *Quota) addShare(name string) *share {
	s := &share{name: name, out: map[*Instance]struct{}{}}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.shares[s] = struct{}{}
	return s
}

// shareBytes returns what a share is charged.
func (q *Quota) shareBytes(s *share) int64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	return s.bytes
}

// addPool and removePool add and remove a pool whose idle instances the quota may free.
func (q *Quota) addPool(p *Pool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.pools[p] = struct{}{}
}

func (q *Quota) removePool(p *Pool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	delete(q.pools, p)
}

// isTight reports that pools must not build instances ahead.
func (q *Quota) isTight() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.exceeds(4*instanceBytes) || q.c.Space > 0 && q.mapped > q.c.Space/2
}

func (q *Quota) removeShare(s *share) {
	q.mu.Lock()
	defer q.mu.Unlock()
	delete(q.shares, s)
}

// admit charges a share for n instances when there is room, and returns what each of them was charged. least is what
// each is known to need, and bytes what it may come to need: an estimate, which makes takers wait but is bounded, so
// that no use of a module can close it for later ones. A patient lease waits in the queue. The error is a [*Shortage],
// or matches ErrCancelled.
func (q *Quota) admit(s *share, n int, least, bytes int64, l Lease) (each int64, err error) {
	q.recountIfNeeded(int64(n) * bytes)
	q.mu.Lock()
	if q.c.Bytes > 0 {
		room := q.maxUsed(s, int64(n)*bytes) - q.snapshotBytes
		if need := int64(n) * least; need > room {
			defer q.mu.Unlock()
			return 0, q.refuse(s, n, need, 0, true)
		}
		bytes = max(least, min(bytes, (room-room/4)/int64(n)))
	}
	q.mu.Unlock()
	if err := q.chargeOrWait(s, n, int64(n)*bytes, l); err != nil {
		q.forget(s, err)
		return 0, err
	}
	return bytes, nil
}

// forget halves what a share's instances are expected to need after a taker was refused for it. Those in use still
// count by what they have.
func (q *Quota) forget(s *share, refused error) {
	if !errors.Is(refused, ErrMemory) {
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	s.expected /= 2
}

// chargeOrWait charges a share when there is room.
func (q *Quota) chargeOrWait(s *share, n int, need int64, l Lease) error {
	q.mu.Lock()
	if (len(q.queue) == 0 || !l.Patient) && q.tryCharge(s, need) {
		q.mu.Unlock()
		return nil
	}
	q.mu.Unlock()
	q.reclaim(need)
	q.mu.Lock()
	if (len(q.queue) == 0 || !l.Patient) && q.tryCharge(s, need) {
		q.mu.Unlock()
		return nil
	}
	if !l.Patient || q.c.Wait <= 0 {
		defer q.mu.Unlock()
		return q.refuse(s, n, need, 0, false)
	}
	t := &pendingCharge{share: s, bytes: need, granted: make(chan struct{})}
	q.queue = append(q.queue, t)
	q.stats.Waited++
	q.grantPending()
	q.mu.Unlock()
	return q.await(t, n, l.Cancel)
}

// await waits until a pending charge is granted.
func (q *Quota) await(t *pendingCharge, n int, cancel <-chan struct{}) error {
	timer := time.NewTimer(q.c.Wait)
	defer timer.Stop()
	cancelled := false
	select {
	case <-t.granted:
		return nil
	case <-cancel:
		cancelled = true
	case <-timer.C:
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if t.done && !cancelled { // at the last moment
		return nil
	}
	if t.done {
		q.charge(t.share, -t.bytes)
	} else {
		q.queue = slices.DeleteFunc(q.queue, func(o *pendingCharge) bool { return o == t })
	}
	q.grantPending() // those behind it may fit
	if cancelled {
		return fmt.Errorf("%s: %w while it waited for memory", t.share.name, ErrCancelled)
	}
	return q.refuse(t.share, n, t.bytes, q.c.Wait, false)
}

// refuse returns the error of a refused taker. The lock is held.
func (q *Quota) refuse(s *share, n int, need int64, waited time.Duration, never bool) error {
	q.stats.Refused++
	return &Shortage{Module: s.name, Instances: n, Need: need, Held: s.bytes, Used: q.used, Limit: q.c.Bytes,
		Setting: q.c.Name, Waited: waited, Never: never}
}

// maxUsed is the bound on used bytes when a share takes more: a share of over half must leave an eighth to others. The
// lock is held.
func (q *Quota) maxUsed(s *share, need int64) int64 {
	if s.bytes+need > q.c.Bytes/2 {
		return q.c.Bytes - q.c.Bytes/8
	}
	return q.c.Bytes
}

// tryCharge charges a share if there is room. The lock is held.
func (q *Quota) tryCharge(s *share, need int64) bool {
	if q.c.Bytes > 0 && q.used+need > q.maxUsed(s, need) {
		return false
	}
	q.charge(s, need)
	return true
}

// charge adds bytes to a share. The lock is held.
func (q *Quota) charge(s *share, bytes int64) {
	s.bytes += bytes
	q.use(bytes)
}

// use adds bytes to those that are used. The lock is held.
func (q *Quota) use(bytes int64) {
	q.used += bytes
	if q.c.Bytes > 0 {
		q.room.Store(q.c.Bytes - q.used)
	} else {
		q.room.Store(math.MaxInt64)
	}
}

// refund takes bytes off a share.
func (q *Quota) refund(s *share, bytes int64) {
	if bytes == 0 {
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.charge(s, -bytes)
	q.grantPending()
}

// grantPending grants the pending charges that fit now: the smallest share first, its charges in order. It stops at one
// that does not fit, so that small ones cannot starve it. The lock is held.
func (q *Quota) grantPending() {
	for len(q.queue) > 0 {
		var next *pendingCharge
		for _, t := range q.queue {
			if next == nil || t.share.bytes < next.share.bytes {
				next = t
			}
		}
		if !q.tryCharge(next.share, next.bytes) {
			return
		}
		next.done = true
		close(next.granted)
		q.queue = slices.DeleteFunc(q.queue, func(t *pendingCharge) bool { return t == next })
	}
}

// chargeSnapshot charges the snapshot that a module's instances share. The error is a [*Shortage].
func (q *Quota) chargeSnapshot(s *share, bytes int64) error {
	q.reclaimIfFull(bytes)
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.c.Bytes > 0 && bytes > 0 && q.used+bytes > q.c.Bytes {
		return q.refuse(s, 1, bytes, 0, false)
	}
	q.use(bytes)
	q.snapshotBytes += bytes
	q.grantPending()
	return nil
}

// chargeAddressSpace charges or, with negative bytes, returns address space.
func (q *Quota) chargeAddressSpace(s *share, bytes int64) error {
	for try := 0; ; try++ {
		q.mu.Lock()
		if bytes <= 0 || q.c.Space == 0 || q.mapped+bytes <= q.c.Space {
			q.mapped += bytes
			q.mu.Unlock()
			return nil
		}
		if try > 0 {
			defer q.mu.Unlock()
			q.stats.Refused++
			return &Shortage{Module: s.name, Instances: 1, Need: bytes, Held: s.bytes, Used: q.mapped, Limit: q.c.Space,
				Setting: "the limit of the process's address space", addressSpace: true}
		}
		q.mu.Unlock()
		q.dropIdle()
	}
}

// exceeds reports whether more bytes would use over seven eighths of the quota. The lock is held.
func (q *Quota) exceeds(more int64) bool { return q.c.Bytes > 0 && q.used+more > q.c.Bytes-q.c.Bytes/8 }

// reclaimIfFull reclaims if more bytes do not fit.
func (q *Quota) reclaimIfFull(more int64) {
	q.mu.Lock()
	full := q.c.Bytes > 0 && q.used+more > q.c.Bytes
	q.mu.Unlock()
	if full {
		q.reclaim(more)
	}
}

// recountInterval is the least time between two recounts of all instances.
const recountInterval = 50 * time.Millisecond

// recountIfNeeded recounts if more bytes might not fit, should all uncounted pages be touched.
func (q *Quota) recountIfNeeded(more int64) {
	q.mu.Lock()
	for s := range q.shares {
		for in := range s.out {
			more += in.alloc.uncounted.Load()
		}
	}
	exceeds := q.exceeds(more)
	q.mu.Unlock()
	if exceeds {
		q.recountAll()
	}
}

// recountAll counts the pages of all instances that may have touched uncounted ones.
func (q *Quota) recountAll() {
	q.mu.Lock()
	var uncounted []*Instance
	if now := time.Now(); now.Sub(q.lastRecount) > recountInterval {
		q.lastRecount = now
		for s := range q.shares {
			for in := range s.out {
				if in.alloc.uncounted.Load() > 0 {
					uncounted = append(uncounted, in)
				}
			}
		}
	}
	q.mu.Unlock()
	for _, in := range uncounted {
		in.recountPages()
	}
}

// reclaim frees memory for more bytes: first by recounting pages, then from idle instances, then from caches.
func (q *Quota) reclaim(more int64) {
	q.mu.Lock()
	if !q.exceeds(more) {
		q.mu.Unlock()
		return
	}
	q.mu.Unlock()
	q.recountAll()
	if q.missing(more) > 0 {
		q.dropIdle()
	}
	if missing := q.missing(more); missing > 0 {
		q.shrink(missing)
	}
}

// missing returns how many bytes must be freed before more fit.
func (q *Quota) missing(more int64) int64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.exceeds(more) {
		return 0
	}
	return q.used + more - (q.c.Bytes - q.c.Bytes/8)
}

// dropIdle frees the idle instances of all pools.
func (q *Quota) dropIdle() {
	q.mu.Lock()
	pools := make([]*Pool, 0, len(q.pools))
	for p := range q.pools {
		pools = append(pools, p)
	}
	q.mu.Unlock()
	for _, p := range pools {
		n := p.dropIdle()
		q.mu.Lock()
		q.stats.Reclaimed += uint64(n)
		q.mu.Unlock()
	}
}

// nextUse numbers a use of an instance. The lock is held.
func (q *Quota) nextUse() uint64 {
	q.uses++
	return q.uses
}

// setBytes records an instance's size, and reports whether it grew and the quota is exceeded now.
func (q *Quota) setBytes(in *Instance, bytes int64) (over bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	h := &in.alloc
	if h.closed {
		return false
	}
	delta := bytes - h.bytes.Load()
	h.bytes.Store(bytes)
	q.charge(h.share, delta)
	if h.termination.Load() != nil {
		q.terminating += delta
	}
	if delta < 0 {
		q.grantPending()
	}
	return q.c.Bytes > 0 && delta > 0 && q.used > q.c.Bytes
}

// enforceBound brings a quota that in exceeded back to its bound: it frees what nobody uses and then ends instances.
func (q *Quota) enforceBound(in *Instance) {
	q.reclaim(0)
	q.terminateLargest(in)
}

// terminateLargest terminates instances until the others fit: of the largest module's largest request the largest one.
// It ends at its next tick or call. If that does not come, because its request waits for a processor, and the quota is
// exceeded by half, it terminates in, the one that grew, if it is larger than the average.
func (q *Quota) terminateLargest(in *Instance) {
	for {
		victim, use := q.chooseVictim()
		if victim == nil {
			break
		}
		q.terminateUser(victim, use)
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	instances := 0
	for s := range q.shares {
		instances += len(s.out)
	}
	h := &in.alloc
	if q.used > q.c.Bytes+q.c.Bytes/2 && h.use != 0 && h.termination.Load() == nil &&
		h.bytes.Load()*int64(instances) > q.c.Bytes {
		q.terminate(in)
	}
}

// chooseVictim returns the instance to terminate next and the number of its use; nil if the quota is not exceeded.
func (q *Quota) chooseVictim() (victim *Instance, use uint64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.used-q.terminating <= q.c.Bytes {
		return nil, 0
	}
	if victim = q.largest(); victim == nil {
		return nil, 0
	}
	return victim, victim.alloc.use
}

// terminateUser terminates an instance if it is still in this use, which may have ended since it was chosen, and if its
// count was exact. Otherwise it was counted, and another one may be the largest.
func (q *Quota) terminateUser(victim *Instance, use uint64) {
	if victim.recountPages() {
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if h := &victim.alloc; h.use == use && h.termination.Load() == nil && q.used-q.terminating > q.c.Bytes {
		q.terminate(victim)
	}
}

// terminate marks an instance that somebody uses. The lock is held.
func (q *Quota) terminate(in *Instance) {
	h := &in.alloc
	h.termination.Store(&abort{kind: ErrMemory,
		cause: fmt.Sprintf("this instance has %s, all of the plugin %s, all plugins together %s of %s (%s)",
			size(h.bytes.Load()), size(h.share.bytes), size(q.used), size(q.c.Bytes), q.c.Name)})
	q.terminating += h.bytes.Load()
	q.stats.Ended++
}

// largest returns the instance to terminate next. The lock is held.
func (q *Quota) largest() (victim *Instance) {
	var most int64
	var from *share
	for s := range q.shares {
		var sum int64
		for in := range s.out {
			if in.alloc.termination.Load() == nil {
				sum += in.alloc.bytes.Load()
			}
		}
		if sum > most {
			most, from = sum, s
		}
	}
	if from == nil {
		return nil
	}
	// A request's sequences have its cancellation in common.
	requests := map[<-chan struct{}]int64{}
	for in := range from.out {
		if h := &in.alloc; h.termination.Load() == nil && h.request != nil {
			requests[h.request] += h.bytes.Load()
		}
	}
	weight := func(in *Instance) int64 { return max(requests[in.alloc.request], in.alloc.bytes.Load()) }
	for in := range from.out {
		if in.alloc.termination.Load() != nil {
			continue
		}
		if victim == nil || weight(in) > weight(victim) ||
			weight(in) == weight(victim) && in.alloc.bytes.Load() > victim.alloc.bytes.Load() {
			victim = in
		}
	}
	return victim
}
