//go:build !unix

package host

// addressSpace is without a limit on this system.
func addressSpace() (limit, used int64, ok bool) { return 0, 0, false }

// residentBytes is not known on this system.
func residentBytes() int64 { return 0 }
