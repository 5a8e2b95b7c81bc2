package safetensors

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"

	"tgi/models/tensors"
)

// Spec describes a tensor to be written.
type Spec struct {
	Name  string
	DType tensors.DType
	Shape []int64
}

// Bytes returns the length of the tensor's data, or why there is none.
func (s Spec) Bytes() (int64, error) {
	n, err := byteLen(s.DType, s.Shape)
	if err != nil {
		return 0, fmt.Errorf("tensor %q: %w", s.Name, err)
	}
	return n, nil
}

// WriteHeader writes what comes before the data of a file that holds the
// given tensors in this order. The data of each must follow at once, without
// padding.
func WriteHeader(w io.Writer, specs []Spec) error {
	type field struct {
		DType   tensors.DType `json:"dtype"`
		Shape   []int64       `json:"shape"`
		Offsets [2]int64      `json:"data_offsets"`
	}
	header := map[string]field{}
	var at int64
	for _, s := range specs {
		n, err := s.Bytes()
		if err != nil {
			return err
		}
		if _, twice := header[s.Name]; twice {
			return fmt.Errorf("tensor %q is given twice", s.Name)
		}
		shape := s.Shape
		if shape == nil {
			shape = []int64{}
		}
		header[s.Name] = field{s.DType, shape, [2]int64{at, at + n}}
		at += n
	}
	text, err := json.Marshal(header)
	if err != nil {
		return err
	}
	for len(text)%8 != 0 { // the data begins aligned
		text = append(text, ' ')
	}
	if _, err := w.Write(binary.LittleEndian.AppendUint64(nil, uint64(len(text)))); err != nil {
		return err
	}
	_, err = w.Write(text)
	return err
}
