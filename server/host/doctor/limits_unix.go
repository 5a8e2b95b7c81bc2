//go:build linux || darwin

package doctor

import "golang.org/x/sys/unix"

// openFiles returns how many files the process may have open.
func openFiles() (limit uint64, ok bool) {
	var r unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &r) != nil {
		return 0, false
	}
	return r.Cur, true
}

// freeSpace returns the bytes that an ordinary user may still write to the file system of dir.
func freeSpace(dir string) (free int64, ok bool) {
	var st unix.Statfs_t
	if unix.Statfs(dir, &st) != nil {
		return 0, false
	}
	return int64(st.Bavail) * int64(st.Bsize), true
}
