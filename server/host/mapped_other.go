//go:build !linux

package host

// forgetMapped leaves it to the system what of the program is in memory.
func forgetMapped() {}
