package decoder

import (
	"fmt"
	"os"
	"slices"

	"tgi/models/onnx"
)

// MappedMatrices lists the quantised matrices that a built model's graph, a file, has in the data file beside it.
func MappedMatrices(graph string) ([]onnx.TensorInfo, error) {
	f, err := os.Open(graph)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return nil, err
	}
	g, err := onnx.Read(f, st.Size())
	if err != nil {
		return nil, fmt.Errorf("%s: %w", graph, err)
	}
	return slices.DeleteFunc(g.Tensors, func(t onnx.TensorInfo) bool {
		return t.Type != onnx.Uint8 || t.Location != DataFile
	}), nil
}
