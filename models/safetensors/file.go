package safetensors

import (
	"path/filepath"

	"tgi/models/tensors"
)

// file is one open safetensors file.
type file struct {
	tensors []*tensors.Tensor
	mapping *tensors.Mapping
}

// openFile maps path and checks its header.
func openFile(path string) (*file, error) {
	m, err := tensors.MapFile(path)
	if err != nil {
		return nil, err
	}
	return newFile(filepath.Base(path), m)
}

// newFile is parseFile for a mapping, which it ends after an error.
func newFile(name string, m *tensors.Mapping) (*file, error) {
	out, err := parseFile(name, m.Bytes())
	if err != nil {
		m.Close()
		return nil, err
	}
	out.mapping = m
	return out, nil
}

// parseFile reads a whole file that is already in memory.
func parseFile(name string, data []byte) (*file, error) {
	entries, body, err := parseHeader(name, data)
	if err != nil {
		return nil, err
	}
	out := &file{mapping: &tensors.Mapping{}, tensors: make([]*tensors.Tensor, len(entries))}
	for i, e := range entries {
		out.tensors[i] = tensors.New(e.name, e.dtype, e.shape, name, data[body+e.begin:body+e.end:body+e.end])
	}
	return out, nil
}
