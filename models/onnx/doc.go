// Package onnx writes ONNX models: a small graph builder, its encoding as a ModelProto,
// and a writer for external tensor data. It knows the file format, not the meaning of
// operators. It starts no goroutines.
//
// Field numbers are those of onnx.proto at IR version 10.
package onnx
