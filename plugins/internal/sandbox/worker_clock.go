//go:build !unix

package sandbox

import "time"

var born = time.Now()

// spent returns the time that this process has run: more than its processor time.
func spent() time.Duration { return time.Since(born) }
