package guest

import (
	"errors"
	"sync/atomic"

	"tgi/plugins/internal/sandbox"
)

// Stats counts what a plugin did since it was loaded.
type Stats struct {
	Instances   sandbox.Stats
	Calls       uint64 // of exports, after load
	Fuel        uint64 // that they used
	Nanoseconds uint64 // that they ran
	Paused      uint64 // nanoseconds that they were paused so that others get on
	Slices      uint64 // of fuel that they had: between two of them a guest can be paused or cancelled
	Refusals    uint64 // requests that the guest refused
	Faults      Faults
}

// Faults counts calls that failed, by why.
type Faults struct{ Trap, Fuel, Time, Memory, Access, Result, Cancelled uint64 }

// All returns the number of faults of the guest: a cancelled call is not counted.
func (f Faults) All() uint64 { return f.Trap + f.Fuel + f.Time + f.Memory + f.Access + f.Result }

type counters struct {
	calls, fuel, nanoseconds, paused, slices, refusals atomic.Uint64
	trap, outOfFuel, outOfTime, memory, access         atomic.Uint64
	result, cancel                                     atomic.Uint64
}

func (c *counters) call(u sandbox.Use) {
	c.calls.Add(1)
	c.fuel.Add(uint64(max(u.Fuel, 0)))
	c.nanoseconds.Add(uint64(u.Ran))
	c.slices.Add(uint64(u.Slices))
	if u.Paused > 0 {
		c.paused.Add(uint64(u.Paused))
	}
}

func (c *counters) fault(err error) {
	switch {
	case errors.Is(err, sandbox.ErrFuel):
		c.outOfFuel.Add(1)
	case errors.Is(err, sandbox.ErrTime):
		c.outOfTime.Add(1)
	case errors.Is(err, sandbox.ErrMemory):
		c.memory.Add(1)
	case errors.Is(err, sandbox.ErrAccess):
		c.access.Add(1)
	case errors.Is(err, sandbox.ErrResult):
		c.result.Add(1)
	case errors.Is(err, sandbox.ErrCancelled):
		c.cancel.Add(1)
	case errors.Is(err, sandbox.ErrTrap):
		c.trap.Add(1)
	}
}

// Stats returns the counts as they are now.
func (g *Guest) Stats() Stats {
	c := &g.counts
	return Stats{
		Instances: g.pool.Stats(), Calls: c.calls.Load(), Fuel: c.fuel.Load(), Nanoseconds: c.nanoseconds.Load(),
		Paused: c.paused.Load(), Slices: c.slices.Load(), Refusals: c.refusals.Load(),
		Faults: Faults{Trap: c.trap.Load(), Fuel: c.outOfFuel.Load(), Time: c.outOfTime.Load(), Memory: c.memory.Load(),
			Access: c.access.Load(), Result: c.result.Load(),
			Cancelled: c.cancel.Load()},
	}
}
