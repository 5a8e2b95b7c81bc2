package onnx

import (
	"math"

	"google.golang.org/protobuf/encoding/protowire"
)

// message is an encoded protobuf message. Fields are appended in the order of the calls.
type message []byte

func (m *message) int(field protowire.Number, x int64) {
	*m = protowire.AppendTag(*m, field, protowire.VarintType)
	*m = protowire.AppendVarint(*m, uint64(x))
}

func (m *message) float(field protowire.Number, x float32) {
	*m = protowire.AppendTag(*m, field, protowire.Fixed32Type)
	*m = protowire.AppendFixed32(*m, math.Float32bits(x))
}

func (m *message) bytes(field protowire.Number, b []byte) {
	*m = protowire.AppendTag(*m, field, protowire.BytesType)
	*m = protowire.AppendBytes(*m, b)
}

func (m *message) string(field protowire.Number, s string) {
	*m = protowire.AppendTag(*m, field, protowire.BytesType)
	*m = protowire.AppendString(*m, s)
}
