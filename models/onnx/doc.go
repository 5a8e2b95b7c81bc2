// Package onnx writes ONNX models: a small graph builder, the protobuf wire
// form of ModelProto, and a writer for external tensor data. It knows the file
// format and nothing of what the operators mean.
//
// Field numbers are those of onnx.proto at IR version 10.
package onnx
