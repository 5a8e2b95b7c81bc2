//go:build unix

package sandbox

import (
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// holdFolder takes a lock on an open folder without waiting and reports whether it got it. The system gives the lock
// back when the file is closed or the process ends, in whatever way.
func holdFolder(f *os.File) bool { return unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) == nil }

// abandoned reports whether no process holds an open folder.
func abandoned(f *os.File, _ time.Time) bool { return holdFolder(f) }
