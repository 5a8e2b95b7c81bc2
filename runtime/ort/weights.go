package ort

// #include <stdlib.h>
// #include "shim.h"
import "C"

import (
	"fmt"
	"unsafe"
)

// Matrix is a matrix of bytes in the file of a model's weights.
type Matrix struct {
	Name   string
	Offset int64 // of its first byte
	Shape  []int64
}

// weights are the matrices of a mapped file. The zero value has none.
type weights struct {
	c *C.struct_tgi_weights
}

// mapWeights maps the file at path, if there are matrices in it. The caller closes them, after the sessions that have
// them.
func mapWeights(path string, matrices []Matrix) (w weights, err error) {
	if len(matrices) == 0 {
		return w, nil
	}
	list := make([]C.struct_tgi_matrix, len(matrices))
	defer func() {
		for _, m := range list {
			C.free(unsafe.Pointer(m.name))
		}
	}()
	for i, m := range matrices {
		to := &list[i]
		if m.Offset < 0 || len(m.Shape) > len(to.shape) {
			return w, fmt.Errorf("BUG: matrix %s at %d has %d dimensions", m.Name, m.Offset, len(m.Shape))
		}
		to.name, to.offset, to.bytes, to.rank = C.CString(m.Name), C.size_t(m.Offset), 1, C.size_t(len(m.Shape))
		for d, n := range m.Shape {
			to.shape[d] = C.int64_t(n)
			to.bytes *= C.size_t(n)
		}
	}
	name := C.CString(path)
	defer C.free(unsafe.Pointer(name))
	if err := takeError(C.tgi_weights_map(name, &list[0], C.size_t(len(list)), &w.c)); err != nil {
		return w, fmt.Errorf("mapping %s: %w", path, err)
	}
	return w, nil
}

func (w *weights) close() {
	C.tgi_weights_close(w.c)
	w.c = nil
}
