package attend

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"tgi/runtime/kernel/kerneltest"
)

// call is one launch: what it reads and the sizes.
type call struct {
	headDim, heads, kvHeads, page, width int
	half, interleaved                    bool
	turned, window, parts                int
	scale, bound, epsilon                float64
	past, slots                          []int32
	table                                []uint32
	qkv, keys, values, cos, sin          []uint16
	qNorm, kNorm, sinks                  []uint16 // nil for none
}

// Numbers of 16 bits.
func (c *call) number(n uint16) float64 {
	if !c.half {
		return float64(math.Float32frombits(uint32(n) << 16))
	}
	sign, exp, frac := 1-2*float64(n>>15), int(n>>10&31), float64(n&1023)
	switch exp {
	case 0:
		return sign * math.Ldexp(frac, -24)
	case 31:
		return math.NaN()
	}
	return sign * math.Ldexp(1024+frac, exp-25)
}

// rounded is a number of 16 bits near v, which is not small.
func (c *call) rounded(v float64) uint16 {
	if !c.half {
		b := math.Float32bits(float32(v))
		return uint16((b + 0x7fff + b>>16&1) >> 16)
	}
	frac, exp := math.Frexp(math.Abs(v))
	if exp < -13 {
		return uint16(math.RoundToEven(math.Abs(v)*(1<<24))) | uint16(math.Float64bits(v)>>48&0x8000)
	}
	m := uint16(math.RoundToEven(frac*2048)) - 1024
	return uint16(exp+14)<<10 + m | uint16(math.Float64bits(v)>>48&0x8000)
}

func (c *call) normal(rng *rand.Rand, n int, deviation float64) []uint16 {
	out := make([]uint16, n)
	for i := range out {
		out[i] = c.rounded(rng.NormFloat64() * deviation)
	}
	return out
}

// prepared is a head of the new token of a row, normalised, rotated and rounded.
func (c *call) prepared(x []uint16, norm []uint16, position int) []float64 {
	out := make([]float64, len(x))
	by := 1.0
	if norm != nil {
		sum := 0.0
		for _, n := range x {
			sum += c.number(n) * c.number(n)
		}
		by = 1 / math.Sqrt(sum/float64(len(x))+c.epsilon)
	}
	for i, n := range x {
		out[i] = c.number(n) * by
		if norm != nil {
			out[i] *= c.number(norm[i])
		}
	}
	plain := slices.Clone(out)
	for i := range c.turned / 2 {
		a, b := i, i+c.turned/2
		if c.interleaved {
			a, b = 2*i, 2*i+1
		}
		cos, sin := c.number(c.cos[position*c.turned/2+i]), c.number(c.sin[position*c.turned/2+i])
		out[a], out[b] = plain[a]*cos-plain[b]*sin, plain[b]*cos+plain[a]*sin
	}
	for i := range out {
		out[i] = c.number(c.rounded(out[i]))
	}
	return out
}

// head returns head i of a row's packed queries, keys and values.
func (c *call) head(row, i int) []uint16 {
	return c.qkv[(row*(c.heads+2*c.kvHeads)+i)*c.headDim:][:c.headDim]
}

// place is where the cache has a position of a row's sequence.
func (c *call) place(row, position, kv int) int {
	block := int(c.table[row*c.width+position/c.page])
	return ((block*c.page+position%c.page)*c.kvHeads + kv) * c.headDim
}

// seen is the first position that a row sees.
func (c *call) seen(row int) int {
	if c.window == 0 {
		return 0
	}
	return max(0, int(c.past[row])+1-c.window)
}

// attention is the definition: what the heads of a row become.
func (c *call) attention(row int) (out []float64) {
	at := int(c.past[row])
	for h := range c.heads {
		kv := h / (c.heads / c.kvHeads)
		query, key := c.prepared(c.head(row, h), c.qNorm, at), c.prepared(c.head(row, c.heads+kv), c.kNorm, at)
		value := c.head(row, c.heads+c.kvHeads+kv)
		sum, mix := 0.0, make([]float64, c.headDim)
		for position := c.seen(row); position <= at; position++ {
			score := 0.0
			for d := range query {
				k := key[d]
				if position < at {
					k = c.number(c.keys[c.place(row, position, kv)+d])
				}
				score += query[d] * k
			}
			score *= c.scale
			if c.bound != 0 {
				score = c.bound * math.Tanh(score/c.bound)
			}
			weight := math.Exp(score)
			sum += weight
			for d := range mix {
				v := c.number(value[d])
				if position < at {
					v = c.number(c.values[c.place(row, position, kv)+d])
				}
				mix[d] += weight * v
			}
		}
		if c.sinks != nil {
			sum += math.Exp(c.number(c.sinks[h]))
		}
		for _, v := range mix {
			out = append(out, v/sum)
		}
	}
	return out
}

// randomCall draws a call. What a row does not see of the cache is no number.
func randomCall(rng *rand.Rand, headDim, group int) *call {
	pick := func(list ...int) int { return list[rng.IntN(len(list))] }
	c := &call{headDim: headDim, kvHeads: pick(1, 2, 3), page: pick(64, 128), half: rng.IntN(2) == 0,
		interleaved: rng.IntN(2) == 0, turned: min(headDim, pick(0, 16, headDim, headDim)), epsilon: 1e-5,
		window: pick(0, 0, 1, 15, 16, 17, 40), parts: pick(1, 1, 2, 3, 8, MostParts),
		scale: 1 / math.Sqrt(float64(headDim))}
	c.heads = c.kvHeads * group
	if rng.IntN(3) == 0 {
		c.bound = 3
	}
	rows, longest := pick(1, 2, 3), 0
	for range rows {
		c.past = append(c.past, int32(pick(0, 1, 14, 15, 16, 30, 31, 32, 33, 62, 63, 64, 65, 127, 128, 150)))
		longest = max(longest, int(c.past[len(c.past)-1]))
	}
	c.width = longest/c.page + 1 + rng.IntN(2)
	blocks := rng.Perm(rows*c.width + 2)
	for i := range rows * c.width {
		c.table = append(c.table, uint32(blocks[i]))
	}
	size := len(blocks) * c.page * c.kvHeads * headDim
	c.keys, c.values = slices.Repeat([]uint16{0x7fff}, size), slices.Repeat([]uint16{0x7fff}, size)
	for row := range rows {
		for position := c.seen(row); position < int(c.past[row]); position++ {
			for kv := range c.kvHeads {
				copy(c.keys[c.place(row, position, kv):], c.normal(rng, headDim, 1))
				copy(c.values[c.place(row, position, kv):], c.normal(rng, headDim, 1))
			}
		}
		slot := int32(c.place(row, int(c.past[row]), 0) / headDim / c.kvHeads)
		if rng.IntN(4) == 0 {
			slot = -1
		}
		c.slots = append(c.slots, slot)
	}
	c.qkv = c.normal(rng, rows*(c.heads+2*c.kvHeads)*headDim, 1.5)
	for range (longest + 1) * c.turned / 2 {
		angle := rng.Float64() * 6
		c.cos, c.sin = append(c.cos, c.rounded(math.Cos(angle))), append(c.sin, c.rounded(math.Sin(angle)))
	}
	if rng.IntN(2) == 0 {
		c.qNorm, c.kNorm = c.normal(rng, headDim, 1), c.normal(rng, headDim, 1)
	}
	if rng.IntN(2) == 0 {
		c.sinks = c.normal(rng, c.heads, 1)
	}
	return c
}

// result is what a launch has written.
type result struct{ out, keys, values []uint16 }

// run launches the kernel with the threads in some order, of the given rows only.
func (c *call) run(d kerneltest.Device, order uint64) result {
	group := c.heads / c.kvHeads
	columns := len(c.past) * c.kvHeads * ((group + Heads - 1) / Heads)
	out := d.Malloc(2 * len(c.past) * c.heads * c.headDim)
	qkv, keys, values := d.Put(c.qkv), d.Put(c.keys), d.Put(c.values)
	arrived := d.Put(make([]uint32, columns))
	stride := uint64((c.heads + 2*c.kvHeads) * c.headDim)
	flag := map[bool]uint64{true: 1}
	real := func(v float64) uint64 { return uint64(math.Float32bits(float32(v))) }
	parameters := []uint64{qkv, qkv + uint64(2*c.heads*c.headDim), qkv + uint64(2*(c.heads+c.kvHeads)*c.headDim), out,
		keys, values, d.Put(c.table), d.Put(c.past), d.Put(c.slots), d.Put(c.cos), d.Put(c.sin), d.Put(c.qNorm),
		d.Put(c.kNorm), d.Put(c.sinks), d.Malloc(columns * c.parts * PartBytes(c.headDim)), arrived, stride, stride,
		uint64(c.heads), uint64(c.kvHeads), uint64(c.page), uint64(c.width), uint64(c.turned), flag[c.interleaved],
		uint64(c.window), uint64(c.parts), real(c.scale), real(c.bound), real(c.epsilon)}
	number := uint64(slices.Index(headDims, c.headDim))
	if c.half {
		number += uint64(len(headDims))
	}
	d.Run(number|order<<32, uint64(columns), d.Put(parameters))
	for i, n := range get(d, arrived, 2*columns) {
		if n != 0 {
			d.T.Fatalf("word %d of those that count blocks is %d", i, n)
		}
	}
	return result{get(d, out, len(c.past)*c.heads*c.headDim), get(d, keys, len(c.keys)), get(d, values, len(c.values))}
}

// compare holds a result to the definition.
func (c *call) compare(got result) error {
	most := 0.012
	if c.half {
		most = 0.002
	}
	// differ is the relative error of a head.
	differ := func(got []uint16, want []float64) float64 {
		difference, length := 0.0, 0.0
		for i, v := range want {
			difference += (c.number(got[i]) - v) * (c.number(got[i]) - v)
			length += v * v
		}
		return math.Sqrt(difference / length)
	}
	keys, values := slices.Clone(c.keys), slices.Clone(c.values)
	for row, at := range c.past {
		want := c.attention(row)
		for h := range c.heads {
			from := h * c.headDim
			err := differ(got.out[row*c.heads*c.headDim+from:], want[from:][:c.headDim])
			if !(err < most) { // or is no number
				return fmt.Errorf("row %d, head %d: relative error %g", row, h, err)
			}
		}
		if c.slots[row] < 0 {
			continue
		}
		for kv := range c.kvHeads {
			at, place := int(at), c.place(row, int(at), kv)
			key := c.prepared(c.head(row, c.heads+kv), c.kNorm, at)
			if err := differ(got.keys[place:], key); !(err < most) {
				return fmt.Errorf("row %d: key %d in the cache: relative error %g", row, kv, err)
			}
			copy(keys[place:], got.keys[place:][:c.headDim])
			copy(values[place:], c.head(row, c.heads+c.kvHeads+kv))
		}
	}
	if !slices.Equal(got.keys, keys) || !slices.Equal(got.values, values) {
		return fmt.Errorf("the cache has other values, or keys in other places")
	}
	return nil
}

// describe names a call.
func (c *call) describe() string {
	return fmt.Sprintf("heads %d/%d of %d, past %v, slots %v, blocks of %d, half %v, turned %d (%v), window %d, "+
		"parts %d, bound %g, norm %v, sinks %v", c.heads, c.kvHeads, c.headDim, c.past, c.slots, c.page, c.half,
		c.turned, c.interleaved, c.window, c.parts, c.bound, c.qNorm != nil, c.sinks != nil)
}

// TestKernelsAttend: every size of head and of groups against the definition, whatever the order of threads and of
// blocks, and whether copies are early or late. What a row does not see is no number and changes nothing.
func TestKernelsAttend(t *testing.T) {
	d := kerneltest.Open(t)
	rng := rand.New(rand.NewPCG(5, 6))
	for n := range 140 {
		headDim, group := headDims[n%len(headDims)], []int{1, 4, 5, 7, 8, 16, 24}[n/len(headDims)%7]
		c := randomCall(rng, headDim, group)
		first := c.run(d, 0)
		if err := c.compare(first); err != nil {
			t.Fatalf("case %d: %v: %s", n, err, c.describe())
		}
		again := c.run(d, uint64(1+2*rng.IntN(50)))
		if !slices.Equal(first.out, again.out) || !slices.Equal(first.keys, again.keys) {
			t.Fatalf("case %d: another order gives something else: %s", n, c.describe())
		}
	}
}

// TestRowsAreAlone: a row's bits are the same beside other rows and alone, with as many parts.
func TestRowsAreAlone(t *testing.T) {
	d := kerneltest.Open(t)
	rng := rand.New(rand.NewPCG(7, 8))
	for n := range 20 {
		c := randomCall(rng, 64, 4)
		together, width := c.run(d, 0).out, c.heads*c.headDim
		for row := range c.past {
			one := *c
			one.past, one.slots = c.past[row:row+1], c.slots[row:row+1]
			one.table = c.table[row*c.width:][:c.width]
			one.qkv = c.qkv[row*(c.heads+2*c.kvHeads)*c.headDim:][:(c.heads+2*c.kvHeads)*c.headDim]
			if got := one.run(d, 1).out; !slices.Equal(got, together[row*width:][:width]) {
				t.Fatalf("case %d: row %d alone is another: %s", n, row, c.describe())
			}
		}
	}
}

// TestPTX: attend.ptx was made from attend.cu, and each of its kernels comes alone and fits a device.
func TestPTX(t *testing.T) {
	code := kerneltest.Code(t, "attend", text, Source)
	for _, bad := range []string{"fma.", ".local"} {
		if strings.Contains(code, bad) {
			t.Errorf("attend.ptx has %s", bad)
		}
	}
	if n := strings.Count(code, ".entry "); n != 2*len(headDims) {
		t.Errorf("%d kernels, want %d", n, 2*len(headDims))
	}
	shared := regexp.MustCompile(`\.shared [^;]*?(?:\[(\d+)\])?;`)
	for _, headDim := range headDims {
		for _, half := range []bool{false, true} {
			ptx, name := Kernel(headDim, half)
			multiply := map[bool]string{true: ".f16.f16.", false: ".bf16.bf16."}
			if strings.Count(ptx, ".entry ") != 1 || !strings.Contains(ptx, ".entry "+name+"(") ||
				!strings.Contains(ptx, ".target sm_80") || !strings.HasSuffix(ptx, "\n}\n") ||
				!strings.Contains(ptx, ".maxntid "+strconv.Itoa(Threads(headDim))) ||
				!strings.Contains(ptx, "cp.async.cg") || !strings.Contains(ptx, multiply[half]) ||
				strings.Contains(ptx, multiply[!half]) {
				t.Errorf("%s is not one kernel: %d bytes", name, len(ptx))
			}
			bytes := 0
			for _, m := range shared.FindAllStringSubmatch(ptx, -1) {
				n, _ := strconv.Atoi(m[1])
				bytes += max(n, 4)
			}
			if bytes < 4096 || bytes > 48<<10 {
				t.Errorf("%s shares %d bytes", name, bytes)
			}
		}
	}
	if ptx, name := Kernel(48, true); ptx != "" || name != "tgi_attend_48_half" {
		t.Errorf("%s has %d bytes", name, len(ptx))
	}
}

// get reads n numbers of 16 bits.
func get(d kerneltest.Device, at uint64, n int) []uint16 {
	b, out := d.Read(at, 2*n), make([]uint16, n)
	for i := range out {
		out[i] = binary.LittleEndian.Uint16(b[2*i:])
	}
	return out
}
