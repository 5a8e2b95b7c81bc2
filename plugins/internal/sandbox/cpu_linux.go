package sandbox

import (
	"time"

	"golang.org/x/sys/unix"
)

// cpuClock is the time that the calling thread has run; it takes the better part of a microsecond. A guest never
// changes threads within a slice, so between two ticks it is what the guest took, whatever else the machine did
// meanwhile.
func cpuClock() (time.Duration, bool) {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t); err != nil {
		return 0, false
	}
	return time.Duration(t.Nano()), true
}
