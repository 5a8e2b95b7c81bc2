//go:build !unix

package tensors

import (
	"io"
	"os"
)

// mapBytes reads the file where mmap is not at hand.
func mapBytes(f *os.File, size int64) ([]byte, func() error, error) {
	data := make([]byte, size)
	if _, err := io.ReadFull(f, data); err != nil {
		return nil, nil, err
	}
	return data, func() error { return nil }, nil
}
