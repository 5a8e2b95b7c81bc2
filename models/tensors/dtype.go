package tensors

import (
	"encoding/binary"
	"fmt"
	"math"
)

// DType is the element type of a tensor.
type DType string

// The element types whose values this package can read. Other types of the
// format are accepted in a header, so that a checkpoint may carry them, but
// Floats refuses them.
const (
	F32  DType = "F32"
	F16  DType = "F16"
	BF16 DType = "BF16"
)

// widths holds the bits of every element type that the safetensors format defines.
var widths = map[DType]int64{
	"F64": 64, "I64": 64, "U64": 64, "C64": 64,
	F32: 32, "I32": 32, "U32": 32,
	F16: 16, BF16: 16, "I16": 16, "U16": 16,
	"I8": 8, "U8": 8, "BOOL": 8,
	"F8_E4M3": 8, "F8_E5M2": 8, "F8_E8M0": 8, "F8_E4M3FNUZ": 8, "F8_E5M2FNUZ": 8,
	"F6_E2M3": 6, "F6_E3M2": 6, "F4": 4,
}

// Bits returns the size of one element of a type of the safetensors format; 0 for others.
func (d DType) Bits() int64 { return widths[d] }

// Size returns the bytes of one element, 0 for types narrower than a byte and
// for unknown ones.
func (d DType) Size() int { return int(widths[d] / 8) }

// widen converts the little-endian elements in src to dst; src holds exactly
// len(dst) elements of a type that Floats accepted.
func (d DType) widen(dst []float32, src []byte) {
	switch d {
	case F32:
		for i := range dst {
			dst[i] = math.Float32frombits(binary.LittleEndian.Uint32(src[4*i:]))
		}
	case BF16:
		for i := range dst {
			dst[i] = math.Float32frombits(uint32(binary.LittleEndian.Uint16(src[2*i:])) << 16)
		}
	case F16:
		for i := range dst {
			dst[i] = HalfToFloat(binary.LittleEndian.Uint16(src[2*i:]))
		}
	default:
		panic(fmt.Sprintf("BUG: widen called for %s", d))
	}
}

// HalfToFloat widens an IEEE 754 binary16.
func HalfToFloat(h uint16) float32 {
	sign := uint32(h>>15) << 31
	exp := uint32(h>>10) & 0x1f
	frac := uint32(h) & 0x3ff
	switch exp {
	case 0x1f: // infinity and NaN keep their payload
		return math.Float32frombits(sign | 0xff<<23 | frac<<13)
	case 0: // zero and subnormals: frac * 2^-24 is exact in binary32
		f := float32(frac) * (1.0 / (1 << 24))
		return math.Float32frombits(sign | math.Float32bits(f))
	}
	return math.Float32frombits(sign | (exp+112)<<23 | frac<<13)
}
