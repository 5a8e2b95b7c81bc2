package gguf

import (
	"encoding/binary"
	"math"

	"tgi/models/tensors"
)

// coding is a type of tensors: a plain one, or blocks.
type coding struct {
	name            tensors.DType
	elements, bytes int
	decode          func(dst []float32, src []byte)
	form            tensors.Form
	integers        func(codes []int8, src []byte, k int) (scale, offset float32)
	factored        func(codes []int8, scales, offsets, src []byte) (scale, offset float32)
	factors         func(codes, factors []int8, src []byte) (scale float32)
	coded           *tensors.Coding // nil for a plain type
}

// Forms of integers.
var (
	int4       = tensors.Form{Bits: 4}
	int8s      = tensors.Form{Bits: 8}
	int4Offset = tensors.Form{Bits: 4, Offsets: true}
	int8Offset = tensors.Form{Bits: 8, Offsets: true}
	int6       = tensors.Form{Bits: tensors.SixBits}
	iq4        = tensors.Form{Bits: 4, Table: tensors.TableIQ4}
	mx4        = tensors.Form{Bits: 4, Table: tensors.TableMXFP4}
	int4Factor = tensors.Form{Bits: 4, Offsets: true, Factors: true}
	int8Factor = tensors.Form{Bits: 8, Offsets: true, Factors: true}
)

// Names of types of blocks.
const (
	Q4_0 tensors.DType = "Q4_0"
	Q5_0 tensors.DType = "Q5_0"
	Q8_0 tensors.DType = "Q8_0"
)

// codings are the types that can be read, by their numbers in the format.
var codings = map[uint32]*coding{
	0:  {name: tensors.F32, elements: 1, bytes: 4},
	1:  {name: tensors.F16, elements: 1, bytes: 2},
	30: {name: tensors.BF16, elements: 1, bytes: 2},
	2:  {name: Q4_0, elements: 32, bytes: 18, decode: q4zero, form: int4, integers: q4zeroIntegers},
	3:  {name: "Q4_1", elements: 32, bytes: 20, decode: q4one, form: int4Offset, integers: q4oneIntegers},
	6:  {name: Q5_0, elements: 32, bytes: 22, decode: q5zero, form: int8s, integers: q5zeroIntegers},
	7:  {name: "Q5_1", elements: 32, bytes: 24, decode: q5one, form: int8Offset, integers: q5oneIntegers},
	8:  {name: Q8_0, elements: 32, bytes: 34, decode: q8zero, form: int8s, integers: q8zeroIntegers},
	10: {name: "Q2_K", elements: 256, bytes: 84, decode: q2k},
	11: {name: "Q3_K", elements: 256, bytes: 110, decode: q3k},
	12: {name: "Q4_K", elements: 256, bytes: 144, decode: q4k, form: int4Factor, integers: q4kIntegers,
		factored: q4kFactored},
	13: {name: "Q5_K", elements: 256, bytes: 176, decode: q5k, form: int8Factor, integers: q5kIntegers,
		factored: q5kFactored},
	14: {name: "Q6_K", elements: 256, bytes: 210, decode: q6k, form: int6, factors: q6kFactors},
	20: {name: "IQ4_NL", elements: 32, bytes: 18, decode: iq4nl, form: iq4, integers: iq4nlIntegers},
	23: {name: "IQ4_XS", elements: 256, bytes: 136, decode: iq4xs, form: int8Factor, integers: iq4xsIntegers,
		factored: iq4xsFactored},
	39: {name: "MXFP4 (GGUF)", elements: 32, bytes: 17, decode: mxfp4, form: mx4, integers: mxfp4Integers},
}

// otherTypes are types that cannot be read, for error texts.
var otherTypes = map[uint32]string{9: "Q8_1", 15: "Q8_K", 16: "IQ2_XXS", 17: "IQ2_XS", 18: "IQ3_XXS", 19: "IQ1_S",
	21: "IQ3_S", 22: "IQ2_S", 24: "I8", 25: "I16", 26: "I32", 27: "I64", 28: "F64", 29: "IQ1_M", 34: "TQ1_0",
	35: "TQ2_0",
	40: "NVFP4"}

func init() {
	for _, c := range codings {
		if c.decode != nil {
			c.coded = &tensors.Coding{Name: c.name, Elements: c.elements, Bytes: c.bytes, Decode: c.decode,
				Form: c.form, Integers: c.integers, Factors: c.factors, Factored: c.factored}
		}
	}
}

// half reads a 16-bit float.
func half(src []byte) float32 { return tensors.HalfToFloat(binary.LittleEndian.Uint16(src)) }

// Products and sums below are rounded one by one, as in the reference: a conversion keeps Go from fusing them.

func q4zero(dst []float32, src []byte) {
	d := half(src)
	for j, q := range src[2:18] {
		dst[j] = float32(int(q&15)-8) * d
		dst[j+16] = float32(int(q>>4)-8) * d
	}
}

func q4one(dst []float32, src []byte) {
	d, m := half(src), half(src[2:])
	for j, q := range src[4:20] {
		dst[j] = float32(float32(q&15)*d) + m
		dst[j+16] = float32(float32(q>>4)*d) + m
	}
}

// fifth returns the codes number j and j+16 of 5 bits, whose upper bits are in high.
func fifth(q byte, high uint32, j int) (a, b int) {
	return int(q&15) | int(high>>j&1)<<4, int(q>>4) | int(high>>(j+16)&1)<<4
}

func q5zero(dst []float32, src []byte) {
	d, high := half(src), binary.LittleEndian.Uint32(src[2:])
	for j, q := range src[6:22] {
		a, b := fifth(q, high, j)
		dst[j], dst[j+16] = float32(a-16)*d, float32(b-16)*d
	}
}

func q5one(dst []float32, src []byte) {
	d, m, high := half(src), half(src[2:]), binary.LittleEndian.Uint32(src[4:])
	for j, q := range src[8:24] {
		a, b := fifth(q, high, j)
		dst[j], dst[j+16] = float32(float32(a)*d)+m, float32(float32(b)*d)+m
	}
}

func q8zero(dst []float32, src []byte) {
	d := half(src)
	for j, q := range src[2:34] {
		dst[j] = float32(int8(q)) * d
	}
}

func q2k(dst []float32, src []byte) {
	scales, codes, d, low := src[:16], src[16:80], half(src[80:]), half(src[82:])
	for i := range dst {
		// Each 128 codes share 32 bytes, 2 bits of each in turn.
		part, j, l := i/128, i%128/32, i%32
		s := scales[i/16]
		q := codes[32*part+l] >> (2 * j) & 3
		dst[i] = float32(float32(d*float32(s&15))*float32(q)) - float32(low*float32(s>>4))
	}
}

func q3k(dst []float32, src []byte) {
	high, codes, packed, d := src[:32], src[32:96], src[96:108], half(src[108:])
	for i := range dst {
		part, j, l := i/128, i%128/32, i%32
		q := int(codes[32*part+l] >> (2 * j) & 3)
		if high[l]>>(4*part+j)&1 == 0 {
			q -= 4
		}
		dst[i] = float32(d*float32(q3scale(packed, i/16)-32)) * float32(q)
	}
}

// q3scale returns scale k of 16, of 6 bits: the lower four are in the first eight bytes, the upper two in the last
// four.
func q3scale(packed []byte, k int) int {
	low := packed[k%8]
	if k >= 8 {
		low >>= 4
	}
	return int(low&15) | int(packed[8+k%4]>>(k/4*2)&3)<<4
}

// q4scale returns scale and minimum k of 8, of 6 bits each.
func q4scale(packed []byte, k int) (scale, low float32) {
	if k < 4 {
		return float32(packed[k] & 63), float32(packed[k+4] & 63)
	}
	return float32(packed[k+4]&15 | packed[k-4]>>6<<4), float32(packed[k+4]>>4 | packed[k]>>6<<4)
}

func q4k(dst []float32, src []byte) {
	d, low, packed, codes := half(src), half(src[2:]), src[4:16], src[16:144]
	for k := range 8 {
		s, m := q4scale(packed, k)
		s, m = d*s, low*m
		for l, q := range codes[k/2*32:][:32] {
			dst[32*k+l] = float32(s*float32(q>>(k%2*4)&15)) - m
		}
	}
}

func q5k(dst []float32, src []byte) {
	d, low, packed, high, codes := half(src), half(src[2:]), src[4:16], src[16:48], src[48:176]
	for k := range 8 {
		s, m := q4scale(packed, k)
		s, m = d*s, low*m
		for l, q := range codes[k/2*32:][:32] {
			dst[32*k+l] = float32(s*float32(q>>(k%2*4)&15|high[l]>>k&1<<4)) - m
		}
	}
}

func q6k(dst []float32, src []byte) {
	var codes [256]int8
	var factors [16]int8
	d := q6kFactors(codes[:], factors[:], src)
	for i, q := range codes {
		dst[i] = float32(d*float32(factors[i/16])) * float32(q)
	}
}

// q6kFactors gives a block as integers: codes, and factors of 16 each besides the scale.
func q6kFactors(codes, factors []int8, src []byte) (scale float32) {
	low, high := src[:128], src[128:192]
	for i := range codes {
		// Each 128 codes have 64 bytes of lower halves and 32 of upper bits, 2 of each in turn.
		part, j, l := i/128, i%128/32, i%32
		q := low[64*part+32*(j%2)+l] >> (j / 2 * 4) & 15
		q |= high[32*part+l] >> (2 * j) & 3 << 4
		codes[i] = int8(q) - 32
	}
	for i, f := range src[192:208] {
		factors[i] = int8(f)
	}
	return half(src[208:])
}

// nonlinear returns the value of a 4-bit code of the types IQ4.
func nonlinear(code byte) float32 { return float32(tensors.TableIQ4.Number(code)) }

func iq4nl(dst []float32, src []byte) {
	d := half(src)
	for j, q := range src[2:18] {
		dst[j], dst[j+16] = d*nonlinear(q&15), d*nonlinear(q>>4)
	}
}

// iq4xsFactor returns the factor of part k of 8, iq4xsScale its scale.
func iq4xsFactor(src []byte, k int) int {
	s := int(src[4+k/2]>>(k%2*4)&15) | int(binary.LittleEndian.Uint16(src[2:])>>(2*k)&3)<<4
	return s - 32
}

func iq4xsScale(src []byte, k int) float32 { return half(src) * float32(iq4xsFactor(src, k)) }

func iq4xs(dst []float32, src []byte) {
	codes := src[8:136]
	for k := range 8 {
		scale := iq4xsScale(src, k)
		for j, q := range codes[16*k:][:16] {
			dst[32*k+j], dst[32*k+j+16] = scale*nonlinear(q&15), scale*nonlinear(q>>4)
		}
	}
}

// mxfp4 is the format of the Open Compute Project with its codes in ggml's order.
func mxfp4(dst []float32, src []byte) {
	scale := float32(math.Ldexp(1, int(src[0])-127))
	for j, q := range src[1:17] {
		dst[j], dst[j+16] = tensors.FloatOf4Bits(q&15)*scale, tensors.FloatOf4Bits(q>>4)*scale
	}
}
