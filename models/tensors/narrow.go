package tensors

import (
	"encoding/binary"
	"fmt"
	"math"
)

// AppendFloats appends x as little-endian elements of type d, each rounded to the nearest value
// that d has, ties to even. It fails for types other than F32, F16 and BF16, and for a finite number
// beyond the largest of d.
func (d DType) AppendFloats(out []byte, x []float32) ([]byte, error) {
	switch d {
	case F32:
		for _, v := range x {
			out = binary.LittleEndian.AppendUint32(out, math.Float32bits(v))
		}
	case BF16:
		return appendNarrow(out, x, d, floatToBFloat, infinityBF16, maxBFloat)
	case F16:
		return appendNarrow(out, x, d, floatToHalf, infinityF16, maxHalf)
	default:
		return nil, fmt.Errorf("numbers cannot be written as %s, want F32, F16 or BF16", d)
	}
	return out, nil
}

// RoundHalf returns the nearest number of type F16, which is infinite beyond the largest one.
func RoundHalf(x float32) float32 { return HalfToFloat(floatToHalf(x)) }

// The bits of infinity, and the largest finite number, of the types with 16 bits.
const (
	infinityBF16 = 0x7f80
	infinityF16  = 0x7c00
	maxHalf      = 65504
	maxBFloat    = 0x1.FEp127
)

func appendNarrow(out []byte, x []float32, d DType, narrow func(float32) uint16, infinity uint16,
	largest float64) ([]byte, error) {
	for _, v := range x {
		h := narrow(v)
		if h&^(1<<15) == infinity && !math.IsInf(float64(v), 0) {
			return nil, fmt.Errorf("%g is beyond %g, the largest number of type %s", v, largest, d)
		}
		out = binary.LittleEndian.AppendUint16(out, h)
	}
	return out, nil
}

// Bits of a 32-bit float.
const (
	signBit   = 1 << 31
	infinity  = 0xff << 23
	halfOver  = 0x477ff000 // 65520: from here on the nearest binary16 is infinity
	halfUnder = 0x38800000 // 2^-14: below it binary16 is subnormal
	half      = 0x3f000000 // 0.5
)

// floatToBFloat rounds to the upper 16 bits. A NaN stays one.
func floatToBFloat(f float32) uint16 {
	b := math.Float32bits(f)
	if b&^signBit > infinity {
		return uint16(b>>16) | 1<<6
	}
	return uint16((b + 0x7fff + b>>16&1) >> 16)
}

// floatToHalf rounds to an IEEE 754 binary16. A NaN stays one.
func floatToHalf(f float32) uint16 {
	b := math.Float32bits(f)
	sign := uint16(b>>16) & (1 << 15)
	b &^= signBit
	switch {
	case b > infinity:
		return sign | infinityF16 | 1<<9
	case b >= halfOver:
		return sign | infinityF16
	case b < halfUnder: // 0.5 has units of 2^-24, as subnormals have: the sum rounds
		return sign | uint16(math.Float32bits(math.Float32frombits(b)+0.5)-half)
	}
	const rebias = (127 - 15) << 23
	return sign | uint16((b+0xfff+b>>13&1-rebias)>>13)
}
