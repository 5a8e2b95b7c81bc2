package ort

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
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

// bfloatOf is the nearest bfloat16, of two as near the even one.
func bfloatOf(x float32) uint16 {
	if x != x {
		return 0x7fc0
	}
	below := math.Float32frombits(math.Float32bits(x) &^ 0xffff)
	above := math.Float32frombits(math.Float32bits(below) + 0x10000)
	low, high := math.Abs(float64(x)-float64(below)), math.Abs(float64(above)-float64(x))
	if high < low || high == low && math.Float32bits(below)>>16&1 == 1 {
		below = above
	}
	return uint16(math.Float32bits(below) >> 16)
}

// eachGroup calls f for what shares a scale: indices of numbers of one head of a block and the index of their scale.
func eachGroup(s shape, keys bool, f func(at []int, scale int)) {
	for p := range 16 {
		for from := 0; from < s.headSize; from += 32 {
			var at []int
			for d := from; d < min(from+32, s.headSize); d++ {
				if keys {
					at = append(at, d*16+p)
				} else {
					at = append(at, p*s.headSize+d)
				}
			}
			f(at, from/32*16+p)
		}
	}
}

// packCache is a cache of floats in the shape's form.
func packCache(s shape, x []float32, keys bool) (out []byte) {
	size := s.headSize * 16
	for ; len(x) > 0; x = x[size:] {
		switch s.form {
		case CacheFloat16:
			for _, v := range x[:size] {
				out = binary.LittleEndian.AppendUint16(out, halfOf(v))
			}
		case CacheBFloat16:
			for _, v := range x[:size] {
				out = binary.LittleEndian.AppendUint16(out, bfloatOf(v))
			}
		case CacheInt8:
			codes, scales := make([]byte, size), make([]byte, (s.headSize+31)/32*32)
			eachGroup(s, keys, func(at []int, scale int) {
				var top float32
				for _, i := range at {
					if v := x[i]; v != v || top != top {
						top = float32(math.NaN())
					} else {
						top = max(top, float32(math.Abs(float64(v))))
					}
				}
				half := halfOf(top / 127)
				binary.LittleEndian.PutUint16(scales[2*scale:], half)
				for _, i := range at {
					if unit := floatOf(half); unit > 0 {
						codes[i] = byte(int8(max(-127, min(127, math.RoundToEven(float64(x[i]/unit))))))
					}
				}
			})
			out = append(append(out, codes...), scales...)
		default:
			for _, v := range x[:size] {
				out = binary.LittleEndian.AppendUint32(out, math.Float32bits(v))
			}
		}
	}
	return out
}

// unpackCache is the floats that a cache in the shape's form stands for.
func unpackCache(s shape, b []byte, keys bool) (out []float32) {
	size := s.headSize * 16
	for len(b) > 0 {
		switch s.form {
		case CacheFloat16:
			for i := range size {
				out = append(out, floatOf(binary.LittleEndian.Uint16(b[2*i:])))
			}
			b = b[2*size:]
		case CacheBFloat16:
			for i := range size {
				out = append(out, math.Float32frombits(uint32(binary.LittleEndian.Uint16(b[2*i:]))<<16))
			}
			b = b[2*size:]
		case CacheInt8:
			head, scales := make([]float32, size), b[size:]
			eachGroup(s, keys, func(at []int, scale int) {
				unit := floatOf(binary.LittleEndian.Uint16(scales[2*scale:]))
				for _, i := range at {
					head[i] = float32(int8(b[i])) * unit
				}
			})
			out = append(out, head...)
			b = scales[(s.headSize+31)/32*32:]
		default:
			for i := range size {
				out = append(out, math.Float32frombits(binary.LittleEndian.Uint32(b[4*i:])))
			}
			b = b[4*size:]
		}
	}
	return out
}

// bindCache binds keys or values, of bytes or else of floats, and returns the view in C memory.
func (c *call) bindCache(t testing.TB, n *node, name string, bytes []byte, floats []float32, keys bool) []byte {
	t.Helper()
	if bytes == nil {
		bytes = packCache(c.shape, floats, keys)
	}
	blocks := len(c.kCache) / c.kvHeads / c.headSize / 16
	return put(t, n, false, name, bytes, int64(blocks), int64(len(bytes)/blocks))
}

// inIntegers says that a kernel multiplies codes as integers: its results for them are near those for the same numbers
// as floats, not the same.
func inIntegers(kernel string, form CacheForm) bool {
	return kernel == "avx512vnni" && form == CacheInt8
}

// TestCacheForms runs calls with caches of each form: what is written is what a cache of 32-bit floats gets, rounded,
// and attention to it is, bit by bit, that to the same numbers as 32-bit floats, or near it if it is in integers.
func TestCacheForms(t *testing.T) {
	for _, form := range []CacheForm{CacheFloat16, CacheBFloat16, CacheInt8} {
		for _, s := range []shape{
			{heads: 9, kvHeads: 3, headSize: 64, half: 32},
			{heads: 7, kvHeads: 1, headSize: 40, norm: true, window: 290, packed: true},
			{heads: 4, kvHeads: 4, headSize: 8},
			{heads: 2, kvHeads: 1, headSize: 136},
		} {
			t.Run(fmt.Sprint(form, s), func(t *testing.T) { checkForm(t, s, form) })
		}
	}
}

func checkForm(t *testing.T, s shape, form CacheForm) {
	small := s
	small.form = form
	whole, part := openNode(t, s, 2), openNode(t, small, 2)
	for _, kernel := range kernels(t) {
		if err := chooseAttention(kernel); err != nil {
			t.Fatal(err)
		}
		r := rand.New(rand.NewPCG(3, 4))
		blocks, rows := deal(r, [][2]int{{0, 400}, {700, 1}, {130, 9}, {256, 1}, {600, 70}})
		c := lay(r, s, blocks, rows)
		for i, v := range []float32{1e6, -1e6, 65504, 65519, 65520, 0x1p-24, 0x1p-25, 3e-8,
			-0x1.8p-24, 6e-5, 0, 1e-20, 3e8, -3e8} {
			c.v[i*5%len(c.v)] = v // what conversion has to round, or to cut
		}
		clear(c.v[len(c.v)-2*s.headSize:])
		_, kWhole, vWhole := attend(t, whole, c)
		h := *c
		h.shape = small
		got, k, v := attend(t, part, &h)
		written := map[int32]bool{}
		for _, slot := range c.slots {
			written[slot] = true
		}
		same := func(what string, got, want []byte, keys bool) {
			a, b := unpackCache(small, got, keys), unpackCache(small, want, keys)
			for i := range a {
				head, at := i/(s.headSize*16), i%(s.headSize*16)
				p := at % 16
				if !keys {
					p = at / s.headSize
				}
				if written[int32(head/s.kvHeads*16+p)] && math.Float32bits(a[i]) != math.Float32bits(b[i]) {
					t.Errorf("%s: %s: number %d is %v, want %v", kernel, what, i, a[i], b[i])
					return
				}
			}
		}
		same("keys", h.kAfter, packCache(small, kWhole, true), true)
		same("values", h.vAfter, packCache(small, vWhole, false), false)
		read := *c
		read.kCache, read.vCache = k, v
		read.slots = slices.Repeat([]int32{-1}, len(c.slots)) // nothing is written
		want, _, _ := attend(t, whole, &read)
		if inIntegers(kernel, form) {
			if d := apart(got, widened(want)); !(d < 3e-5) {
				t.Errorf("%s: attention differs by %.3g from that to the same numbers as 32-bit floats", kernel, d)
			}
		} else if !sameBits(got, want) {
			t.Errorf("%s: attention differs from that to the same numbers as 32-bit floats", kernel)
		}
	}
}

// widened is x as 64-bit floats.
func widened(x []float32) (y []float64) {
	for _, v := range x {
		y = append(y, float64(v))
	}
	return y
}

// TestCodesMatchDefinition compares attention to codes with its definition in float64 for the numbers that they stand
// for. In integers it errs by less than a hundredth of what making codes of the cache costs.
func TestCodesMatchDefinition(t *testing.T) {
	for _, s := range []shape{
		{heads: 14, kvHeads: 2, headSize: 64, half: 32},
		{heads: 3, kvHeads: 3, headSize: 128, packed: true, scale: 0.3},
		{heads: 8, kvHeads: 1, headSize: 40, window: 290, norm: true},
		{heads: 5, kvHeads: 1, headSize: 24, window: 1},
		{heads: 6, kvHeads: 2, headSize: 72, sinks: true, softcap: 4, mutual: true},
	} {
		s.form = CacheInt8
		n := openNode(t, s, 2)
		for _, kernel := range kernels(t) {
			if err := chooseAttention(kernel); err != nil {
				t.Fatal(err)
			}
			r := rand.New(rand.NewPCG(6, 7))
			blocks, rows := deal(r, [][2]int{{0, 70}, {700, 1}, {130, 9}, {255, 1}, {600, 70}, {1500, 1}})
			c := lay(r, s, blocks, rows)
			stored, _, _ := c.plain()
			got, k, v := attend(t, n, c)
			read := *c
			read.kCache, read.vCache = k, v
			read.slots = slices.Repeat([]int32{-1}, len(c.slots)) // the caches hold what was written
			want, _, _ := read.plain()
			d, limit := apart(got, want), 1e-5
			if inIntegers(kernel, s.form) {
				limit = apart(got, stored) / 100
			}
			if !(d < limit) {
				t.Errorf("%s %v: differs by %.3g, the limit is %.3g", kernel, s, d, limit)
			}
		}
	}
}

// TestNoNumber: a query that is not a number changes no bit of another head or token.
func TestNoNumber(t *testing.T) {
	for _, form := range []CacheForm{CacheFloat32, CacheFloat16, CacheBFloat16, CacheInt8} {
		s := shape{heads: 6, kvHeads: 2, headSize: 40, form: form}
		n := openNode(t, s, 1)
		for _, kernel := range kernels(t) {
			if err := chooseAttention(kernel); err != nil {
				t.Fatal(err)
			}
			r := rand.New(rand.NewPCG(4, 5))
			blocks, rows := deal(r, [][2]int{{300, 1}, {20, 3}})
			c := lay(r, s, blocks, rows)
			out, _, _ := attend(t, n, c)
			want := slices.Clone(out)
			const head = 6 + 4 // of the second token
			c.q[head*s.headSize+17] = float32(math.NaN())
			got, _, _ := attend(t, n, c)
			for i := range got {
				if i/s.headSize != head && math.Float32bits(got[i]) != math.Float32bits(want[i]) {
					t.Fatalf("%s %s: value %d of another head is %v, want %v", kernel, form, i, got[i], want[i])
				}
			}
		}
	}
}

// TestCacheForm: a form that is not known is refused.
func TestCacheForm(t *testing.T) {
	s := shape{heads: 4, kvHeads: 2, headSize: 16, form: CacheInt8}
	n := openNode(t, s, 1)
	c := lay(rand.New(rand.NewPCG(2, 2)), s, 4, []row{{past: 20, tokens: 2, blocks: []int32{1, 2}}})
	for form, want := range map[int32]string{-1: "cache_form is unknown", 4: "cache_form is unknown",
		0: "are not blocks of 16 tokens"} {
		bindCall(t, n, c)
		put(t, n, false, "form", []int32{form}, 1)
		if err := n.run(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("form %d: %v, want %s", form, err, want)
		}
	}
}
