package sandbox

import "time"

// hostRate is how much fuel a host function charges for a nanosecond of its work.
const hostRate = 5

// Block runs f, which waits for something else than a processor: the call's turn is given up meanwhile, its time does
// not pass, and it holds no thread while f sleeps. f must return soon once the lease's Cancel is closed. Only host
// functions may call it.
//
// f returns how long it slept, as far as it knows. For the rest the account pays, up to the work that the host function
// charged fuel for before: a guest that has the host work all the time is paused as one that computes, before it has a
// turn again.
func (in *Instance) Block(f func() (slept time.Duration)) {
	m, rest, now := &in.meter, int64(in.fuel.Get()), clock()
	took, changed := m.stop(rest, now)
	in.account.charge(now, took)
	if cause := in.addRunTime(took); cause != nil {
		panic(cause)
	}
	if changed {
		in.module.slice.Store(m.pacer.size)
	}
	if in.lease.Turn != nil {
		in.lease.Turn.Release()
	}
	began := clock()
	slept := f()
	ended := clock()
	work := min(max(ended-began-slept, 0), time.Duration(m.hosted/hostRate))
	m.worked += work
	m.hosted = 0
	on := !in.pay(ended, work) || in.account.pause(in.lease.Cancel)
	on = on && (in.lease.Turn == nil || in.lease.Turn.Take())
	m.sliceStart, m.sliceStartCPU = clock(), threadTime() // it may be another thread
	m.paused += m.sliceStart - now
	select {
	case <-in.lease.Cancel:
		on = false
	default:
	}
	if !on {
		panic(abortCancel)
	}
}

// Refuel gives the call under way more fuel. Only host functions may call it.
func (in *Instance) Refuel(fuel int64) {
	in.meter.left += fuel
	in.meter.budget.Fuel += fuel
}
