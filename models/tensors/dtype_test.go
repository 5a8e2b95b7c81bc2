package tensors

import (
	"math"
	"testing"
)

func TestHalvesWiden(t *testing.T) {
	for h := range 1 << 16 {
		got := HalfToFloat(uint16(h))
		exp, frac := h>>10&0x1f, float64(h&0x3ff)
		var want float64
		switch {
		case exp == 0x1f && frac != 0:
			if got == got {
				t.Fatalf("%#x is %g, want NaN", h, got)
			}
			continue
		case exp == 0x1f:
			want = math.Inf(1)
		case exp == 0:
			want = math.Ldexp(frac, -24)
		default:
			want = math.Ldexp(1024+frac, exp-25)
		}
		if h>>15 == 1 {
			want = -want
		}
		if float64(got) != want || math.Signbit(float64(got)) != (h>>15 == 1) {
			t.Fatalf("%#x is %g, want %g", h, got, want)
		}
	}
}
