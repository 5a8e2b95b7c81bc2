package sandbox

import (
	"fmt"
	"time"
)

// Ticks are to come every sliceTime or so, whatever the instructions cost: until the next one Go's collector waits for the
// guest, and nobody can cancel it. Fuel can't promise that alone, because a load from beyond the caches takes fifty times
// as long as one from within, and no price can know which it will be. So the size of slices follows what they took.
const (
	sliceTime = 50 * time.Microsecond
	// minSlice bounds the share of ticks in fast code that is taken for slow: a tick costs about as much as 1,000 units.
	minSlice = 5000
	// growEvery is the time in which slices may double. It is long beside a slice, so that a guest that is slow in turns
	// gets a long slice twenty times a second at most, and short beside a request: a thread that the system stopped within
	// a slice, which looks the same, has long slices again after some 60 ms, and pays a few percent until then.
	growEvery = 10 * time.Millisecond
	// A slice that took longer than longSlice and a nanosecond for each unit was not running all the time.
	longSlice = 10 * time.Millisecond
)

// Budget is what one call may use.
type Budget struct {
	Fuel int64
	// Time bounds how long the call runs, pauses not counted; 0 does not. Spent is what others ran that have it together
	// with this one. Limit is what the fault calls it.
	Time, Spent time.Duration
	Limit       string
}

// Use is what one call used.
type Use struct {
	Fuel   int64         // at most one function body above the budget
	Ran    time.Duration // without pauses
	Paused time.Duration // by the governor
	Slices int           // of fuel, the last one included
}

// began is where clock starts.
var began = time.Now()

// clock is monotonic time, read in half the time of time.Now.
func clock() time.Duration { return time.Since(began) }

// pace is the size of an instance's slices.
type pace struct {
	size, most int64
	grow       time.Duration // when it may double
}

// begin gives the size of a call's first slice.
func (p *pace) begin(now time.Duration) int64 {
	if p.size < p.most && now >= p.grow {
		p.double(now)
	}
	return p.size
}

// next gives the size of a slice that follows one that took so long, and reports whether sizes changed.
func (p *pace) next(took, now time.Duration) (changed bool) {
	switch {
	case took > 2*sliceTime:
		// No less than an eighth at once: the system may have stopped the thread.
		p.size = max(p.size*int64(sliceTime)/int64(took), p.size/8, min(minSlice, p.most))
		p.grow = now + growEvery
		return true
	case p.size < p.most && now >= p.grow:
		p.double(now)
		return true
	}
	return false
}

func (p *pace) double(now time.Duration) {
	p.size = min(2*p.size, p.most)
	p.grow = now + growEvery
}

// meter counts what the call under way uses.
type meter struct {
	pace   pace
	budget Budget
	left   int64         // fuel that is not yet handed to a slice
	given  int64         // fuel of the slice
	from   time.Duration // when the slice began
	ran    time.Duration // of the slices before
	paused time.Duration
	slices int
}

// begin starts a call. The result is the fuel of its first slice.
func (m *meter) begin(b Budget) int64 {
	now := clock()
	m.budget, m.from, m.ran, m.paused, m.slices = b, now, 0, 0, 1
	m.given = min(m.pace.begin(now), b.Fuel)
	m.left = b.Fuel - m.given
	return m.given
}

// stop counts the slice, of whose fuel rest is left, up to now.
func (m *meter) stop(rest int64, now time.Duration) (took time.Duration) {
	took = min(now-m.from, longSlice+time.Duration(m.given-rest))
	m.ran += took
	m.from, m.given = now, rest
	return took
}

// refill begins the next slice. rest is what is left of the one before. The result is its fuel.
func (m *meter) refill(rest int64) int64 {
	all := m.left + rest
	m.given = min(m.pace.size, all)
	m.left = all - m.given
	m.slices++
	return m.given
}

// late is the fault of a call that ran too long.
func (m *meter) late() *abort {
	return &abort{kind: ErrTime, cause: fmt.Sprintf("it ran for %v, %s is %v", (m.budget.Spent + m.ran).Round(time.Millisecond), m.budget.Limit, m.budget.Time)}
}

// Run runs f, which is of this instance, within a budget. stack holds the arguments and takes the results; it must have
// room for the longer of both. The error is a [*Fault]; after it the instance is broken, and every further call fails with
// ErrBroken. A call that succeeds without a pause allocates nothing.
func (in *Instance) Run(f *Func, stack []uint64, b Budget) (Use, error) {
	if in.broken != nil {
		return Use{}, &Fault{Kind: ErrBroken, Module: in.module.name, Func: f.name, Cause: in.broken.Error()}
	}
	m := &in.meter
	in.fuel.Set(uint64(m.begin(b)))
	err := f.call.CallWithStack(&in.ctx, stack)
	rest := int64(in.fuel.Get())
	now := clock()
	in.account.charge(now, m.stop(rest, now))
	use := Use{Fuel: b.Fuel - m.left - rest, Ran: m.ran, Paused: m.paused, Slices: m.slices}
	if err != nil {
		return use, in.fault(f.name, b.Fuel, use.Fuel, err)
	}
	return use, nil
}

// Call is Run within fuel alone. used is the fuel that ran.
func (in *Instance) Call(f *Func, stack []uint64, fuel int64) (used int64, err error) {
	use, err := in.Run(f, stack, Budget{Fuel: fuel})
	return use.Fuel, err
}

// tick runs when the slice is used up. Being in Go is what lets the collector and the scheduler stop this goroutine.
func (in *Instance) tick() {
	select {
	case <-in.lease.Cancel:
		panic(abortCancel)
	default:
	}
	m, rest := &in.meter, int64(in.fuel.Get())
	in.checkStack()
	if m.left+rest < 0 {
		panic(abortFuel)
	}
	now := clock()
	took := m.stop(rest, now)
	if m.budget.Time > 0 && m.budget.Spent+m.ran > m.budget.Time {
		panic(m.late())
	}
	if m.pace.next(took, now) {
		in.module.slice.Store(m.pace.size)
	}
	if in.account.charge(now, took) && m.ran >= shortCall {
		if !in.account.pause(in.lease.Cancel) {
			panic(abortCancel)
		}
		m.from = clock()
		m.paused += m.from - now
	}
	in.fuel.Set(uint64(m.refill(rest)))
}
