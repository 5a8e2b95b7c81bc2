package tensors

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
)

// narrowed returns what AppendFloats makes of one number, as bits.
func narrowed(t *testing.T, d DType, x float32) uint16 {
	t.Helper()
	b, err := d.AppendFloats(nil, []float32{x})
	if err != nil {
		t.Fatalf("%s of %g: %v", d, x, err)
	}
	return binary.LittleEndian.Uint16(b)
}

// widened is the value of 16 bits.
func widened(d DType, h uint16) float32 {
	var x [1]float32
	d.widen(x[:], binary.LittleEndian.AppendUint16(nil, h))
	return x[0]
}

// TestNarrowRoundsToTheNearest: every 16-bit number survives, and between two neighbours the nearer one wins, or, half
// way, the even one.
func TestNarrowRoundsToTheNearest(t *testing.T) {
	for d, infinity := range map[DType]uint16{F16: infinityF16, BF16: infinityBF16} {
		for h := range infinity {
			if d == BF16 && h >= infinity-1 {
				continue // its neighbour is infinity
			}
			low, high := widened(d, h), widened(d, h+1)
			if d == F16 && h == infinity-1 {
				high = 65536 // where the next number would be
			}
			between := []float32{low, float32((float64(low) + float64(high)) / 2)}
			for range 3 {
				between = append(between, low+rand.Float32()*(high-low))
			}
			for _, x := range between {
				want := h
				below, above := float64(x)-float64(low), float64(high)-float64(x)
				if above < below || above == below && h%2 == 1 {
					want++
				}
				if want == infinity {
					continue // refused, see below
				}
				if got := narrowed(t, d, x); got != want {
					t.Fatalf("%s: %g is %#x, want %#x", d, x, got, want)
				}
				if got := narrowed(t, d, -x); got != want|1<<15 {
					t.Fatalf("%s: %g is %#x, want %#x", d, -x, got, want|1<<15)
				}
			}
		}
		if got := narrowed(t, d, float32(math.Inf(-1))); got != infinity|1<<15 {
			t.Errorf("%s: -Inf is %#x", d, got)
		}
		for _, bits := range []uint32{0x7f800001, 0xffc00000, 0x7fffffff} {
			if x := widened(d, narrowed(t, d, math.Float32frombits(bits))); x == x {
				t.Errorf("%s: NaN %#x became %g", d, bits, x)
			}
		}
	}
}

func TestNarrowRefusesWhatATypeCannotHold(t *testing.T) {
	cases := []struct {
		d    DType
		x    float32
		want string
	}{
		{F16, 65520, "65520 is beyond 65504, the largest number of type F16"},
		{F16, -1e5, "-100000 is beyond 65504"},
		{BF16, math.MaxFloat32, "3.4028235e+38 is beyond 3.3895313892515355e+38, the largest number of type BF16"},
		{"I8", 1, "numbers cannot be written as I8, want F32, F16 or BF16"},
	}
	for _, c := range cases {
		if _, err := c.d.AppendFloats(nil, []float32{0, c.x}); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s of %g: %v, want %s", c.d, c.x, err, c.want)
		}
	}
	if got := narrowed(t, F16, 65519); got != infinityF16-1 {
		t.Errorf("65519 is %#x, want the largest number", got)
	}
}
