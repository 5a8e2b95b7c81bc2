package tensors

import (
	"fmt"
	"os"
)

// MapFile maps a file into memory, read-only, and returns its content and what ends the mapping.
func MapFile(path string) (data []byte, release func() error, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, nil, err
	}
	defer f.Close() // a mapping outlives its descriptor
	st, err := f.Stat()
	if err != nil {
		return nil, nil, err
	}
	if !st.Mode().IsRegular() {
		return nil, nil, fmt.Errorf("%s: is not a regular file", path)
	}
	if data, release, err = mapBytes(f, st.Size()); err != nil {
		return nil, nil, fmt.Errorf("%s: read: %w", path, err)
	}
	return data, release, nil
}
