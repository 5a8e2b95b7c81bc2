//go:build unix

package tensors

import (
	"os"

	"golang.org/x/sys/unix"
)

// mapBytes maps size bytes of f read-only. The pages come from the page cache as they are touched, so a checkpoint
// larger than memory can be converted.
func mapBytes(f *os.File, size int64) (*Mapping, error) {
	if size == 0 { // mmap refuses empty mappings
		return &Mapping{}, nil
	}
	data, err := unix.Mmap(int(f.Fd()), 0, int(size), unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		return nil, err
	}
	return &Mapping{data, true}, nil
}

func unmap(data []byte) error { return unix.Munmap(data) }

// forget gives the pages of a mapping back. What they hold stays in the file, whatever the system says to it.
func forget(data []byte) { _ = unix.Madvise(data, unix.MADV_DONTNEED) }
