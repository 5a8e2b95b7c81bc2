//go:build !unix

package kvdisk

import "os"

// flock always succeeds on systems without such locks.
func flock(*os.File) (ok bool, err error) { return true, nil }

// full is not known on such systems.
func full(error) bool { return false }
