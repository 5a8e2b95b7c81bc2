//go:build unix

package lora_test

import (
	"syscall"
	"testing"
)

// processorTime returns the seconds that the process has computed. On a machine that others use, too, it says more than
// the clock.
func processorTime(tb testing.TB) float64 {
	tb.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		tb.Fatal(err)
	}
	return float64(u.Utime.Nano()+u.Stime.Nano()) / 1e9
}
