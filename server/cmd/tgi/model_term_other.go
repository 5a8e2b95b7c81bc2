//go:build !unix

package main

import "os"

// terminalWidth returns the columns of a terminal, as far as is known.
func terminalWidth(*os.File) int { return usualWidth }
