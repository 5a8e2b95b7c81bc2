package sandbox

// Block runs f, which waits for something else than a processor: the call's turn is given up meanwhile, its time does
// not pass, and it holds no thread while f sleeps. f must return soon once the lease's Cancel is closed. Only host
// functions may call it.
func (in *Instance) Block(f func()) {
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
	f()
	on := in.lease.Turn == nil || in.lease.Turn.Take()
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
