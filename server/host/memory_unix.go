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
	used, ok = pagesOf(0)
	return int64(r.Cur), used, ok
}

// residentBytes returns the bytes of the process that are in memory, 0 where the system does not say.
func residentBytes() int64 {
	n, _ := pagesOf(1)
	return n
}

// pagesOf returns a number of Linux' /proc/self/statm, in bytes.
func pagesOf(field int) (bytes int64, ok bool) {
	statm, err := os.ReadFile("/proc/self/statm")
	fields := strings.Fields(string(statm))
	if err != nil || len(fields) <= field {
		return 0, false
	}
	pages, err := strconv.ParseInt(fields[field], 10, 64)
	return pages * int64(os.Getpagesize()), err == nil
}
