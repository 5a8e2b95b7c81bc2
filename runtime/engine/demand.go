package engine

import "sync/atomic"

// Demand counts the rows that engines are computing. User code shares the processors
// with the models and can see from it whether it delays other requests. Engines on the
// same processors share one Demand. The zero value is ready to use; its methods are safe
// for concurrent use and take nanoseconds.
type Demand struct{ rows atomic.Int64 }

// Rows returns how many rows are being computed, or will be as soon as a processor is
// free: those of all current steps, from the plan until their tokens are picked. It is 0
// while the engines sleep or only wait for user code, which then delays nothing else.
func (d *Demand) Rows() int { return int(d.rows.Load()) }

// demand is one engine's part of a Demand. It belongs to the engine's goroutine.
type demand struct {
	all *Demand
	own int64
}

// set updates how many rows the engine computes.
func (d *demand) set(rows int) {
	if n := int64(rows); n != d.own {
		d.all.rows.Add(n - d.own)
		d.own = n
	}
}
