//go:build !unix

package sandbox

import (
	"os"
	"time"
)

// holdFolder does nothing where folders have no locks.
func holdFolder(*os.File) bool { return true }

// abandoned guesses by the time when a folder was made: no compilation takes an hour.
func abandoned(_ *os.File, made time.Time) bool { return time.Since(made) > time.Hour }
