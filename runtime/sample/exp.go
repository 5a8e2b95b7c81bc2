package sample

import "math"

// The softmax of a row is the hot loop of this package: a vocabulary of 152k
// tokens needs 152k exponentials per row and step. expNeg computes e^-d for
// d in [0, spread) from a table of e^(-i/expSteps) and one linear correction;
// its relative error is below 6e-7, and e^-0 is exactly 1. The two loops that
// see every token of every row, sumExp and greatest, have AVX2 versions beside
// these portable ones.
const (
	expSteps = 512
	expSize  = 16384 // a power of two, so that a mask replaces the bounds check
	// spread is the distance from the best logit past which a token weighs
	// nothing: e^-31 times a million tokens is below float32's resolution.
	spread = 31
	// roundBias added to a float32 in [0, 2^22) leaves the nearest integer in
	// the low bits of its representation.
	roundBias = 1 << 23
)

var expTable = func() (t [expSize]float32) {
	for i := range t {
		t[i] = float32(math.Exp(-float64(i) / expSteps))
	}
	return t
}()

// expNeg returns e^-d for 0 <= d < spread; outside the result is meaningless.
func expNeg(d float32) float32 {
	f := d*expSteps + roundBias
	r := d - (f-roundBias)*(1.0/expSteps)
	t := expTable[math.Float32bits(f)&(expSize-1)]
	return t - t*r
}

// weight returns e^d for d <= 0, and 0 for what is negligible or NaN.
func weight(d float32) float32 {
	if -d < spread {
		return expNeg(-d)
	}
	return 0
}

// sumExp returns the sum of e^((v-top)*scale) over x, whose greatest value is
// top. x holds no more than some thousand values: the parts are float32 sums.
func sumExp(x []float32, top, scale float32) float64 {
	sum, done := vectorSumExp(x, top, scale)
	return float64(sum) + portableSumExp(x[done:], top, scale)
}

// portableSumExp runs four sums side by side because one would wait for its own
// last addition.
func portableSumExp(x []float32, top, scale float32) float64 {
	var s0, s1, s2, s3 float32
	for len(x) >= 4 {
		d0, d1 := (top-x[0])*scale, (top-x[1])*scale
		d2, d3 := (top-x[2])*scale, (top-x[3])*scale
		if d0 < spread {
			s0 += expNeg(d0)
		}
		if d1 < spread {
			s1 += expNeg(d1)
		}
		if d2 < spread {
			s2 += expNeg(d2)
		}
		if d3 < spread {
			s3 += expNeg(d3)
		}
		x = x[4:]
	}
	for _, v := range x {
		if d := (top - v) * scale; d < spread {
			s0 += expNeg(d)
		}
	}
	return float64(s0) + float64(s1) + float64(s2) + float64(s3)
}

// greatest returns the greatest value of x that is no NaN, or -Inf.
func greatest(x []float32) float32 {
	m, done := vectorGreatest(x)
	if v := portableGreatest(x[done:]); v > m {
		return v
	}
	return m
}

func portableGreatest(x []float32) float32 {
	m := negInf
	for len(x) >= 8 {
		if x[0] > m || x[1] > m || x[2] > m || x[3] > m || x[4] > m || x[5] > m || x[6] > m || x[7] > m {
			for _, v := range x[:8] {
				if v > m {
					m = v
				}
			}
		}
		x = x[8:]
	}
	for _, v := range x {
		if v > m {
			m = v
		}
	}
	return m
}
