//go:build !linux

package sandbox

// reserve takes n bytes from Go's heap; the system commits them as the guest touches them.
func reserve(n uint64) ([]byte, error) { return make([]byte, n), nil }

func release([]byte) {}

// newImage stores a memory of so many bytes.
func newImage(size uint64, _ bool, write contents) (image, error) { return newPlainImage(size, write) }
