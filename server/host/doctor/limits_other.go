//go:build !linux && !darwin

package doctor

// openFiles is not known here.
func openFiles() (limit uint64, ok bool) { return 0, false }

// freeSpace is not known here.
func freeSpace(string) (free int64, ok bool) { return 0, false }
