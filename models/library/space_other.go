//go:build !linux && !darwin

package library

// freeSpace is not supported here; a full disk shows when it is written to.
func freeSpace(string) (free int64, ok bool) { return 0, false }
