package onnx

import (
	"encoding/binary"
	"math"
)

// wire builds one protobuf message by appending fields.
type wire []byte

const (
	typeVarint = 0
	typeBytes  = 2
	typeFixed4 = 5
)

func (w *wire) tag(field, typ int) { *w = binary.AppendUvarint(*w, uint64(field<<3|typ)) }

func (w *wire) int(field int, x int64) {
	w.tag(field, typeVarint)
	*w = binary.AppendUvarint(*w, uint64(x))
}

func (w *wire) float(field int, x float32) {
	w.tag(field, typeFixed4)
	*w = binary.LittleEndian.AppendUint32(*w, math.Float32bits(x))
}

func (w *wire) bytes(field int, b []byte) {
	w.tag(field, typeBytes)
	*w = binary.AppendUvarint(*w, uint64(len(b)))
	*w = append(*w, b...)
}

func (w *wire) string(field int, s string) { w.bytes(field, []byte(s)) }
