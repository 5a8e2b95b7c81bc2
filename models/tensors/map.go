package tensors

import (
	"fmt"
	"io"
	"io/fs"
	"os"
)

// MapFile maps a file into memory, read-only, and returns its content and what ends the mapping.
func MapFile(path string) (data []byte, release func() error, err error) {
	if st, err := os.Stat(path); err == nil && !st.Mode().IsRegular() {
		return nil, nil, fmt.Errorf("%s: is not a regular file", path)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, nil, err
	}
	defer f.Close() // a mapping outlives its descriptor
	return mapOpen(f, path)
}

// MapFS is MapFile for a file of a file system. One that is not on the disk is read into memory.
func MapFS(fsys fs.FS, name string) (data []byte, release func() error, err error) {
	if st, err := fs.Stat(fsys, name); err == nil && !st.Mode().IsRegular() { // opening a pipe would wait for a writer
		return nil, nil, fmt.Errorf("%s: is not a regular file", name)
	}
	f, err := fsys.Open(name)
	if err != nil {
		return nil, nil, err
	}
	defer f.Close()
	if onDisk, ok := f.(*os.File); ok {
		return mapOpen(onDisk, name)
	}
	data, err = io.ReadAll(f)
	return data, func() error { return nil }, err
}

func mapOpen(f *os.File, name string) (data []byte, release func() error, err error) {
	st, err := f.Stat()
	if err != nil {
		return nil, nil, err
	}
	if !st.Mode().IsRegular() {
		return nil, nil, fmt.Errorf("%s: is not a regular file", name)
	}
	if data, release, err = mapBytes(f, st.Size()); err != nil {
		return nil, nil, fmt.Errorf("%s: read: %w", name, err)
	}
	return data, release, nil
}
