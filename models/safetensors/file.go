package safetensors

import (
	"fmt"
	"os"
	"path/filepath"
)

// Tensor is one tensor of an open file.
type Tensor struct {
	// Name as in the header.
	Name string
	// DType of the elements.
	DType DType
	// Shape, outermost dimension first; empty for a scalar.
	Shape []int64
	// File is the base name of the file that holds the tensor.
	File string
	data []byte
	// scales of MXFP4, one for each block.
	scales []byte
}

// Bytes returns the tensor's little-endian elements. The view is read-only
// (writing to it faults where the file is mapped) and ends with Close.
func (t *Tensor) Bytes() []byte { return t.data }

// Transposed returns a copy of a matrix with rows and columns exchanged.
func (t *Tensor) Transposed() *Tensor {
	n, k, size := int(t.Shape[0]), int(t.Shape[1]), t.DType.Size()
	data := make([]byte, len(t.data))
	for i := range n {
		for j := range k {
			copy(data[(j*n+i)*size:][:size], t.data[(i*k+j)*size:])
		}
	}
	return &Tensor{Name: t.Name, DType: t.DType, Shape: []int64{t.Shape[1], t.Shape[0]}, File: t.File, data: data}
}

// Part returns element i of the outermost dimension, over the same bytes.
func (t *Tensor) Part(i int) *Tensor {
	n := int(t.Shape[0])
	own := func(all []byte) []byte { return all[i*len(all)/n : (i+1)*len(all)/n] }
	return &Tensor{Name: t.Name, DType: t.DType, Shape: t.Shape[1:], File: t.File, data: own(t.data),
		scales: own(t.scales)}
}

// Len returns the number of elements.
func (t *Tensor) Len() int {
	n := 1
	for _, d := range t.Shape {
		n *= int(d)
	}
	return n
}

// Floats widens len(dst) elements, the first being number at of the tensor in
// row-major order. It fails for types other than F32, F16 and BF16 and for a
// range outside the tensor.
func (t *Tensor) Floats(dst []float32, at int) error {
	switch t.DType {
	case F32, F16, BF16, MXFP4:
	default:
		return fmt.Errorf("%s: tensor %q has dtype %s, want F32, F16 or BF16", t.File, t.Name, t.DType)
	}
	if n := t.Len(); at < 0 || at > n || len(dst) > n-at {
		return fmt.Errorf("%s: tensor %q has %d elements, want %d from index %d", t.File, t.Name, n, len(dst), at)
	}
	if t.DType == MXFP4 {
		t.widenMXFP4(dst, at)
		return nil
	}
	size := t.DType.Size()
	t.DType.widen(dst, t.data[at*size:(at+len(dst))*size])
	return nil
}

// file is one open safetensors file.
type file struct {
	tensors []Tensor
	release func() error
}

// openFile maps path and checks its header.
func openFile(path string) (*file, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close() // a mapping outlives its descriptor
	st, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !st.Mode().IsRegular() {
		return nil, fmt.Errorf("%s: is not a regular file", path)
	}
	data, release, err := mapFile(f, st.Size())
	if err != nil {
		return nil, fmt.Errorf("%s: read: %w", path, err)
	}
	out, err := parseFile(filepath.Base(path), data)
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
	out := &file{release: func() error { return nil }, tensors: make([]Tensor, len(entries))}
	for i, e := range entries {
		out.tensors[i] = Tensor{Name: e.name, DType: e.dtype, Shape: e.shape, File: name,
			data: data[body+e.begin : body+e.end : body+e.end]}
	}
	return out, nil
}
