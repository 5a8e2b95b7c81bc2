//go:build !unix

package fetch

import "os"

// lockFile does nothing: there are no GPU builds for such systems.
func lockFile(*os.File) bool { return true }
