package sandbox

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// ErrMemory: the memory of all guests together is used up. A [*Shortage] says so of an instance that could not be had, a
// [*Fault] of one that was ended.
var ErrMemory = errors.New("out of plugin memory")

// QuotaConfig says how much there is.
type QuotaConfig struct {
	Bytes int64         // in all; 0 means no bound
	Space int64         // of address space that instances may reserve; 0 means no bound
	Wait  time.Duration // how long a taker that can wait does
	Name  string        // of the setting that Bytes comes from, for errors
}

// Quota bounds the memory of all guests of all engines that have it, and of what is remembered for them: instances by the
// pages that they touched, snapshots, and each [Cache]. It is safe for concurrent use.
//
// The bound is kept by admission, where an instance is charged what those before it came to need, and by ending instances
// whose growth passes it. Pages are counted at the ends of calls and at ticks. So the bound can be passed for a moment, by what
// the guests that run at the same time touch in one slice of their fuel.
type Quota struct {
	c       QuotaConfig
	pressed atomic.Bool // little is left: it pays to know it exactly

	mu      sync.Mutex
	used    int64 // charged, in all
	fixed   int64 // of it, snapshots
	cached  int64 // of it, caches
	doomed  int64 // of it, instances that are to end
	mapped  int64 // address space
	shares  map[*share]struct{}
	pools   map[*Pool]struct{}
	caches  map[*Cache]struct{}
	queue   []*ticket // in the order of arrival
	counted time.Time // when all doubts were settled last
	stats   QuotaStats
}

// QuotaStats is the state of a quota.
type QuotaStats struct {
	Limit, Used       int64 // bytes
	Snapshots, Cached int64 // of those used
	Queue             int   // takers that wait now
	// Since the start: takers that waited and those that were refused, instances that were ended for growing, and waiting
	// instances that were given back.
	Waited, Refused, Ended, Reclaimed uint64
}

// share is what the instances of one module have. The quota's lock guards it.
type share struct {
	name   string
	bytes  int64 // charged, the snapshot aside
	expect int64 // what sequences came to touch: the most, forgotten slowly
	out    map[*Instance]struct{}
}

// need is what an instance is charged at first: what those before it came to have, and those that are out have.
func (q *Quota) need(s *share, l Lease) int64 {
	if l.Brief {
		return instanceBytes
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	most, sum, n := s.expect, int64(0), int64(0)
	for in := range s.out {
		if !in.held.brief {
			sum += in.held.bytes.Load() - instanceBytes
			n++
		}
	}
	return instanceBytes + max(most, sum/max(n, 1))
}

// ticket is a taker that waits.
type ticket struct {
	of      *share
	bytes   int64
	granted chan struct{} // closed when it is charged
	done    bool
}

// Shortage says that an instance could not be had.
type Shortage struct {
	Module                  string
	Instances               int
	Need, Held, Used, Limit int64 // bytes: of the instances, of the module's other ones, in all
	Setting                 string
	Waited                  time.Duration
	Never                   bool // it is more than there can be
	addressSpace            bool
}

// Error says what is needed and what there is.
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

// Unwrap gives ErrMemory.
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
	return &Quota{c: c, shares: map[*share]struct{}{}, pools: map[*Pool]struct{}{}, caches: map[*Cache]struct{}{}}
}

// Stats reads the state.
func (q *Quota) Stats() QuotaStats {
	q.mu.Lock()
	defer q.mu.Unlock()
	s := q.stats
	s.Limit, s.Used, s.Snapshots, s.Cached, s.Queue = q.c.Bytes, q.used, q.fixed, q.cached, len(q.queue)
	return s
}

// open begins to count a module.
func (q *Quota) open(name string) *share {
	s := &share{name: name, out: map[*Instance]struct{}{}}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.shares[s] = struct{}{}
	return s
}

// held is what a share is charged.
func (q *Quota) held(s *share) int64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	return s.bytes
}

// join and part begin and end the care for a pool's waiting instances.
func (q *Quota) join(p *Pool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.pools[p] = struct{}{}
}

func (q *Quota) part(p *Pool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	delete(q.pools, p)
}

// tight says that no instances are to be made ahead.
func (q *Quota) tight() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.lacks(4*instanceBytes) || q.c.Space > 0 && q.mapped > q.c.Space/2
}

func (q *Quota) close(s *share) {
	q.mu.Lock()
	defer q.mu.Unlock()
	delete(q.shares, s)
}

// admit charges a share n times bytes, when there is room: who is patient waits for it in turn. The error is a [*Shortage],
// or matches ErrCancelled.
func (q *Quota) admit(s *share, n int, bytes int64, l Lease) error {
	need := int64(n) * bytes
	q.lookInto(need)
	q.mu.Lock()
	if q.c.Bytes > 0 && need > q.most(s, need)-q.fixed {
		defer q.mu.Unlock()
		return q.refuse(s, n, need, 0, true)
	}
	if (len(q.queue) == 0 || !l.Patient) && q.take(s, need) {
		q.mu.Unlock()
		return nil
	}
	q.mu.Unlock()
	q.reclaim(need)
	q.mu.Lock()
	if (len(q.queue) == 0 || !l.Patient) && q.take(s, need) {
		q.mu.Unlock()
		return nil
	}
	if !l.Patient || q.c.Wait <= 0 {
		defer q.mu.Unlock()
		return q.refuse(s, n, need, 0, false)
	}
	t := &ticket{of: s, bytes: need, granted: make(chan struct{})}
	q.queue = append(q.queue, t)
	q.stats.Waited++
	q.serve()
	q.mu.Unlock()
	return q.await(t, n, l.Cancel)
}

// await waits until a ticket is granted.
func (q *Quota) await(t *ticket, n int, cancel <-chan struct{}) error {
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
		q.charge(t.of, -t.bytes)
	} else {
		q.queue = slices.DeleteFunc(q.queue, func(o *ticket) bool { return o == t })
	}
	q.serve() // those behind it may fit
	if cancelled {
		return fmt.Errorf("%s: %w while it waited for memory", t.of.name, ErrCancelled)
	}
	return q.refuse(t.of, n, t.bytes, q.c.Wait, false)
}

// refuse makes the error of a taker. The lock is held.
func (q *Quota) refuse(s *share, n int, need int64, waited time.Duration, never bool) error {
	q.stats.Refused++
	return &Shortage{Module: s.name, Instances: n, Need: need, Held: s.bytes, Used: q.used, Limit: q.c.Bytes, Setting: q.c.Name, Waited: waited, Never: never}
}

// most is how much may be used when a share takes more: what has more than half leaves an eighth to the others. The lock is
// held.
func (q *Quota) most(s *share, need int64) int64 {
	if s.bytes+need > q.c.Bytes/2 {
		return q.c.Bytes - q.c.Bytes/8
	}
	return q.c.Bytes
}

// take charges a share if there is room. The lock is held.
func (q *Quota) take(s *share, need int64) bool {
	if q.c.Bytes > 0 && q.used+need > q.most(s, need) {
		return false
	}
	q.charge(s, need)
	return true
}

// charge books bytes of a share. The lock is held.
func (q *Quota) charge(s *share, bytes int64) {
	s.bytes += bytes
	q.used += bytes
	q.pressed.Store(q.c.Bytes > 0 && q.used > q.c.Bytes-q.c.Bytes/4)
}

// give books bytes back.
func (q *Quota) give(s *share, bytes int64) {
	if bytes == 0 {
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.charge(s, -bytes)
	q.serve()
}

// serve grants what fits now: the share that has least comes first, its tickets in their order. One that does not fit is
// waited for, lest small ones pass it by for ever. The lock is held.
func (q *Quota) serve() {
	for len(q.queue) > 0 {
		var next *ticket
		for _, t := range q.queue {
			if next == nil || t.of.bytes < next.of.bytes {
				next = t
			}
		}
		if !q.take(next.of, next.bytes) {
			return
		}
		next.done = true
		close(next.granted)
		q.queue = slices.DeleteFunc(q.queue, func(t *ticket) bool { return t == next })
	}
}

// snapshot books what all instances of a module share. It is there already; the error is a [*Shortage].
func (q *Quota) snapshot(s *share, bytes int64) error {
	q.reclaimOver(bytes)
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.c.Bytes > 0 && bytes > 0 && q.used+bytes > q.c.Bytes {
		return q.refuse(s, 1, bytes, 0, false)
	}
	q.used += bytes
	q.fixed += bytes
	q.serve()
	return nil
}

// space books address space.
func (q *Quota) space(s *share, bytes int64) error {
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
		q.shed()
	}
}

// room is what is free beside what would be used with more. The lock is held.
func (q *Quota) lacks(more int64) bool { return q.c.Bytes > 0 && q.used+more > q.c.Bytes-q.c.Bytes/8 }

// reclaimOver is reclaim where more bytes do not fit.
func (q *Quota) reclaimOver(more int64) {
	q.mu.Lock()
	lacks := q.c.Bytes > 0 && q.used+more > q.c.Bytes
	q.mu.Unlock()
	if lacks {
		q.reclaim(more)
	}
}

// settleEvery is how often all doubts are settled at most.
const settleEvery = 50 * time.Millisecond

// lookInto settles doubts where more bytes might not fit for them.
func (q *Quota) lookInto(more int64) {
	q.mu.Lock()
	for s := range q.shares {
		for in := range s.out {
			more += in.held.doubt.Load()
		}
	}
	lacks := q.lacks(more)
	q.mu.Unlock()
	if lacks {
		q.settle()
	}
}

// settle counts the pages of all instances of which it is not known what they touched.
func (q *Quota) settle() {
	q.mu.Lock()
	var doubtful []*Instance
	if now := time.Now(); now.Sub(q.counted) > settleEvery {
		q.counted = now
		for s := range q.shares {
			for in := range s.out {
				if in.held.doubt.Load() > 0 {
					doubtful = append(doubtful, in)
				}
			}
		}
	}
	q.mu.Unlock()
	for _, in := range doubtful {
		in.settle()
	}
}

// reclaim looks for more bytes: first what the books are wrong about, then instances that wait, then what is remembered.
func (q *Quota) reclaim(more int64) {
	q.mu.Lock()
	if !q.lacks(more) {
		q.mu.Unlock()
		return
	}
	q.mu.Unlock()
	q.settle()
	if q.short(more) > 0 {
		q.shed()
	}
	if short := q.short(more); short > 0 {
		q.shrink(short)
	}
}

// short is how many bytes are missing for more.
func (q *Quota) short(more int64) int64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.lacks(more) {
		return 0
	}
	return q.used + more - (q.c.Bytes - q.c.Bytes/8)
}

// shed gives back the instances that wait.
func (q *Quota) shed() {
	q.mu.Lock()
	pools := make([]*Pool, 0, len(q.pools))
	for p := range q.pools {
		pools = append(pools, p)
	}
	q.mu.Unlock()
	for _, p := range pools {
		n := p.shed()
		q.mu.Lock()
		q.stats.Reclaimed += uint64(n)
		q.mu.Unlock()
	}
}

// grew books what an instance has come to. Where that is too much for all, somebody ends: see doom.
func (q *Quota) grew(in *Instance, bytes int64) {
	q.mu.Lock()
	h := &in.held
	if h.closed {
		q.mu.Unlock()
		return
	}
	delta := bytes - h.bytes.Load()
	h.bytes.Store(bytes)
	q.charge(h.share, delta)
	if h.doom.Load() != nil {
		q.doomed += delta
	}
	if delta < 0 {
		q.serve()
	}
	over := q.c.Bytes > 0 && delta > 0 && q.used > q.c.Bytes
	q.mu.Unlock()
	if !over {
		return
	}
	q.reclaim(0)
	q.doom(in)
}

// doom ends instances until the others fit: of the module that has most the request that has most, and of that the largest
// one. It ends at its next tick or call. Where those do not come, because its request waits for its turn, and the bound is
// passed by half, it is the turn of the one that grew, in, if it has more than others on average.
func (q *Quota) doom(in *Instance) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for q.used-q.doomed > q.c.Bytes {
		victim := q.largest()
		if victim == nil {
			break
		}
		q.mu.Unlock()
		doubtful := victim.settle() // nobody ends on suspicion
		q.mu.Lock()
		if h := &victim.held; !doubtful && !h.closed && h.doom.Load() == nil && q.used-q.doomed > q.c.Bytes {
			q.mark(victim)
		}
	}
	outs := 0
	for s := range q.shares {
		outs += len(s.out)
	}
	h := &in.held
	if q.used > q.c.Bytes+q.c.Bytes/2 && !h.closed && h.doom.Load() == nil && h.bytes.Load()*int64(outs) > q.c.Bytes {
		q.mark(in)
	}
}

func (q *Quota) mark(in *Instance) {
	h := &in.held
	h.doom.Store(&abort{kind: ErrMemory, cause: fmt.Sprintf("this instance has %s, all of the plugin %s, all plugins together %s of %s (%s)",
		size(h.bytes.Load()), size(h.share.bytes), size(q.used), size(q.c.Bytes), q.c.Name)})
	q.doomed += h.bytes.Load()
	q.stats.Ended++
}

// largest finds whom to end. The lock is held.
func (q *Quota) largest() (victim *Instance) {
	var most int64
	var from *share
	for s := range q.shares {
		var sum int64
		for in := range s.out {
			if in.held.doom.Load() == nil {
				sum += in.held.bytes.Load()
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
		if h := &in.held; h.doom.Load() == nil && h.request != nil {
			requests[h.request] += h.bytes.Load()
		}
	}
	weight := func(in *Instance) int64 { return max(requests[in.held.request], in.held.bytes.Load()) }
	for in := range from.out {
		if in.held.doom.Load() != nil {
			continue
		}
		if victim == nil || weight(in) > weight(victim) ||
			weight(in) == weight(victim) && in.held.bytes.Load() > victim.held.bytes.Load() {
			victim = in
		}
	}
	return victim
}
