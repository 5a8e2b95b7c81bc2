package ort

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// float of a 16-bit float, by the definition of the format.
func floatOf(h uint16) float32 {
	sign := 1.0
	if h&0x8000 != 0 {
		sign = -1
	}
	exponent, fraction := int(h>>10&31), float64(h&1023)
	switch exponent {
	case 0:
		return float32(sign * math.Ldexp(fraction, -24))
	case 31:
		if fraction != 0 {
			return float32(math.NaN())
		}
		return float32(math.Inf(int(sign)))
	}
	return float32(sign * math.Ldexp(1024+fraction, exponent-25))
}

// halfOf is the nearest 16-bit float, of two as near the even one, and of those that are too large the largest.
func halfOf(x float32) uint16 {
	sign := uint16(0)
	if math.Signbit(float64(x)) {
		sign = 0x8000
	}
	v := math.Abs(float64(x))
	if v != v {
		return sign | 0x7e00
	}
	v = min(v, 65504)
	exponent := max(math.Ilogb(v), -14)
	if v == 0 {
		return sign
	}
	n := math.RoundToEven(math.Ldexp(v, 10-exponent)) // 1024 to 2048, or below where the number is denormal
	if n == 2048 {
		n, exponent = 1024, exponent+1
	}
	if n < 1024 {
		return sign | uint16(n)
	}
	return sign | uint16(exponent+15)<<10 | uint16(n-1024)
}

func halvesOf(x []float32) []uint16 {
	out := make([]uint16, len(x))
	for i, v := range x {
		out[i] = halfOf(v)
	}
	return out
}

func floatsOf(x []uint16) []float32 {
	out := make([]float32, len(x))
	for i, v := range x {
		out[i] = floatOf(v)
	}
	return out
}

// TestHalfCache runs calls with a cache of 16-bit floats: what is written is what a cache of 32-bit floats gets,
// rounded, and attention to it is, bit by bit, that to the same numbers as 32-bit floats.
func TestHalfCache(t *testing.T) {
	for _, s := range []shape{
		{heads: 9, kvHeads: 3, headSize: 64, half: 32},
		{heads: 7, kvHeads: 1, headSize: 40, norm: true, window: 290, packed: true},
		{heads: 4, kvHeads: 4, headSize: 8},
	} {
		halves := s
		halves.halves = true
		whole, half := openNode(t, s, 2), openNode(t, halves, 2)
		for _, kernel := range kernels(t) {
			if err := chooseAttention(kernel); err != nil {
				t.Fatal(err)
			}
			r := rand.New(rand.NewPCG(3, 4))
			blocks, rows := deal(r, [][2]int{{0, 400}, {700, 1}, {130, 9}, {256, 1}, {600, 70}})
			c := lay(r, s, blocks, rows)
			for i, v := range []float32{1e6, -1e6, 65504, 65519, 65520, 0x1p-24, 0x1p-25, 3e-8,
				-0x1.8p-24, 6e-5, 0, 1e-20} {
				c.v[i*5%len(c.v)] = v // what conversion has to round, or to cut
			}
			for _, cache := range [][]float32{c.kCache, c.vCache} {
				copy(cache, floatsOf(halvesOf(cache)))
			}
			_, kWhole, vWhole := attend(t, whole, c)
			h := *c
			h.shape = halves
			got, k, v := attend(t, half, &h)
			if !sameBits(k, floatsOf(halvesOf(kWhole))) || !sameBits(v, floatsOf(halvesOf(vWhole))) {
				t.Errorf("%s %v: other keys or values than those of 32-bit floats, rounded", kernel, s)
			}
			read := *c
			read.kCache, read.vCache = k, v
			read.slots = slices.Repeat([]int32{-1}, len(c.slots)) // nothing is written
			want, _, _ := attend(t, whole, &read)
			if !sameBits(got, want) {
				t.Errorf("%s %v: attention differs from that to the same numbers as 32-bit floats", kernel, s)
			}
		}
	}
}
