//go:build unix

package sandbox

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// Interpreted returns why guests are interpreted here, which takes many times as long, although the engine has a
// compiler for this CPU; nil where nothing keeps them from running as compiled. The compiler's code is written to
// memory that becomes executable then: the confinement of a process may forbid that, and the engine falls back to its
// interpreter without a word.
func Interpreted() error {
	page, err := unix.Mmap(-1, 0, unix.Getpagesize(), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		return fmt.Errorf("a page of memory: %w", err)
	}
	defer func() { _ = unix.Munmap(page) }()
	if err := unix.Mprotect(page, unix.PROT_READ|unix.PROT_EXEC); err != nil {
		return fmt.Errorf("memory may not become executable: %w", err)
	}
	return nil
}
