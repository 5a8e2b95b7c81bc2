package sandbox

import (
	"fmt"
	"time"
)

// Ticks are to come every sliceTime or so, whatever the instructions cost: until the next one Go's collector waits for
// the guest, and nobody can cancel it. Fuel can't promise that alone, because a load from beyond the caches takes fifty
// times as long as one from within, and no price can know which it will be. So the size of slices follows what they
// took.
const (
	sliceTime = 50 * time.Microsecond
	// minSlice bounds the share of ticks in fast code that is taken for slow: a tick costs about as much as 1,000
	// units.
	minSlice = 5000
	// growEvery is the time in which slices may double. It is long beside a slice, so that a guest that is slow in
	// turns gets a long slice twenty times a second at most, and short beside a request.
	growEvery = 10 * time.Millisecond
	// A slice that took longer than longSlice and a nanosecond for each unit was not running all the time.
	longSlice = 10 * time.Millisecond
)

// Budget is what one call may use.
type Budget struct {
	// Fuel may be below 0 where the call before used more than there was: the call then ends at once. Burnt is what
	// calls before used that had it together with this one; faults tell the sum.
	Fuel, Burnt int64
	// Time bounds how long the call runs, pauses not counted; 0 does not. Spent is what others ran that have it
	// together with this one.
	Time, Spent time.Duration
	// FuelLimit and TimeLimit are what faults call them.
	FuelLimit, TimeLimit string
}

// Use is what one call used.
type Use struct {
	Fuel   int64         // at most one function body above the budget
	Ran    time.Duration // without pauses
	Paused time.Duration // by the governor
	Slices int           // of fuel, the last one included
}

// clockStart is where clock starts.
var clockStart = time.Now()

// clock is monotonic time, read in half the time of time.Now.
func clock() time.Duration { return time.Since(clockStart) }

// slicePacer is the size of an instance's slices.
type slicePacer struct {
	size, max int64
	growAt    time.Duration // when it may double
	suspect   bool          // the slice before seemed to take too long
}

// adjust makes the size follow a slice in which so much fuel took so long, and reports whether it changed. sure says
// that nothing but the guest can have taken that time; if the system may have stopped the thread, it takes two such
// slices.
func (p *slicePacer) adjust(used int64, took time.Duration, sure bool, now time.Duration) (changed bool) {
	fitting := max(used*int64(sliceTime)/max(int64(took), 1), min(minSlice, p.max))
	slow := took > 2*sliceTime && fitting < p.size
	confirmed := slow && (sure || p.suspect)
	p.suspect = slow && !confirmed
	switch {
	case confirmed:
		p.size, p.growAt = fitting, now+growEvery
		return true
	case !slow && p.size < p.max && now >= p.growAt:
		p.size, p.growAt = min(2*p.size, p.max), now+growEvery
		return true
	}
	return false
}

// meter counts what the call under way uses.
type meter struct {
	pacer         slicePacer
	budget        Budget
	left          int64         // fuel that is not yet handed to a slice
	sliceFuel     int64         // fuel of the slice
	sliceStart    time.Duration // when the slice began
	sliceStartCPU time.Duration // of the thread then; negative where it is not known
	ran           time.Duration // of the slices before
	worked        time.Duration // by the host, in calls that may wait
	paused        time.Duration
	slices        int
	hosted        int64 // fuel that the host function under way charged
}

// begin starts a call. The result is the fuel of its first slice. The thread's time is read only where it
// is uncertain: most calls end within their first slice, and it would cost more than they do.
func (m *meter) begin(b Budget) int64 {
	m.budget, m.ran, m.worked, m.paused, m.slices = b, 0, 0, 0, 1
	m.sliceStart, m.sliceStartCPU = clock(), -1
	if m.pacer.suspect {
		m.sliceStartCPU = threadTime()
	}
	m.sliceFuel = min(m.pacer.size, b.Fuel)
	m.left = b.Fuel - m.sliceFuel
	return m.sliceFuel
}

func threadTime() time.Duration {
	if t, ok := cpuClock(); ok {
		return t
	}
	return -1
}

// stop counts the slice, of whose fuel rest is left, up to now. changed says that the size of slices did.
func (m *meter) stop(rest int64, now time.Duration) (took time.Duration, changed bool) {
	used, wall, cpu := m.sliceFuel-rest, now-m.sliceStart, threadTime()
	took = cpu - m.sliceStartCPU
	// else Go changed the thread before the slice began
	sure := m.sliceStartCPU >= 0 && cpu >= 0 && took >= 0 && took <= wall
	if !sure {
		took = min(wall, longSlice+time.Duration(used))
	}
	m.ran += took
	m.sliceStart, m.sliceStartCPU, m.sliceFuel = now, cpu, rest
	return took, m.pacer.adjust(used, took, sure, now)
}

// end is stop at the end of a call. For a short call it only reads the clock.
func (m *meter) end(rest int64) (took, now time.Duration, changed bool) {
	now = clock()
	if took = now - m.sliceStart; took > 2*sliceTime {
		took, changed = m.stop(rest, now)
		return took, now, changed
	}
	m.ran += took
	if m.pacer.suspect || m.pacer.size < m.pacer.max {
		changed = m.pacer.adjust(m.sliceFuel-rest, took, false, now)
	}
	return took, now, changed
}

// refill begins the next slice. rest is what is left of the one before. The result is its fuel.
func (m *meter) refill(rest int64) int64 {
	all := m.left + rest
	m.sliceFuel = min(m.pacer.size, all)
	m.left = all - m.sliceFuel
	m.slices++
	return m.sliceFuel
}

// timeFault is the cause of ending a call that ran too long.
func (m *meter) timeFault() *abort {
	return &abort{kind: ErrTime, cause: fmt.Sprintf("it ran for %v, %s is %v",
		(m.budget.Spent + m.ran).Round(time.Millisecond), m.budget.TimeLimit, m.budget.Time)}
}

// Run runs f, which is of this instance, within a budget. stack holds the arguments and takes the results; it must have
// room for the longer of both. The error is a [*Fault]; after it the instance is broken, and every further call fails
// with ErrBroken. A call that succeeds without a pause allocates nothing.
func (in *Instance) Run(f *Func, stack []uint64, b Budget) (Use, error) {
	if in.broken != nil {
		return Use{}, &Fault{Kind: ErrBroken, Module: in.module.name, Func: f.name, Cause: in.broken.Error()}
	}
	if cause := in.alloc.termination.Load(); cause != nil {
		return Use{}, in.fault(f.name, b, 0, cause)
	}
	if in.lease.Turn != nil && !in.lease.Turn.Take() {
		return Use{}, in.fault(f.name, b, 0, abortCancel)
	}
	if in.memory != nil {
		in.memory.refused = 0
	}
	if in.stack > freeStack { // of the call before
		in.resetStack()
	}
	m := &in.meter
	in.fuel.Set(uint64(m.begin(b)))
	err := f.call.CallWithStack(&in.ctx, stack)
	rest := int64(in.fuel.Get())
	took, now, changed := m.end(rest)
	if changed {
		in.module.slice.Store(m.pacer.size)
	}
	in.account.charge(now, took)
	in.addRunTime(took)
	use := Use{Fuel: m.budget.Fuel - m.left - rest, Ran: m.ran, Paused: m.paused, Slices: m.slices}
	if err != nil {
		return use, in.fault(f.name, m.budget, use.Fuel, err) // with what Refuel gave
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
	in.growStack(rest)
	if m.left+rest < 0 {
		panic(abortFuel)
	}
	now := clock()
	took, changed := m.stop(rest, now)
	if cause := in.addRunTime(took); cause != nil {
		panic(cause)
	}
	if m.budget.Time > 0 && m.budget.Spent+m.ran > m.budget.Time {
		panic(m.timeFault())
	}
	if changed {
		in.module.slice.Store(m.pacer.size)
	}
	if !in.wait(in.pay(now, took)) {
		panic(abortCancel)
	}
	in.fuel.Set(uint64(m.refill(rest)))
}

// pay takes time that the call ran, or had the host work, off the account, and reports whether to throttle the call.
func (in *Instance) pay(now, took time.Duration) (throttle bool) {
	return in.account.charge(now, took) && in.meter.ran+in.meter.worked >= in.account.short
}

// wait waits until the call may go on, as the governor says if it is to throttle, then as its turn says. It reports
// whether that came before the call was cancelled.
func (in *Instance) wait(throttle bool) (on bool) {
	turn := in.lease.Turn
	waited := throttle
	switch {
	case throttle && turn != nil:
		turn.Release() // others may run
		on = in.account.pause(in.lease.Cancel) && turn.Take()
	case throttle:
		on = in.account.pause(in.lease.Cancel)
	case turn != nil:
		waited, on = turn.Yield()
	default:
		on = true
	}
	if waited {
		m, began := &in.meter, in.meter.sliceStart
		m.sliceStart, m.sliceStartCPU = clock(), threadTime() // it may be another thread
		m.paused += m.sliceStart - began
	}
	return on
}
