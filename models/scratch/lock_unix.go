//go:build unix

package scratch

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// lock locks an open file without waiting. The lock ends when the file is closed, so
// also when the process dies.
func lock(f *os.File) state {
	err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	switch {
	case err == nil:
		return free
	case errors.Is(err, unix.EWOULDBLOCK):
		return taken
	}
	return unknown
}
