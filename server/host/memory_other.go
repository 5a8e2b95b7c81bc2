//go:build !unix

package host

// addressSpace is without a limit on this system.
func addressSpace() (limit, used int64, ok bool) { return 0, 0, false }
