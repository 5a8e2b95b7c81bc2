//go:build unix

package tensors

import (
	"os"

	"golang.org/x/sys/unix"
)

// mapBytes maps size bytes of f read-only. The pages come from the page cache as they are touched, so a checkpoint
// larger than memory can be converted.
func mapBytes(f *os.File, size int64) ([]byte, func() error, error) {
	if size == 0 { // mmap refuses empty mappings
		return nil, func() error { return nil }, nil
	}
	data, err := unix.Mmap(int(f.Fd()), 0, int(size), unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		return nil, nil, err
	}
	return data, func() error { return unix.Munmap(data) }, nil
}
