package logits

import (
	"math"

	"golang.org/x/sys/cpu"
)

var useAVX2 = cpu.X86.HasAVX2

// vectorSkip is skip over the whole blocks of x; 0 if the processor lacks AVX2.
func vectorSkip(x []float32, bar float32) int {
	n := len(x) &^ (blockLen - 1)
	if !useAVX2 || n == 0 {
		return 0
	}
	return skipAVX2(&x[0], n, bar)
}

// vectorUsable returns how many leading values of x, a multiple of blockLen, are certainly usable: 0 if the processor
// lacks AVX2.
func vectorUsable(x []float32) int {
	n := len(x) &^ (blockLen - 1)
	if !useAVX2 || n == 0 {
		return 0
	}
	return usableAVX2(&x[0], n, math.MaxFloat32)
}

// skipAVX2 returns the index of the first block of 32 with a value above the limit, or n. n is a multiple of 32, and
// not 0. NaN is never above.
//
//go:noescape
func skipAVX2(x *float32, n int, limit float32) int

// usableAVX2 returns the index of the first block of 32 with a NaN or a value above the limit, or n. n is a multiple of
// 32, and not 0.
//
//go:noescape
func usableAVX2(x *float32, n int, limit float32) int
