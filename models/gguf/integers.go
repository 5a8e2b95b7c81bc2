package gguf

import (
	"encoding/binary"
	"math"

	"tgi/models/tensors"
)

// The functions below give blocks as integers. Codes are centred, as the product's 4-bit codes are: those that count
// from 0 to 15 become -8 to 7, and the offset grows by eight times the scale.

func q4zeroIntegers(codes []int8, src []byte, _ int) (scale, offset float32) {
	for j, q := range src[2:18] {
		codes[j], codes[j+16] = int8(q&15)-8, int8(q>>4)-8
	}
	return half(src), 0
}

func q4oneIntegers(codes []int8, src []byte, _ int) (scale, offset float32) {
	for j, q := range src[4:20] {
		codes[j], codes[j+16] = int8(q&15)-8, int8(q>>4)-8
	}
	scale = half(src)
	return scale, half(src[2:]) + float32(8*scale)
}

func q5zeroIntegers(codes []int8, src []byte, _ int) (scale, offset float32) {
	high := binary.LittleEndian.Uint32(src[2:])
	for j, q := range src[6:22] {
		a, b := fifth(q, high, j)
		codes[j], codes[j+16] = int8(a-16), int8(b-16)
	}
	return half(src), 0
}

func q5oneIntegers(codes []int8, src []byte, _ int) (scale, offset float32) {
	high := binary.LittleEndian.Uint32(src[4:])
	for j, q := range src[8:24] {
		a, b := fifth(q, high, j)
		codes[j], codes[j+16] = int8(a-16), int8(b-16)
	}
	scale = half(src)
	return scale, half(src[2:]) + float32(16*scale)
}

func q8zeroIntegers(codes []int8, src []byte, _ int) (scale, offset float32) {
	for j, q := range src[2:34] {
		codes[j] = int8(q)
	}
	return half(src), 0
}

func q4kIntegers(codes []int8, src []byte, k int) (scale, offset float32) {
	s, m := q4scale(src[4:16], k)
	for l, q := range src[16+k/2*32:][:32] {
		codes[l] = int8(q>>(k%2*4)&15) - 8
	}
	scale = half(src) * s
	return scale, float32(8*scale) - float32(half(src[2:])*m)
}

func q5kIntegers(codes []int8, src []byte, k int) (scale, offset float32) {
	s, m := q4scale(src[4:16], k)
	high := src[16:48]
	for l, q := range src[48+k/2*32:][:32] {
		codes[l] = int8(q>>(k%2*4)&15|high[l]>>k&1<<4) - 16
	}
	scale = half(src) * s
	return scale, float32(16*scale) - float32(half(src[2:])*m)
}

func iq4nlIntegers(codes []int8, src []byte, _ int) (scale, offset float32) {
	for j, q := range src[2:18] {
		codes[j], codes[j+16] = int8(nonlinear[q&15]), int8(nonlinear[q>>4])
	}
	return half(src), 0
}

func iq4xsIntegers(codes []int8, src []byte, k int) (scale, offset float32) {
	for j, q := range src[8+16*k:][:16] {
		codes[j], codes[j+16] = int8(nonlinear[q&15]), int8(nonlinear[q>>4])
	}
	return iq4xsScale(src, k), 0
}

// mxfp4Integers doubles the numbers, which have halves.
func mxfp4Integers(codes []int8, src []byte, _ int) (scale, offset float32) {
	for j, q := range src[1:17] {
		codes[j], codes[j+16] = int8(2*tensors.FloatOf4Bits(q&15)), int8(2*tensors.FloatOf4Bits(q>>4))
	}
	return float32(math.Ldexp(1, int(src[0])-128)), 0
}
