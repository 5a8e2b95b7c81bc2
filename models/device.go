package models

import (
	"fmt"
	"slices"
	"strings"
)

// Device is a kind of processor that graphs are built for.
type Device string

// The devices.
const (
	CPU  Device = "cpu"
	CUDA Device = "cuda"
)

// Weights is the format of a built model's matrices.
type Weights string

// The formats. Norms, biases and scales have the DType of the Layout.
const (
	// FP32 holds 32-bit floats, 4 bytes for each parameter: the reference, on the CPU alone.
	FP32 Weights = "fp32"
	// BF16 holds 16-bit floats with the range of FP32, as most checkpoints do.
	BF16 Weights = "bf16"
	// FP16 holds 16-bit floats with a longer fraction than BF16 and magnitudes up to 65504.
	FP16 Weights = "fp16"
	// Int8 holds 8-bit integers with a scale for each block of weights of a row.
	Int8 Weights = "int8"
	// Int4 holds 4-bit integers with a scale for each block of weights of a row.
	Int4 Weights = "int4"
	// Stored holds the integers of a checkpoint whose weights are quantised already, with an offset for each block
	// where that has one, and 8-bit integers where it has floats: on the CPU alone.
	Stored Weights = "stored"
)

// Quantised reports whether matrices are blocks of integers.
func (w Weights) Quantised() bool { return w == Int8 || w == Int4 || w == Stored }

// Formats returns the formats that a device can compute any checkpoint with, the largest first. The slice is the
// caller's.
func (d Device) Formats() []Weights {
	if d == CUDA {
		return []Weights{BF16, FP16, Int8, Int4}
	}
	return []Weights{FP32, Int8, Int4}
}

// Check returns an error if the device cannot compute with weights of a format.
func (d Device) Check(w Weights) error {
	if d != CPU && d != CUDA {
		return fmt.Errorf("device must be %s or %s, given %q", CPU, CUDA, d)
	}
	formats := d.Formats()
	if slices.Contains(formats, w) || w == Stored && d == CPU {
		return nil
	}
	names := make([]string, len(formats))
	for i, f := range formats {
		names[i] = string(f)
	}
	last := len(names) - 1
	return fmt.Errorf("weights must be %s or %s on %s, given %q", strings.Join(names[:last], ", "),
		names[last], d, w)
}

// QuantBlock is how many consecutive weights of a row share a scale in Int8 and Int4. On CUDA the
// fused kernels for many rows take blocks of 32, not 128; on CPUs larger ones would be little faster
// and err more.
const QuantBlock = 32

// DType is the type of a number.
type DType string

// The types.
const (
	Float32  DType = "float32"
	BFloat16 DType = "bfloat16"
	Float16  DType = "float16"
	// Codes8 are 8-bit integers with a 16-bit scale for each 32 numbers of a head. Only a cache has them.
	Codes8 DType = "int8"
)

// Size returns the bytes of one number, without scales.
func (t DType) Size() int {
	switch t {
	case Float32:
		return 4
	case Codes8:
		return 1
	}
	return 2
}

// Layout is how a device holds the activations and the KV cache of a model.
type Layout struct {
	Device Device
	// DType is the type of activations, norms, biases and rotary tables. Logits are always Float32.
	DType DType
	// Cache is the type of keys and values.
	Cache DType
	// BlockSize is the number of tokens of a cache block.
	BlockSize int
}

// LayoutOf returns the layout of a model with weights of a format and heads of headDim numbers.
func LayoutOf(d Device, w Weights, headDim int) Layout {
	if d != CUDA {
		l := Layout{Device: d, DType: Float32, Cache: Float32, BlockSize: 16}
		if w.Quantised() { // which costs far more accuracy than a smaller cache
			l.Cache = Float16
		}
		return l
	}
	l := Layout{Device: d, DType: Float16, BlockSize: cudaBlock(headDim)}
	if w == BF16 { // the fused kernels for int8 and int4 take fp16 alone
		l.DType = BFloat16
	}
	l.Cache = l.DType
	return l
}

// cudaBlock is the smallest block with which FlashAttention reads the cache in place. With smaller
// ones PagedAttention first gathers it to a dense copy, or takes a slow kernel.
func cudaBlock(headDim int) int {
	switch {
	case headDim <= 64:
		return 256
	case headDim <= 128:
		return 128
	}
	return 64
}

// CacheBytesPerToken is what the keys and values of one token take in so many layers, with so many numbers in each, in
// heads of headDim.
func (l Layout) CacheBytesPerToken(layers, numbers, headDim int) int64 {
	if l.Cache == Codes8 {
		scales := numbers / max(headDim, 1) * ((headDim + cacheGroup - 1) / cacheGroup)
		return int64(layers) * int64(numbers+2*scales)
	}
	return int64(l.Cache.Size()) * int64(layers) * int64(numbers)
}

// cacheGroup is how many numbers of a cache of 8-bit integers have a scale.
const cacheGroup = 32

// WithCache returns the layout with keys and values of another type.
func (l Layout) WithCache(t DType) Layout {
	l.Cache = t
	return l
}
