package gguf

import (
	"encoding/binary"
	"math"

	"tgi/models/tensors"
)

// The functions below give blocks as integers. Codes without an offset are centred: those that count from 0 to 15
// become -8 to 7. Those of a table are its indices.

func q4zeroIntegers(codes []int8, src []byte, _ int) (scale, offset float32) {
	for j, q := range src[2:18] {
		codes[j], codes[j+16] = int8(q&15)-8, int8(q>>4)-8
	}
	return half(src), 0
}

func q4oneIntegers(codes []int8, src []byte, _ int) (scale, offset float32) {
	for j, q := range src[4:20] {
		codes[j], codes[j+16] = int8(q&15), int8(q>>4)
	}
	return half(src), half(src[2:])
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
		codes[j], codes[j+16] = int8(a), int8(b)
	}
	return half(src), half(src[2:])
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
		codes[l] = int8(q >> (k % 2 * 4) & 15)
	}
	return half(src) * s, -half(src[2:]) * m
}

func q5kIntegers(codes []int8, src []byte, k int) (scale, offset float32) {
	s, m := q4scale(src[4:16], k)
	high := src[16:48]
	for l, q := range src[48+k/2*32:][:32] {
		codes[l] = int8(q>>(k%2*4)&15 | high[l]>>k&1<<4)
	}
	return half(src) * s, -half(src[2:]) * m
}

func iq4nlIntegers(codes []int8, src []byte, _ int) (scale, offset float32) {
	for j, q := range src[2:18] {
		codes[j], codes[j+16] = int8(q&15), int8(q>>4)
	}
	return half(src), 0
}

func iq4xsIntegers(codes []int8, src []byte, k int) (scale, offset float32) {
	for j, q := range src[8+16*k:][:16] {
		codes[j], codes[j+16] = tensors.TableIQ4.Number(q&15), tensors.TableIQ4.Number(q>>4)
	}
	return iq4xsScale(src, k), 0
}

// mxfp4Integers halves the scale of numbers that the table has doubled.
func mxfp4Integers(codes []int8, src []byte, _ int) (scale, offset float32) {
	for j, q := range src[1:17] {
		codes[j], codes[j+16] = int8(q&15), int8(q>>4)
	}
	return float32(math.Ldexp(1, int(src[0])-128)), 0
}

// q4kFactored and the functions below give a block of 256 exactly: its scale and offset, and their factors.
func q4kFactored(codes []int8, scales, offsets, src []byte) (scale, offset float32) {
	return factoredParts(codes, scales, offsets, src, q4kIntegers)
}

func q5kFactored(codes []int8, scales, offsets, src []byte) (scale, offset float32) {
	return factoredParts(codes, scales, offsets, src, q5kIntegers)
}

// factoredParts is Factored for Q4_K and Q5_K.
func factoredParts(codes []int8, scales, offsets, src []byte,
	integers func([]int8, []byte, int) (float32, float32)) (scale, offset float32) {
	for k := range scales {
		integers(codes[k*tensors.IntegerBlock:][:tensors.IntegerBlock], src, k)
		s, m := q4scale(src[4:16], k)
		scales[k], offsets[k] = byte(s), byte(m)
	}
	return half(src), -half(src[2:])
}

// iq4xsFactored turns the codes of parts whose factor is below 0: bytes have no sign.
func iq4xsFactored(codes []int8, scales, offsets, src []byte) (scale, offset float32) {
	for k := range scales {
		own := codes[k*tensors.IntegerBlock:][:tensors.IntegerBlock]
		iq4xsIntegers(own, src, k)
		f := iq4xsFactor(src, k)
		if f < 0 {
			for i := range own {
				own[i] = -own[i] // of -127 to 113
			}
		}
		scales[k], offsets[k] = byte(max(f, -f)), 0
	}
	return half(src), 0
}
