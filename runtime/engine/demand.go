package engine

import "sync/atomic"

// Demand tells user code, which shares the processors with the models, whether it
// holds anybody up. Engines that run on the same processors share one. The zero value
// is ready; its methods may be called from any goroutine and take nanoseconds.
type Demand struct{ rows atomic.Int64 }

// Rows returns how many rows are being computed now, or are to be as soon as a
// processor is free: those of all steps under way, from the plan until their tokens
// are picked. It is 0 while engines sleep, and while all that they could do is to wait
// for user code: what user code spends then delays no one.
func (d *Demand) Rows() int { return int(d.rows.Load()) }

// demand is one engine's part of a Demand. It belongs to the engine's goroutine.
type demand struct {
	all *Demand
	own int64
}

// set says how many rows the engine computes.
func (d *demand) set(rows int) {
	if n := int64(rows); n != d.own {
		d.all.rows.Add(n - d.own)
		d.own = n
	}
}
