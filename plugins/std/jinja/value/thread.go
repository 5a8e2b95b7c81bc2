package value

import (
	"math"
	"math/bits"
	"time"
)

// Thread is one rendering as Python's operations see it: what it may still spend,
// and the time. It belongs to one goroutine.
type Thread struct {
	// Now is the time that strftime_now tells, in the zone it carries.
	Now time.Time

	maxSteps, maxMemory int64
	steps, memory       int64
}

// NewThread makes a thread that may take as many steps and make as many bytes of
// values.
func NewThread(steps, memory int64, now time.Time) Thread {
	return Thread{Now: now, maxSteps: steps, maxMemory: memory}
}

// Spent is the steps that were taken.
func (th *Thread) Spent() int64 { return th.steps }

// Step counts a unit of work.
func (th *Thread) Step() error { return th.Work(1) }

// Work counts n units of work.
func (th *Thread) Work(n int) error {
	th.steps += int64(n)
	if th.steps > th.maxSteps {
		return LimitError("steps: more than %d", th.maxSteps)
	}
	return nil
}

// Grow counts n bytes that are about to be made.
func (th *Thread) Grow(n int64) error {
	if n < 0 || n > th.maxMemory-th.memory {
		return LimitError("memory: more than %d bytes of values", th.maxMemory)
	}
	th.memory += n
	th.steps += n >> 6
	return nil
}

// GrowItems counts n items of a list that is about to be made. Each is a step
// too: it is copied, and the collector looks at it.
func (th *Thread) GrowItems(n int) error {
	if err := th.Work(n); err != nil {
		return err
	}
	return th.Grow(16 * int64(n))
}

// Read counts what a function costs that looks at all of v, if v is a string: a
// step for 32 bytes, or for 2 where it looks at each character by itself.
func (th *Thread) Read(v Value, perCharacter bool) error {
	s, ok := v.(*Str)
	switch {
	case !ok:
		return nil
	case perCharacter:
		return th.Work(len(s.s) >> 1)
	}
	return th.Work(len(s.s) >> 5)
}

// GrowTimes counts n times size bytes.
func (th *Thread) GrowTimes(size, n int64) error {
	hi, lo := bits.Mul64(uint64(size), uint64(n))
	if hi != 0 || lo > math.MaxInt64 {
		return th.Grow(-1)
	}
	return th.Grow(int64(lo))
}
