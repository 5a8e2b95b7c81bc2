//go:build unix

package library

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// flock takes a lock on an open file without waiting; ok is false if another holder has it.
// The lock ends when the file is closed, and so when the process dies.
func flock(f *os.File, exclusive bool) (ok bool, err error) {
	how := unix.LOCK_SH
	if exclusive {
		how = unix.LOCK_EX
	}
	err = unix.Flock(int(f.Fd()), how|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return false, nil
	}
	return err == nil, err
}
