package sandbox

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"
)

// toucher is a guest of 16 MiB. Its export touch writes to a number of pages, grow adds a number of 64 KiB units, and
// trap traps.
func toucher() []byte {
	const pages, most = 256, 1024
	loop := []byte{
		1, 1, 0x7f, // a local
		0x02, 0x40, 0x03, 0x40, 0x20, 1, 0x20, 0, 0x4f, 0x0d, 1, // until it is n
		0x20, 1, 0x41, 12, 0x74, 0x41, 1, 0x3a, 0, 0, // memory[i << 12] = 1
		0x20, 1, 0x41, 1, 0x6a, 0x21, 1, 0x0c, 0, 0x0b, 0x0b, 0x0b,
	}
	grow := []byte{0, 0x20, 0, 0x40, 0, 0x1a, 0x0b}
	export := func(name string, index byte) []byte { return append(str(name), 0, index) }
	sized := func(b []byte) []byte { return append(uleb(len(b)), b...) }
	return wasmOf(
		section(1, []byte{0x60, 1, 0x7f, 0}, []byte{0x60, 0, 0}),
		section(3, []byte{0}, []byte{0}, []byte{1}),
		section(5, append(append([]byte{1}, uleb(pages)...), uleb(most)...)),
		section(7, export("touch", 0), export("grow", 1), export("trap", 2)),
		section(10, sized(loop), sized(grow), sized([]byte{0, 0x00, 0x0b})),
	)
}

// touchPages calls touch.
func touchPages(in *Instance, pages int) error {
	_, err := in.Call(in.Func("touch"), []uint64{uint64(pages)}, plenty)
	return err
}

// world is modules under one quota.
type world struct {
	t *testing.T
	q *Quota
	e *Engine
}

func newWorld(t *testing.T, c QuotaConfig) *world {
	c.Name = "plugins.memory"
	q := NewQuota(c)
	return &world{t, q, engine(t, Config{Quota: q})}
}

// pool returns a pool that is closed when the test ends. Nothing may be charged after that.
func (w *world) pool(name string, c PoolConfig) *Pool {
	w.t.Helper()
	m, err := w.e.Compile(w.t.Context(), toucher(), ModuleConfig{Name: name})
	if err != nil {
		w.t.Fatal(err)
	}
	p, err := m.NewPool(c)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() {
		p.Close()
		select {
		case <-p.Drained():
		case <-time.After(10 * time.Second):
			w.t.Error("not drained")
		}
		m.Close()
		if q := w.q; q.used != q.cacheBytes+q.snapshotBytes && len(q.shares) == 0 || m.share.bytes != 0 ||
			q.terminating != 0 && len(q.shares) == 0 {
			w.t.Errorf("after all is closed: %d charged, %d of the module, %d terminating", q.used, m.share.bytes,
				q.terminating)
		}
	})
	return p
}

// grab takes an instance, and fails the test if there is none.
func grab(t *testing.T, p *Pool, l Lease) *Instance {
	t.Helper()
	in, err := p.Take(l)
	if err != nil {
		t.Fatal(err)
	}
	return in
}

const mib = 1 << 20

// TestQuotaCounts checks that touched pages are charged, and the snapshot once.
func TestQuotaCounts(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("pages are counted on Linux alone")
	}
	w := newWorld(t, QuotaConfig{})
	p := w.pool("a", PoolConfig{Ready: 1})
	if s := w.q.Stats(); s.Snapshots != 16*mib {
		t.Errorf("snapshots %d", s.Snapshots)
	}
	in := grab(t, p, Lease{})
	for _, pages := range []int{0, 1, 700, 700, 4096} {
		if err := touchPages(in, pages); err != nil {
			t.Fatal(err)
		}
		in.alloc.uncounted.Store(1) // so that it is counted
		in.recountPages()
		if got := in.alloc.touched; got != int64(pages)*pageSize {
			t.Errorf("%d pages touched, %d bytes counted", pages, got)
		}
		if got, want := in.alloc.bytes.Load(), int64(instanceBytes+pages*pageSize); got > want || got < want-minCharge {
			t.Errorf("%d pages touched, %d bytes charged, want %d", pages, got, want)
		}
	}
	twin, err := p.Clone(in, Lease{})
	if err != nil {
		t.Fatal(err)
	}
	if twin.alloc.bytes.Load() != in.alloc.bytes.Load() {
		t.Errorf("a clone is charged %d, its original %d", twin.alloc.bytes.Load(), in.alloc.bytes.Load())
	}
	p.Put(twin)
	p.Put(in)
	if got := in.alloc.bytes.Load(); got != instanceBytes {
		t.Errorf("%d bytes charged after a reset", got)
	}
}

// TestQuotaCallCounts checks that a call which touches many pages is charged without an explicit count.
func TestQuotaCallCounts(t *testing.T) {
	w := newWorld(t, QuotaConfig{})
	in := grab(t, w.pool("a", PoolConfig{Ready: 1}), Lease{})
	if err := touchPages(in, 4096); err != nil {
		t.Fatal(err)
	}
	if got := in.alloc.bytes.Load(); got < 16*mib {
		t.Errorf("%d bytes charged", got)
	}
	in.home.Put(in)
}

// TestSlowCount checks that a guest which grows is ended at the bound though its last count took long, as on a busy
// machine.
func TestSlowCount(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("pages are counted on Linux alone")
	}
	w := newWorld(t, QuotaConfig{Bytes: 48 * mib}) // of which the snapshot takes 16
	p := w.pool("a", PoolConfig{Ready: 1})
	in := grab(t, p, Lease{})
	defer p.Put(in)
	if _, err := in.Call(in.Func("grow"), []uint64{512}, plenty); err != nil {
		t.Fatal(err)
	}
	var err error
	pages := 0
	for ; err == nil && pages < 12000; pages += 256 {
		in.alloc.mu.Lock()
		in.alloc.countTime = time.Second
		in.alloc.mu.Unlock()
		err = touchPages(in, pages)
	}
	if !errors.Is(err, ErrMemory) || pages > 10000 {
		t.Errorf("%d pages touched: %v", pages, err)
	}
}

// TestScansAgree checks that both ways to ask the kernel agree.
func TestScansAgree(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("pages are counted on Linux alone")
	}
	in := grab(t, newWorld(t, QuotaConfig{}).pool("a", PoolConfig{Ready: 1}), Lease{})
	m := in.Memory()
	for page := range 500 { // more runs than one answer holds
		m[page*3*pageSize] = 1
	}
	n, ok := in.memory.touched(int64(len(m)))
	slow, slowOK := scanSlowly(in.memory)
	if !ok || !slowOK || n != slow || n != 500*pageSize {
		t.Errorf("%d (%v), page by page %d (%v), want %d", n, ok, slow, slowOK, 500*pageSize)
	}
	in.home.Put(in)
}

// TestQuotaWaits checks that takers wait in order, for a limited time, and can cancel.
func TestQuotaWaits(t *testing.T) {
	w := newWorld(t, QuotaConfig{Bytes: 64 * mib, Wait: time.Minute})
	p, other := w.pool("a", PoolConfig{Ready: 1}), w.pool("b", PoolConfig{Ready: 1})
	big := grab(t, p, Lease{})
	if err := touchPages(big, 4096); err != nil {
		t.Fatal(err)
	}
	// An instance is expected to need as much as those in use: there is no room for a second one.
	_, err := p.Take(Lease{})
	var no *Shortage
	if !errors.As(err, &no) || !errors.Is(err, ErrMemory) || no.Never || no.Waited != 0 {
		t.Fatalf("without waiting: %v", err)
	}
	for _, part := range []string{"a: out of plugin memory: another instance needs 16 MiB",
		"48 MiB of 64 MiB are in use (plugins.memory)"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%q lacks %q", err, part)
		}
	}
	if err := p.Reserve(big, 4, Lease{Patient: true}); !errors.As(err, &no) || !no.Never ||
		!strings.Contains(err.Error(), "4 more instances need 65 MiB") {
		t.Errorf("more than there is: %v", err)
	}
	cancel := make(chan struct{})
	gone, second := make(chan error, 1), make(chan *Instance, 1)
	go func() {
		_, err := p.Take(Lease{Patient: true, Cancel: cancel})
		gone <- err
	}()
	waiting(t, w.q, 1)
	go func() {
		in, err := p.Take(Lease{Patient: true})
		if err != nil {
			t.Error(err)
		}
		second <- in
	}()
	waiting(t, w.q, 2)
	// The other module's small one comes first.
	small := grab(t, other, Lease{Patient: true})
	close(cancel)
	if err := <-gone; !errors.Is(err, ErrCancelled) {
		t.Errorf("a taker that cancelled: %v", err)
	}
	p.Put(big)
	p.Put(<-second)
	other.Put(small)
	if s := w.q.Stats(); s.Queue != 0 || s.Waited < 2 || s.Refused != 2 {
		t.Errorf("%+v", s)
	}

	w.q.c.Wait = time.Millisecond
	big = grab(t, p, Lease{})
	if err := touchPages(big, 4096); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Take(Lease{Patient: true}); !errors.As(err, &no) ||
		!strings.Contains(err.Error(), "after 1ms of waiting") {
		t.Errorf("too long: %v", err)
	}
	p.Put(big)
}

// waiting waits until n takers are waiting.
func waiting(t *testing.T, q *Quota, n int) {
	t.Helper()
	for range 5000 {
		if q.Stats().Queue == n {
			return
		}
		time.Sleep(time.Millisecond)
	}
	t.Fatalf("%d takers wait, want %d", q.Stats().Queue, n)
}

// TestQuotaEnds checks that the instance that has most is ended, and not the one whose growth exceeds the bound.
func TestQuotaEnds(t *testing.T) {
	w := newWorld(t, QuotaConfig{Bytes: 80 * mib})
	hungry, small := w.pool("hungry", PoolConfig{Ready: 1}), w.pool("small", PoolConfig{Ready: 1})
	one, many := make(chan struct{}), make(chan struct{})
	neighbour := grab(t, small, Lease{})
	if err := touchPages(neighbour, 1024); err != nil {
		t.Fatal(err)
	}
	single := grab(t, hungry, Lease{Cancel: one})
	var greedy []*Instance
	for range 4 { // before any of them has touched anything
		greedy = append(greedy, grab(t, hungry, Lease{Cancel: many}))
	}
	if err := touchPages(single, 2600); err != nil {
		t.Fatal(err)
	}
	for i, in := range greedy[:3] {
		if err := touchPages(in, 2500); err != nil {
			t.Fatal(i, err)
		}
	}
	if err := touchPages(neighbour, 3000); err != nil { // this passes the bound
		t.Fatal(err)
	}
	if err := touchPages(neighbour, 3000); err != nil {
		t.Errorf("the neighbour was ended: %v", err)
	}
	if err := touchPages(single, 2600); err != nil {
		t.Errorf("the request with one sequence was ended: %v", err)
	}
	var ended error
	for _, in := range greedy {
		if err := touchPages(in, 10); err != nil {
			ended = errors.Join(ended, err)
		}
	}
	var fault *Fault
	if !errors.As(ended, &fault) || fault.Kind != ErrMemory {
		t.Fatalf("nobody was ended: %v", ended)
	}
	if text := fault.Error(); !strings.HasPrefix(text, "hungry: touch: out of plugin memory: this instance has ") ||
		!strings.Contains(text, "of 80 MiB (plugins.memory)") {
		t.Error(text)
	}
	if s := w.q.Stats(); s.Ended == 0 {
		t.Errorf("%+v", s)
	}
	small.Put(neighbour)
	hungry.Put(single)
	for _, in := range greedy {
		hungry.Put(in)
	}
}

// TestQuotaEndsTheUser checks that if the chosen instance is put back before its end, its next user is not ended.
func TestQuotaEndsTheUser(t *testing.T) {
	w := newWorld(t, QuotaConfig{Bytes: 64 * mib})
	p := w.pool("a", PoolConfig{Ready: 1})
	exceed := func(bytes int64) { // by what no instance has
		w.q.mu.Lock()
		defer w.q.mu.Unlock()
		w.q.used += bytes
	}
	for _, retaken := range []bool{false, true} {
		in := grab(t, p, Lease{Brief: true})
		if err := touchPages(in, 4096); err != nil {
			t.Fatal(err)
		}
		in.recountPages()
		exceed(64 * mib)
		victim, use := w.q.chooseVictim()
		if victim != in {
			t.Fatal("the largest instance is not chosen")
		}
		p.Put(in)
		next := (*Instance)(nil)
		if retaken {
			exceed(-64 * mib)
			next = grab(t, p, Lease{Brief: true})
			exceed(64 * mib)
		}
		w.q.terminateUser(victim, use)
		if !retaken {
			w.q.terminateLargest(in) // as if it had grown just before
		}
		exceed(-64 * mib)
		if !retaken {
			next = grab(t, p, Lease{Brief: true})
		}
		if next != in {
			t.Fatal("another instance was taken")
		}
		if err := touchPages(next, 1); err != nil {
			t.Errorf("retaken %v: the next user: %v", retaken, err)
		}
		p.Put(next)
		if err := w.q.check(); err != nil || w.q.terminating != 0 {
			t.Errorf("retaken %v: %v, %d bytes are to be freed", retaken, err, w.q.terminating)
		}
	}
}

// TestQuotaEndsABuild checks that an instance whose Init exceeded the bound is not kept for a taker.
func TestQuotaEndsABuild(t *testing.T) {
	w := newWorld(t, QuotaConfig{Bytes: 64 * mib})
	m, err := w.e.Compile(t.Context(), toucher(), ModuleConfig{Name: "a"})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	_, err = m.NewPool(PoolConfig{Init: func(in *Instance) error {
		w.q.mu.Lock()
		defer w.q.mu.Unlock()
		w.q.terminate(in)
		return nil
	}})
	if !errors.Is(err, ErrMemory) || w.q.terminating != 0 || w.q.used != 0 {
		t.Errorf("%v, %d bytes are to be freed of %d", err, w.q.terminating, w.q.used)
	}
}

// TestQuotaGivesBack checks that idle instances and caches are dropped before anybody waits.
func TestQuotaGivesBack(t *testing.T) {
	w := newWorld(t, QuotaConfig{Bytes: 64 * mib})
	p := w.pool("a", PoolConfig{Ready: 8})
	for range 1000 {
		if p.Stats().Waiting == 8 {
			break
		}
		time.Sleep(time.Millisecond)
	}
	left := int64(16 * mib)
	var c *Cache
	c = w.q.NewCache(func(bytes int64) {
		left -= bytes
		c.Set(left)
	})
	defer c.Close()
	if over := c.Set(left); over != 0 {
		t.Errorf("%d bytes charged without any instance", over)
	}
	var all []*Instance
	for range 2 {
		all = append(all, grab(t, p, Lease{}))
	}
	for _, in := range all {
		if err := touchPages(in, 4096); err != nil {
			t.Fatal(err)
		}
	}
	if left >= 16*mib || w.q.Stats().Reclaimed == 0 || w.q.Stats().Cached != left {
		t.Errorf("%d bytes cached, %+v", left, w.q.Stats())
	}
	for _, in := range all {
		if err := touchPages(in, 1); err != nil {
			t.Errorf("ended although others could give memory back: %v", err)
		}
		p.Put(in)
	}
}

// TestQuotaSnapshot checks that a module whose snapshot alone exceeds the quota is refused.
func TestQuotaSnapshot(t *testing.T) {
	w := newWorld(t, QuotaConfig{Bytes: 8 * mib})
	m, err := w.e.Compile(t.Context(), toucher(), ModuleConfig{Name: "a"})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	if _, err := m.NewPool(PoolConfig{}); !errors.Is(err, ErrMemory) {
		t.Errorf("%v", err)
	}
	if w.q.Stats().Used != 0 {
		t.Errorf("%+v", w.q.Stats())
	}
}

// TestQuotaSpace checks that with bounded address space instances are refused before the system refuses memory to all.
func TestQuotaSpace(t *testing.T) {
	w := newWorld(t, QuotaConfig{Space: 330 * mib})
	p := w.pool("a", PoolConfig{Ready: 1})
	var out []*Instance
	var err error
	for range 6 { // five fit; one may be made ahead just then
		var in *Instance
		if in, err = p.Take(Lease{}); err != nil {
			break
		}
		out = append(out, in)
	}
	if len(out) < 4 || !errors.Is(err, ErrMemory) ||
		!strings.Contains(err.Error(), "a: out of address space: another instance needs 64 MiB") {
		t.Errorf("%d instances, then %v", len(out), err)
	}
	for _, in := range out {
		p.Put(in)
	}
	p.Put(grab(t, p, Lease{}))
}

// TestQuotaRandom checks the accounting after random operations, and that nothing is charged at the end.
func TestQuotaRandom(t *testing.T) {
	const limit = 96 * mib
	w := newWorld(t, QuotaConfig{Bytes: limit, Wait: 5 * time.Millisecond})
	pools := []*Pool{w.pool("a", PoolConfig{Ready: 2}), w.pool("b", PoolConfig{Ready: 1})}
	var all sync.WaitGroup
	for worker := range 4 {
		all.Go(func() {
			r := rand.New(rand.NewPCG(uint64(worker), 1))
			var mine []*Instance
			drop := func(i int) {
				mine[i].home.Put(mine[i])
				mine = append(mine[:i], mine[i+1:]...)
			}
			keep := func(in *Instance, err error) {
				if err == nil {
					mine = append(mine, in)
				} else if !errors.Is(err, ErrMemory) && !errors.Is(err, ErrBroken) {
					t.Error(err)
				}
			}
			request := make(chan struct{})
			for range 300 {
				if len(mine) == 0 || r.IntN(4) == 0 && len(mine) < 6 {
					keep(pools[r.IntN(2)].Take(Lease{Patient: r.IntN(2) == 0, Cancel: request}))
					continue
				}
				i := r.IntN(len(mine))
				in := mine[i]
				switch r.IntN(8) {
				case 0:
					drop(i)
				case 1:
					keep(in.home.Clone(in, Lease{Cancel: request}))
				case 2:
					if in.home.Reserve(in, 2, Lease{Patient: true}) == nil && r.IntN(2) == 0 {
						keep(in.home.Clone(in, Lease{}))
					}
				case 3:
					_, _ = in.Call(in.Func("grow"), []uint64{1}, plenty)
				case 4:
					if r.IntN(4) == 0 {
						_, _ = in.Call(in.Func("trap"), nil, plenty)
					}
				default:
					_ = touchPages(in, r.IntN(3000))
				}
				if err := w.q.check(); err != nil {
					t.Error(err)
				}
			}
			for len(mine) > 0 {
				drop(0)
			}
		})
	}
	all.Wait()
	if s := w.q.Stats(); s.Refused == 0 || s.Ended == 0 {
		t.Errorf("the bound was not met: %+v", s)
	}
}

// check compares the sums with their parts.
func (q *Quota) check() error {
	q.mu.Lock()
	defer q.mu.Unlock()
	sum := q.snapshotBytes + q.cacheBytes
	for s := range q.shares {
		sum += s.bytes
		if s.bytes < 0 {
			return fmt.Errorf("%s has %d bytes", s.name, s.bytes)
		}
	}
	if sum != q.used || q.terminating < 0 || q.used < 0 {
		return fmt.Errorf("%d bytes used, the parts are %d, terminating %d", q.used, sum, q.terminating)
	}
	return nil
}
