package sample

import (
	"math"
	"testing"
)

// TestPortable runs what depends on the vector loops without them.
func TestPortable(t *testing.T) {
	defer func(had bool) { useAVX2 = had }(useAVX2)
	useAVX2 = false
	t.Run("sums", TestSumExpAndGreatest)
	t.Run("goldens", TestGoldens)
	t.Run("borders", TestBorders)
	t.Run("strange", TestStrangeLogits)
}

// TestVectorExp looks at one lane at a time, over the whole range.
func TestVectorExp(t *testing.T) {
	if !useAVX2 {
		t.Skip("no AVX2 here")
	}
	x := make([]float32, 16)
	sum := func(lane int, d float32) float64 {
		for i := range x {
			x[i] = negInf
		}
		x[lane] = d
		s, done := vectorSumExp(x, 0, 1)
		if done != len(x) {
			t.Fatalf("%d of %d values summed", done, len(x))
		}
		return float64(s)
	}
	if got := sum(3, 0); got != 1 {
		t.Errorf("e^0 = %v, want exactly 1", got)
	}
	worst, lane := 0.0, 0
	for d := float32(0); d > -spread; d -= 1.37e-4 {
		lane = (lane + 1) % len(x)
		worst = max(worst, math.Abs(sum(lane, d)/math.Exp(float64(d))-1))
	}
	// Near -31 the product with log2(e) is itself rounded by 2e-6.
	if worst > 3e-6 {
		t.Errorf("relative error %g, want at most 3e-6", worst)
	}
	for _, d := range []float32{-spread, -40, -100, -math.MaxFloat32, negInf, float32(math.NaN())} {
		if got := sum(5, d); got != 0 {
			t.Errorf("e^%v = %v, want 0", d, got)
		}
	}
}
