//go:build !linux

package store

import "io/fs"

// changeTime returns 0: not known.
func changeTime(fs.FileInfo) int64 { return 0 }
