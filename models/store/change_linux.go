package store

import (
	"io/fs"
	"syscall"
)

// changeTime returns when a file was last changed, its size, time or name among it, in nanoseconds since 1970.
func changeTime(st fs.FileInfo) int64 {
	if own, ok := st.Sys().(*syscall.Stat_t); ok {
		return own.Ctim.Nano()
	}
	return 0
}
