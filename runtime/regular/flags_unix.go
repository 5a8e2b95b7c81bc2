//go:build unix

package regular

import "golang.org/x/sys/unix"

// NoLink is a flag for Open and Read: a link in the file's place is refused.
const NoLink = unix.O_NOFOLLOW

// noWait has a pipe be open at once.
const noWait = unix.O_NONBLOCK
