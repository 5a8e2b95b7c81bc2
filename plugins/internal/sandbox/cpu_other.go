//go:build !linux

package sandbox

import "time"

// cpuClock is not known here.
func cpuClock() (time.Duration, bool) { return 0, false }
