package lowrank

import (
	"bytes"
	"encoding/binary"
	"math"
	"math/rand/v2"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"tgi/runtime/kernel/kerneltest"
)

// load puts an adapter there.
func load(d kerneltest.Device, list []Matrix) uint64 {
	at := d.Malloc(int(Bytes(list)))
	image := make([]byte, Bytes(list))
	Image(image, list, at)
	d.Write(at, image)
	return at
}

// number is a number of 16 bits as 32: fp16 or bf16.
func number(n uint16, half bool) float32 {
	if !half {
		return math.Float32frombits(uint32(n) << 16)
	}
	sign, exp, frac := 1-2*float64(n>>15), int(n>>10&31), float64(n&1023)
	switch {
	case exp == 0:
		return float32(sign * math.Ldexp(frac, -24))
	case exp == 31 && frac == 0:
		return float32(math.Inf(int(sign)))
	case exp == 31:
		return float32(math.NaN())
	}
	return float32(sign * math.Ldexp(1024+frac, exp-25))
}

// rounded reports whether n is v rounded to the nearest number of 16 bits, of two as near to the even one.
func rounded(n uint16, v float32, half bool) bool {
	got := number(n, half)
	if v != v || got != got {
		return v != v && got != got
	}
	if float64(got) == float64(v) {
		return true
	}
	away := func(m uint16) float64 {
		x := float64(number(m, half))
		if math.IsInf(x, 0) { // as if it were the number behind the largest
			x = 2*float64(number(m-1, half)) - float64(number(m-2, half))
		}
		return math.Abs(x - float64(v))
	}
	for _, other := range []uint16{n - 1, n + 1} {
		if o := number(other, half); o != o || n&0x7fff == 0 && other&0x8000 != n&0x8000 {
			continue
		}
		if a, b := away(n), away(other); a > b || a == b && n&1 == 1 {
			return false
		}
	}
	return true
}

func randomNumbers(rng *rand.Rand, n int, half bool) []uint16 {
	out := make([]uint16, n)
	for i := range out {
		for {
			out[i] = uint16(rng.Uint32())
			if v := math.Abs(float64(number(out[i], half))); v < 16 && v > 1e-5 {
				break
			}
		}
	}
	return out
}

func bytesOf(list any) []byte {
	var b bytes.Buffer
	if err := binary.Write(&b, binary.LittleEndian, list); err != nil {
		panic(err)
	}
	return b.Bytes()
}

// randomMatrix draws what an adapter adds to a matrix.
func randomMatrix(rng *rand.Rand, in, out, offset, rank int) Matrix {
	m := Matrix{In: in, Out: out, Offset: offset, Rank: rank, Scale: 0.1 + rng.Float32(), BFloat16: rng.IntN(2) == 0}
	data := func(n int) []byte {
		list := make([]float32, n)
		for i := range list {
			list[i] = rng.Float32() - 0.5
		}
		if !m.BFloat16 {
			return bytesOf(list)
		}
		short := make([]uint16, n)
		for i, v := range list {
			short[i] = uint16(math.Float32bits(v) >> 16)
		}
		return bytesOf(short)
	}
	if rank > 0 {
		m.A, m.B = data(rank*in), data(rank*out)
	}
	return m
}

// TestKernelsAddWhatTheDefinitionSays: to the bit, for tokens with several adapters and without, whatever the order of
// threads and blocks and the tile, and hence alone as beside others.
func TestKernelsAddWhatTheDefinitionSays(t *testing.T) {
	d := kerneltest.Open(t)
	rng := rand.New(rand.NewPCG(1, 2))
	for n := range 60 {
		half, count := n%2 == 0, 1+rng.IntN(3)
		in := []int{8, 24, 33, 256, 264, 600}[rng.IntN(6)]
		outs := []int{40, 300, 16}
		lists := make([][]Matrix, 4) // the last is none
		images := make([]uint64, len(lists))
		width := 0
		for a := range lists[:3] {
			lists[a] = []Matrix{{}} // one that the node does not compute
			width = 0
			for i := range count {
				rank := []int{0, 1, 4, 8, 16, 70}[rng.IntN(6)]
				lists[a] = append(lists[a], randomMatrix(rng, in, outs[i], width, rank))
				width += outs[i]
			}
			for i := range lists[a][1:] {
				if err := lists[a][1+i].Check(); err != nil {
					t.Fatal(err)
				}
			}
			images[a] = load(d, lists[a])
		}
		tokens := 1 + rng.IntN(20)
		x, y := randomNumbers(rng, tokens*in, half), randomNumbers(rng, tokens*width, half)
		adapters := make([]uint64, tokens)
		which := make([]int, tokens)
		for i := range which {
			which[i] = rng.IntN(len(lists))
			if i > 0 && rng.IntN(3) > 0 {
				which[i] = which[i-1]
			}
			adapters[i] = images[which[i]]
		}
		var results [][]byte
		for _, tile := range []int{1, 4, MaxTile} {
			at := d.Put(y)
			flags := 1 | uint64(count)<<8 | uint64(rng.IntN(1000))<<32
			if half {
				flags |= 1 << 16
			}
			d.Run(d.Put(x), at, d.Malloc(tokens*ProductBytes), d.Put(adapters),
				uint64(tokens)|uint64(tile)<<32, uint64(in)|uint64(width)<<32, flags)
			results = append(results, d.Read(at, 2*len(y)))
		}
		for i := range results {
			if !bytes.Equal(results[i], results[0]) {
				t.Fatalf("case %d: tile %d gives something else", n, i)
			}
		}
		for token := range tokens {
			row := make([]float32, in)
			for i := range row {
				row[i] = number(x[token*in+i], half)
			}
			want := make([]float32, width)
			for i := range want {
				want[i] = number(y[token*width+i], half)
			}
			for _, m := range lists[which[token]] {
				for i, v := range m.Add(row) {
					want[m.Offset+i] += v
				}
			}
			for i, v := range want {
				got := binary.LittleEndian.Uint16(results[0][2*(token*width+i):])
				if lists[which[token]] == nil && got != y[token*width+i] || !rounded(got, v, half) {
					t.Fatalf("case %d: token %d, column %d is %g, want %g rounded", n, token, i, number(got, half), v)
				}
			}
		}
	}
}

// TestEveryNumberOf16Bits passes through the kernels as it is, and what lies between two becomes the nearer one.
func TestEveryNumberOf16Bits(t *testing.T) {
	d := kerneltest.Open(t)
	one := func(v float32) Matrix { // adds v
		return Matrix{In: 8, Out: 1 << 16, Rank: 1, Scale: 1, A: bytesOf([]float32{1, 0, 0, 0, 0, 0, 0, 0}),
			B: bytesOf(func() []float32 {
				list := make([]float32, 1<<16)
				for i := range list {
					list[i] = v
				}
				return list
			}())}
	}
	y := make([]uint16, 1<<16)
	for i := range y {
		y[i] = uint16(i)
	}
	for _, half := range []bool{false, true} {
		x, flags := bytesOf([8]uint16{0x3f80}), uint64(1<<8)
		if half {
			x, flags = bytesOf([8]uint16{0x3c00}), flags|1<<16
		}
		for _, v := range []float32{0, 1, -0.37, 1e-7, 1000.3, 65519, 3e38} {
			m := one(v)
			at := d.Put(y)
			adapter := load(d, []Matrix{m})
			d.Run(d.Put(x), at, d.Malloc(ProductBytes), d.Put([]uint64{adapter}),
				1|1<<32, 8|1<<48, flags)
			got := d.Read(at, 2*len(y))
			for i := range y {
				n := binary.LittleEndian.Uint16(got[2*i:])
				if want := number(y[i], half) + v; !rounded(n, want, half) {
					t.Fatalf("half %v: %#x + %g is %g (%#x), want %g rounded", half, i, v, number(n, half), n, want)
				}
			}
		}
	}
}

// TestAddIsBAx: the definition is the product that PEFT computes.
func TestAddIsBAx(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	m := randomMatrix(rng, 50, 30, 0, 7)
	x := make([]float32, m.In)
	for i := range x {
		x[i] = rng.Float32() - 0.5
	}
	for o, got := range m.Add(x) {
		var want float64
		for r := range m.Rank {
			var h float64
			for i := range x {
				h += float64(m.element(m.A, r*m.In+i)) * float64(x[i])
			}
			want += h * float64(m.element(m.B, r*m.Out+o)) * float64(m.Scale)
		}
		if math.Abs(want-float64(got)) > 1e-5 {
			t.Errorf("column %d: %g, want %g", o, got, want)
		}
	}
}

// TestCheck: what does not fit together is refused.
func TestCheck(t *testing.T) {
	good := randomMatrix(rand.New(rand.NewPCG(1, 1)), 8, 16, 0, 4)
	for want, spoil := range map[string]func(m *Matrix){
		"rank -1":               func(m *Matrix) { m.Rank = -1 },
		"rank 1025":             func(m *Matrix) { m.Rank = MaxRank + 1 },
		"a matrix of 0 by 8":    func(m *Matrix) { m.Out = 0 },
		"a matrix of 16 by 8 a": func(m *Matrix) { m.Offset = -1 },
		"bytes, a rank of 4":    func(m *Matrix) { m.B = m.B[1:] },
	} {
		m := good
		spoil(&m)
		if err := m.Check(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %s, got %v", want, err)
		}
	}
	if err := good.Check(); err != nil {
		t.Error(err)
	}
}

// TestPTX: lowrank.ptx was made from lowrank.cu, rounds each product and sum on its own, and fits a device.
func TestPTX(t *testing.T) {
	code := kerneltest.Code(t, "lowrank", Kernel, Source)
	for _, bad := range []string{"fma.", ".ftz", ".approx", ".local"} {
		if strings.Contains(code, bad) {
			t.Errorf("lowrank.ptx has %s", bad)
		}
	}
	for _, good := range []string{".target sm_80", ".version 9.0", ".entry " + Shrink + "(", ".entry " + Expand + "(",
		"ld.global.v4", ".maxntid " + strconv.Itoa(Threads), "cvt.rn.f16.f32"} {
		if !strings.Contains(code, good) {
			t.Errorf("lowrank.ptx lacks %s", good)
		}
	}
	shared := 0
	for _, m := range regexp.MustCompile(`\.shared [^;]*\[(\d+)\];`).FindAllStringSubmatch(code, -1) {
		n, _ := strconv.Atoi(m[1])
		shared += n
	}
	if shared != MaxTile*Threads*4 {
		t.Errorf("the kernels share %d bytes", shared)
	}
}
