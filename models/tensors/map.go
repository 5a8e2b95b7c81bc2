package tensors

import (
	"fmt"
	"io"
	"io/fs"
	"os"
)

// Mapping is a file in memory, read-only.
type Mapping struct {
	data   []byte
	mapped bool // rather than read
}

// Bytes returns the file's content, which is valid until Close.
func (m *Mapping) Bytes() []byte { return m.data }

// Forget gives back the memory of what was read of a mapped file so far. It is read again when it is needed again.
func (m *Mapping) Forget() {
	if m.mapped {
		forget(m.data)
	}
}

// Close ends the mapping; once is enough.
func (m *Mapping) Close() error {
	data, mapped := m.data, m.mapped
	m.data, m.mapped = nil, false
	if !mapped {
		return nil
	}
	return unmap(data)
}

// MapFile maps a file into memory.
func MapFile(path string) (*Mapping, error) {
	if st, err := os.Stat(path); err == nil && !st.Mode().IsRegular() {
		return nil, fmt.Errorf("%s: is not a regular file", path)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close() // a mapping outlives its descriptor
	return mapOpen(f, path)
}

// MapFS is MapFile for a file of a file system. One that is not on the disk is read into memory, unless it is there:
// then its method Content returns its bytes.
func MapFS(fsys fs.FS, name string) (*Mapping, error) {
	if st, err := fs.Stat(fsys, name); err == nil && !st.Mode().IsRegular() { // opening a pipe would wait for a writer
		return nil, fmt.Errorf("%s: is not a regular file", name)
	}
	f, err := fsys.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if onDisk, ok := f.(*os.File); ok {
		return mapOpen(onDisk, name)
	}
	if inMemory, ok := f.(interface{ Content() []byte }); ok {
		return &Mapping{data: inMemory.Content()}, nil
	}
	st, err := f.Stat()
	if err != nil {
		return nil, err
	}
	data := make([]byte, st.Size())
	if _, err := io.ReadFull(f, data); err != nil {
		return nil, fmt.Errorf("%s: read: %w", name, err)
	}
	return &Mapping{data: data}, nil
}

func mapOpen(f *os.File, name string) (*Mapping, error) {
	st, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !st.Mode().IsRegular() {
		return nil, fmt.Errorf("%s: is not a regular file", name)
	}
	m, err := mapBytes(f, st.Size())
	if err != nil {
		return nil, fmt.Errorf("%s: read: %w", name, err)
	}
	return m, nil
}
