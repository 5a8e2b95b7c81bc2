//go:build unix

package sandbox

import (
	"time"

	"golang.org/x/sys/unix"
)

// spent returns the processor time of this process.
func spent() time.Duration {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
