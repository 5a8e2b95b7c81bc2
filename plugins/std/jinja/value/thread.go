package value

import (
	"math"
	"math/bits"
	"time"
)

// Thread is the state of one rendering for Python's operations: its remaining
// budget, and the time. Only one goroutine may use it.
type Thread struct {
	// Now is the time that strftime_now formats, in its time zone.
	Now time.Time

	maxSteps, maxMemory int64
	steps, memory       int64
}

// NewThread makes a thread with limits on the steps that it takes and the bytes of
// the values that it makes.
func NewThread(steps, memory int64, now time.Time) Thread {
	return Thread{Now: now, maxSteps: steps, maxMemory: memory}
}

// Spent returns the number of steps taken.
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

// GrowItems counts n items of a list that is about to be made. Each is also a step,
// because it is copied and the garbage collector scans it.
func (th *Thread) GrowItems(n int) error {
	if err := th.Work(n); err != nil {
		return err
	}
	return th.Grow(16 * int64(n))
}

// Read counts the cost of a function that reads all of v, if v is a string: a step
// for each 32 bytes, or for each 2 if it reads the characters one by one.
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
