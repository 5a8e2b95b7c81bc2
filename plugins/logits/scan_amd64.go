package logits

import (
	"math"

	"golang.org/x/sys/cpu"
)

var useAVX2 = cpu.X86.HasAVX2

// vectorSkip is skip of the first values of x, as many as are whole blocks; 0 where the processor lacks AVX2.
func vectorSkip(x []float32, bar float32) int {
	n := len(x) &^ (blockLen - 1)
	if !useAVX2 || n == 0 {
		return 0
	}
	return skipAVX2(&x[0], n, bar)
}

// vectorUsable gives how many values of x, a multiple of blockLen, are usable for sure: 0 where the processor lacks
// AVX2.
func vectorUsable(x []float32) int {
	n := len(x) &^ (blockLen - 1)
	if !useAVX2 || n == 0 {
		return 0
	}
	return usableAVX2(&x[0], n, math.MaxFloat32)
}

// skipAVX2 gives the first multiple of 32 from which on one of 32 values is above the limit, or n. n is a multiple of
// 32, and not 0. NaN is above nothing.
//
//go:noescape
func skipAVX2(x *float32, n int, limit float32) int

// usableAVX2 gives the first multiple of 32 from which on one of 32 values is NaN or above the limit, or n. n is a
// multiple of 32, and not 0.
//
//go:noescape
func usableAVX2(x *float32, n int, limit float32) int
