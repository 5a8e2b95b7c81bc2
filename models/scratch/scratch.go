// Package scratch tells the folders in which somebody works from those whose owner
// was cut off, in all processes of a machine: who works in one holds a lock on it that
// ends with the process, however that ends.
package scratch

import (
	"os"
	"path/filepath"
	"time"
)

// A folder that is younger than fresh may be about to be claimed. Where there are no
// locks, as on some network file systems, only one that nothing was written to for
// stale counts as abandoned.
const (
	fresh = time.Minute
	stale = 24 * time.Hour
)

// Claim says that this process works in dir, until release is called. Where that
// can't be said to others, they go by the time of the last write.
func Claim(dir string) (release func()) {
	f, err := os.Open(dir)
	if err != nil {
		return func() {}
	}
	_ = lock(f)
	return func() { f.Close() }
}

// Abandoned says whether nobody works any more in the file or folder at path.
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
	// What cannot be read has no time.
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

// state is what became of an attempt to lock.
type state uint8

const (
	free    state = iota // it was, and is locked now
	taken                // by another holder
	unknown              // locks do not work here
)
