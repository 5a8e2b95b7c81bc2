//go:build linux || darwin

package library

import "golang.org/x/sys/unix"

// freeSpace returns the bytes that an ordinary user may still write to the file system of
// dir; ok is false if that is not known.
func freeSpace(dir string) (free int64, ok bool) {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return 0, false
	}
	return int64(st.Bavail) * int64(st.Bsize), true
}
