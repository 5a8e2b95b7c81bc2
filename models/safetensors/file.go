package safetensors

import (
	"path/filepath"

	"tgi/models/tensors"
)

// file is one open safetensors file.
type file struct {
	tensors []*tensors.Tensor
	release func() error
}

// openFile maps path and checks its header.
func openFile(path string) (*file, error) {
	data, release, err := tensors.MapFile(path)
	if err != nil {
		return nil, err
	}
	return newFile(filepath.Base(path), data, release)
}

// newFile is parseFile for a mapping, which it ends after an error.
func newFile(name string, data []byte, release func() error) (*file, error) {
	out, err := parseFile(name, data)
	if err != nil {
		release()
		return nil, err
	}
	out.release = release
	return out, nil
}

// parseFile reads a whole file that is already in memory.
func parseFile(name string, data []byte) (*file, error) {
	entries, body, err := parseHeader(name, data)
	if err != nil {
		return nil, err
	}
	out := &file{release: func() error { return nil }, tensors: make([]*tensors.Tensor, len(entries))}
	for i, e := range entries {
		out.tensors[i] = tensors.New(e.name, e.dtype, e.shape, name, data[body+e.begin:body+e.end:body+e.end])
	}
	return out, nil
}
