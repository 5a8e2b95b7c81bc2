// Package scratch distinguishes temporary folders in use from abandoned ones, across all
// processes of a machine: the owner of a folder holds a file lock on it, which ends with the
// process, even after a crash. Its callers are models/library and models/store. It starts no
// goroutines.
package scratch

import (
	"os"
	"path/filepath"
	"time"
)

// A folder that is younger than fresh may be about to be claimed. On file systems without
// locks, such as some network file systems, a folder is abandoned if nothing was written to it
// for stale.
const (
	fresh = time.Minute
	stale = 24 * time.Hour
)

// Claim marks dir as used by this process until release is called. If it cannot be locked,
// other processes go by the time of the last write.
func Claim(dir string) (release func()) {
	f, err := os.Open(dir)
	if err != nil {
		return func() {}
	}
	_ = lock(f)
	return func() { f.Close() }
}

// Abandoned reports whether no process uses the file or folder at path any more.
func Abandoned(path string) bool {
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	age := time.Since(touched(path))
	switch lock(f) {
	case free:
		return age > fresh
	case taken:
		return false
	}
	return age > stale
}

// touched returns when a path, or something in it, was last written.
func touched(path string) time.Time {
	var last time.Time
	// Unreadable entries are ignored.
	_ = filepath.WalkDir(path, func(_ string, d os.DirEntry, err error) error {
		if err != nil {
			return nil
		}
		if st, err := d.Info(); err == nil && st.ModTime().After(last) {
			last = st.ModTime()
		}
		return nil
	})
	return last
}

// state is the result of an attempt to lock.
type state uint8

const (
	free    state = iota // it was, and is locked now
	taken                // by another holder
	unknown              // locks do not work here
)
