//go:build unix

package host

import (
	"math"
	"os"
	"strconv"
	"strings"
	"syscall"
)

// addressSpace returns the limit of the process's address space and what it has of it.
func addressSpace() (limit, used int64, ok bool) {
	var r syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_AS, &r) != nil || uint64(r.Cur) >= math.MaxInt64 {
		return 0, 0, false
	}
	statm, err := os.ReadFile("/proc/self/statm")
	first, _, _ := strings.Cut(string(statm), " ")
	pages, wrong := strconv.ParseInt(first, 10, 64)
	if err != nil || wrong != nil {
		return 0, 0, false
	}
	return int64(r.Cur), pages * int64(os.Getpagesize()), true
}
