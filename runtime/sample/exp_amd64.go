package sample

import "golang.org/x/sys/cpu"

var useAVX2 = cpu.X86.HasAVX2 && cpu.X86.HasFMA

// vectorSumExp is sumExp of the first done values of x, a multiple of 8 and 0
// where the processor lacks AVX2.
func vectorSumExp(x []float32, top, scale float32) (sum float32, done int) {
	done = len(x) &^ 7
	if !useAVX2 || done == 0 {
		return 0, 0
	}
	return sumExpAVX2(&x[0], done, top, scale), done
}

// vectorGreatest is greatest of the first done values of x, a multiple of 32 and
// 0 where the processor lacks AVX2.
func vectorGreatest(x []float32) (m float32, done int) {
	done = len(x) &^ 31
	if !useAVX2 || done == 0 {
		return negInf, 0
	}
	return greatestAVX2(&x[0], done), done
}

// sumExpAVX2 reads n > 0 values, a multiple of 8.
//
//go:noescape
func sumExpAVX2(x *float32, n int, top, scale float32) float32

// greatestAVX2 reads n > 0 values, a multiple of 32.
//
//go:noescape
func greatestAVX2(x *float32, n int) float32
