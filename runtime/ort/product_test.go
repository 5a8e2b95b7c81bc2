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

// tables are what codes of 4 bits may stand for: GGUF's IQ4, MXFP4, and nf4 rounded.
var tables = map[int][]int8{
	1: {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113},
	2: {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12},
	3: {-127, -88, -67, -50, -36, -23, -12, 0, 10, 20, 31, 43, 56, 71, 92, 127},
}

// quantised is a matrix of n rows and k columns, as codes and scales.
type quantised struct {
	n, k, bits, block int
	codes             []int8    // [n][k]
	scales            []float32 // [n][blocks], each a 16-bit float; with 6 bits the same in 8 blocks
	offsets           []float32 // the same; nil for none
	factors           []int8    // [n][k/16], with 6 bits alone
	// numbers are factors of scales and offsets [n][blocks][2], which are then the same in 8 blocks; nil for none.
	numbers []byte
	table   int // of what codes stand for, which are then the numbers of it; 0 for none
}

// scaleBits are the 16-bit floats that scales of tests have, and what they are.
var scaleBits = map[float32]uint16{0: 0, 0.0078125: 0x2000, -0.0078125: 0xa000, 0.010498046875: 0x2160,
	0.5: 0x3800, -1.5: 0xbe00, 65504: 0x7bff, 0x1p-24: 1, 0x3ffp-24: 0x3ff}

func newQuantised(r *rand.Rand, n, k int, f form) *quantised {
	bits, block := f.bits, f.block
	k = f.width(k)
	q := &quantised{n: n, k: k, bits: bits, block: block, codes: make([]int8, n*k)}
	for i := range q.codes {
		q.codes[i] = int8(r.IntN(1<<bits) - 1<<(bits-1))
		if bits == 4 && f.offsets {
			q.codes[i] += 8
		}
	}
	usual := []float32{0.0078125, -0.0078125, 0.010498046875, 0.5}
	for range n * q.blocks() {
		q.scales = append(q.scales, usual[r.IntN(len(usual))])
		if f.offsets {
			q.offsets = append(q.offsets, usual[r.IntN(len(usual))])
		}
	}
	if f.table != 0 {
		q.table = f.table
		for i := range q.codes {
			q.codes[i] = tables[f.table][r.IntN(16)]
		}
	}
	if f.factors {
		q.numbers = make([]byte, 2*n*q.blocks())
		for i := range q.numbers {
			q.numbers[i] = byte(r.IntN(64))
		}
		for i := range q.scales {
			q.scales[i], q.offsets[i] = q.scales[i/8*8], q.offsets[i/8*8]
		}
	}
	if bits == 6 {
		q.factors = make([]int8, n*k/16)
		for i := range q.factors {
			q.factors[i] = int8([]int{r.IntN(256) - 128, -128, 127, 0}[r.IntN(20)/17])
		}
		for i := range q.codes { // also the largest sums that there can be
			if q.factors[i/16] == -128 {
				q.codes[i] = -32
			}
		}
		for i := range q.scales {
			q.scales[i] = q.scales[i/8*8]
		}
	}
	return q
}

// factor is what the code of a weight is multiplied by besides its scale.
func (q *quantised) factor(row, col int) float64 {
	if q.factors == nil {
		return 1
	}
	return float64(q.factors[(row*q.k+col)/16])
}

// scaleOf and offsetOf are those of a block.
func (q *quantised) scaleOf(row, b int) float64 {
	at := row*q.blocks() + b
	if q.numbers == nil {
		return float64(q.scales[at])
	}
	return float64(q.scales[at]) * float64(q.numbers[2*at])
}

func (q *quantised) offsetOf(row, b int) float64 {
	at := row*q.blocks() + b
	if q.numbers == nil {
		return float64(q.offsets[at])
	}
	return float64(q.offsets[at]) * float64(q.numbers[2*at+1])
}

func (q *quantised) blocks() int { return (q.k + q.block - 1) / q.block }

// packed is the matrix in the form that the operators read, written from product.h's description.
func (q *quantised) packed() []byte {
	var out []byte
	code := func(row, col int) int8 {
		if row >= q.n || col >= q.k {
			return 0
		}
		return q.codes[row*q.k+col]
	}
	if q.bits == 6 {
		return q.packedSix(func(row, col int) byte { return byte(code(row, col) + 32) })
	}
	zero := int8(8)
	if q.offsets != nil {
		zero = 0
	}
	if q.table != 0 {
		plain := code
		zero, code = 0, func(row, col int) int8 { return int8(slices.Index(tables[q.table], plain(row, col))) }
	}
	for group := 0; group < q.n; group += 16 {
		for b := range q.blocks() {
			for _, numbers := range [][]float32{q.scales, q.offsets} {
				for row := group; row < group+16 && numbers != nil && (q.numbers == nil || b%8 == 0); row++ {
					var bits uint16
					if row < q.n {
						bits = scaleBits[numbers[row*q.blocks()+b]]
					}
					out = binary.LittleEndian.AppendUint16(out, bits)
				}
			}
			for i := range 2 * min(len(q.numbers), 16) { // of scales, then of offsets
				var number byte
				if row := group + i%16; row < q.n {
					number = q.numbers[2*(row*q.blocks()+b)+i/16]
				}
				out = append(out, number)
			}
			for col := b * q.block; col < (b+1)*q.block; {
				for row := group; row < group+16; row++ {
					for i := range 4 {
						if q.bits == 8 {
							out = append(out, byte(code(row, col+i)))
						} else {
							out = append(out, byte(code(row, col+i)+zero)|byte(code(row, col+4+i)+zero)<<4)
						}
					}
				}
				col += 32 / q.bits
			}
		}
	}
	return out
}

// packedSix is packed for codes of 6 bits.
func (q *quantised) packedSix(code func(row, col int) byte) (out []byte) {
	for group := 0; group < q.n; group += 16 {
		for at := 0; at < q.k; at += 16 {
			if at%256 == 0 {
				for row := group; row < group+16; row++ {
					var bits uint16
					if row < q.n {
						bits = scaleBits[q.scales[row*q.blocks()+at/32]]
					}
					out = binary.LittleEndian.AppendUint16(out, bits)
				}
			}
			if at%32 == 0 {
				for i := range 32 {
					var factor int8
					if row := group + i%16; row < q.n {
						factor = q.factors[row*q.k/16+at/16+i/16]
					}
					out = append(out, byte(factor))
				}
			}
			for i := range 64 {
				var high byte
				for part := range 4 {
					high |= code(group+i/4, at+4*part+i%4) >> 4 << (2 * part)
				}
				out = append(out, high)
			}
			for i := range 128 {
				row, col := group+i%64/4, at+i/64*8+i%4
				out = append(out, code(row, col)&15|code(row, col+4)<<4)
			}
		}
	}
	return out
}

// product is the result by its definition: blocks of activations are rounded, everything else is exact, in float64.
func (q *quantised) product(x []float32) (out, magnitude []float64) {
	rows := len(x) / q.k
	out, magnitude = make([]float64, rows*q.n), make([]float64, rows*q.n)
	for r := range rows {
		for b := range q.blocks() {
			in := x[r*q.k+b*q.block : min(r*q.k+(b+1)*q.block, (r+1)*q.k)]
			var top float32
			for _, v := range in {
				top = max(top, float32(math.Abs(float64(v)))) // NaN if one is
			}
			step := float64(top / 127)
			if math.IsInf(step, 0) {
				step = math.NaN()
			}
			codes := make([]float64, len(in))
			for i, v := range in {
				if top >= 1e-30 {
					codes[i] = math.RoundToEven(float64(float32(v * (127 / top))))
				}
			}
			for n := range q.n {
				sum := 0.0
				for i, c := range codes {
					sum += c * float64(q.codes[n*q.k+b*q.block+i]) * q.factor(n, b*q.block+i)
				}
				v := sum * step * q.scaleOf(n, b)
				out[r*q.n+n] += v
				magnitude[r*q.n+n] += math.Abs(v)
				if q.offsets == nil {
					continue
				}
				total := 0.0
				for _, c := range codes {
					total += c
				}
				v = total * step * q.offsetOf(n, b)
				out[r*q.n+n] += v
				magnitude[r*q.n+n] += math.Abs(v)
				if math.Abs(total*step) > math.MaxFloat32 { // which is a float of its own
					magnitude[r*q.n+n] = math.Inf(1)
				}
			}
		}
	}
	return out, magnitude
}

func (q *quantised) attrs() attrs {
	a := attrs{"N": q.n, "K": q.k, "bits": q.bits, "block_size": q.block}
	if q.offsets != nil {
		a["offsets"] = 1
	}
	if q.numbers != nil {
		a["offsets"] = 2
	}
	if q.table != 0 {
		a["table"] = q.table
	}
	return a
}

// openProduct returns a session that holds one MatMulQ, with a bias if there is one.
func openProduct(t testing.TB, q *quantised, bias []float32, threads int) *node {
	t.Helper()
	start(t)
	g := &graph{}
	packed := q.packed()
	g.constant("w", uint8s, packed, []int{len(packed)})
	g.value(false, "x", float32s, "t", q.k)
	in := []string{"x", "w"}
	if bias != nil {
		g.floats("bias", bias, len(bias))
		in = append(in, "bias")
	}
	g.node("tgi", "MatMulQ", in, "out", q.attrs())
	g.value(true, "out", float32s, "t", q.n)
	return newNode(t, g.write(t), sessionOptions{threads: threads})
}

// multiplied runs rows of x.
func multiplied(t testing.TB, n *node, q *quantised, x []float32) []float32 {
	t.Helper()
	rows := int64(len(x) / q.k)
	put(t, n, false, "x", x, rows, int64(q.k))
	out := put(t, n, true, "out", make([]float32, int(rows)*q.n), rows, int64(q.n))
	if err := n.run(); err != nil {
		t.Fatal(err)
	}
	return slices.Clone(out)
}

// products returns the kernels of this CPU, and restores the choice when the test ends.
func products(t testing.TB) []string {
	start(t)
	before := Product()
	t.Cleanup(func() {
		if err := chooseProduct(before); err != nil {
			t.Error(err)
		}
	})
	var names []string
	for _, name := range []string{"portable", "avx2", "avxvnni", "avx512vnni", "amx", "neondot", "neoni8mm"} {
		if chooseProduct(name) == nil {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		t.Fatal("no kernel")
	}
	return names
}

// sameBits compares floats by their bits, but takes all NaNs as one.
func sameBits(a, b []float32) bool {
	return slices.EqualFunc(a, b, func(x, y float32) bool {
		return math.Float32bits(x) == math.Float32bits(y) || x != x && y != y
	})
}

// unusual sets some activations to what rounding must survive. Row 0 stays as it is.
func unusual(x []float32, k int) {
	special := []float32{0, float32(math.Inf(1)), float32(math.NaN()), -float32(math.Inf(1)), 1e-40, 3e-31, 1e38,
		-3e38, float32(math.Copysign(0, -1)), 1e-30}
	for row := 1; row*k < len(x) && row <= 2*len(special); row++ {
		v := special[(row-1)/2]
		if row%2 == 0 { // the whole row is of this size
			for i := range k {
				x[row*k+i] = v
			}
		} else {
			x[row*k+(row*7)%k] = v
		}
	}
}

// form is one of those that matrices have.
type form struct {
	bits, block int
	offsets     bool
	factors     bool
	table       int
}

// kind is what the operators' attribute offsets says.
func (f form) kind() int {
	switch {
	case f.factors:
		return 2
	case f.offsets:
		return 1
	}
	return 0
}

// width is the next one that a matrix can have.
func (f form) width(k int) int {
	if f.bits == 6 || f.factors {
		return (k + 255) / 256 * 256
	}
	return k
}

func forms(do func(form)) {
	do(form{bits: 6, block: 32})
	for _, bits := range []int{4, 8} {
		for _, block := range []int{32, 64, 128} {
			do(form{bits: bits, block: block})
		}
		do(form{bits: bits, block: 32, offsets: true})
		do(form{bits: bits, block: 32, offsets: true, factors: true})
	}
	for table := range tables {
		do(form{bits: 4, block: 32, table: table})
	}
}

func TestProductMatchesDefinition(t *testing.T) {
	names := products(t)
	forms(func(f form) {
		for _, c := range []struct{ n, k, rows int }{{1, 1, 3}, {16, 32, 24}, {17, 33, 24}, {96, 576, 41}, {5, 130, 70},
			{40, 1100, 200}, {160, 257, 140}} {
			r := rand.New(rand.NewPCG(uint64(c.n), uint64(c.k)))
			c.k = f.width(c.k)
			q := newQuantised(r, c.n, c.k, f)
			x := normal(r, c.rows*c.k)
			for i := range x {
				if r.IntN(100) == 0 {
					x[i] *= 20
				}
			}
			unusual(x, c.k)
			want, magnitude := q.product(x)
			bias := normal(r, c.n)
			plain, biased := openProduct(t, q, nil, 2), openProduct(t, q, bias, 2)
			var first []float32
			for _, name := range names {
				if err := chooseProduct(name); err != nil {
					t.Fatal(err)
				}
				got := multiplied(t, plain, q, x)
				for i, g := range got {
					if magnitude[i] > math.MaxFloat32 {
						continue // a float cannot hold it
					}
					if w := want[i]; math.IsNaN(w) != (g != g) || math.Abs(float64(g)-w) > 1e-6*magnitude[i]+1e-38 {
						t.Fatalf("%s, %+v, %dx%d: row %d, column %d is %g, want %g", name, f,
							c.n, c.k, i/c.n, i%c.n, g, w)
					}
				}
				if first == nil {
					first = slices.Clone(got)
				}
				if !sameBits(got, first) {
					t.Errorf("%s, %+v, %dx%d: other bits than %s", name, f, c.n, c.k, names[0])
				}
				with := multiplied(t, biased, q, x)
				for i := range got {
					got[i] += bias[i%c.n]
				}
				if !sameBits(with, got) {
					t.Errorf("%s, %+v, %dx%d: the bias is not added", name, f, c.n, c.k)
				}
			}
		}
	})
}

// TestProductOfAnyRows checks that a row's bits do not depend on the rows beside it, for every number of them, nor on
// the threads.
func TestProductOfAnyRows(t *testing.T) {
	const most = 600
	names := products(t)
	forms(func(f form) {
		r := rand.New(rand.NewPCG(uint64(f.bits), uint64(f.block)))
		q := newQuantised(r, 50, 300, f)
		x := normal(r, most*q.k)
		unusual(x, q.k)
		one, three := openProduct(t, q, nil, 1), openProduct(t, q, nil, 3)
		for _, name := range names {
			if err := chooseProduct(name); err != nil {
				t.Fatal(err)
			}
			all := multiplied(t, three, q, x)
			step := 1
			if testing.Short() || name == "portable" || f.block != 32 {
				step = 37
			}
			for rows := 1; rows <= most; rows += step {
				n := []*node{one, three}[rows%2]
				from := r.IntN(most - rows + 1)
				got := multiplied(t, n, q, x[from*q.k:(from+rows)*q.k])
				if !sameBits(got, all[from*q.n:(from+rows)*q.n]) {
					t.Fatalf("%s, %+v: %d rows from %d have other bits than in %d", name, f,
						rows, from, most)
				}
			}
		}
	})
}

// TestProductOfExtremeScales has scales that are denormal 16-bit floats, or the largest.
func TestProductOfExtremeScales(t *testing.T) {
	for _, name := range products(t) {
		if err := chooseProduct(name); err != nil {
			t.Fatal(err)
		}
		r := rand.New(rand.NewPCG(1, 2))
		q := newQuantised(r, 16, 64, form{bits: 4, block: 32})
		i := 0
		for s := range scaleBits {
			q.scales[i] = s
			i++
		}
		x := normal(r, q.k)
		want, magnitude := q.product(x)
		for i, got := range multiplied(t, openProduct(t, q, nil, 1), q, x) {
			if math.Abs(float64(got)-want[i]) > 1e-6*magnitude[i] {
				t.Errorf("%s: column %d is %g, want %g", name, i, got, want[i])
			}
		}
	}
}

func TestGatherQuantised(t *testing.T) {
	start(t)
	forms(func(f form) {
		r := rand.New(rand.NewPCG(3, uint64(f.block)))
		q := newQuantised(r, 37, 140, f)
		g := &graph{}
		packed := q.packed()
		g.constant("w", uint8s, packed, []int{len(packed)})
		g.value(false, "rows", int64s, "t")
		g.node("tgi", "GatherQ", []string{"w", "rows"}, "out", q.attrs())
		g.value(true, "out", float32s, "t", q.k)
		n := newNode(t, g.write(t), sessionOptions{threads: 1})
		look := func(rows ...int64) ([]float32, error) {
			put(t, n, false, "rows", rows, int64(len(rows)))
			out := put(t, n, true, "out", make([]float32, len(rows)*q.k), int64(len(rows)), int64(q.k))
			return out, n.run()
		}
		out, err := look(36, 0, 15, 16, 0)
		if err != nil {
			t.Fatal(err)
		}
		for i, row := range []int{36, 0, 15, 16, 0} {
			for c := range q.k {
				want := float32(q.codes[row*q.k+c]) * (q.scales[row*q.blocks()+c/q.block] * float32(q.factor(row, c)))
				if b := c / q.block; q.offsets != nil {
					want = float32(math.FMA(float64(q.codes[row*q.k+c]), q.scaleOf(row, b), q.offsetOf(row, b)))
				}
				if got := out[i*q.k+c]; got != want {
					t.Fatalf("%+v: row %d, column %d is %g, want %g", f, row, c, got, want)
				}
			}
		}
		for _, row := range []int64{-1, 37, math.MaxInt64} {
			if _, err := look(0, row); err == nil || !strings.Contains(err.Error(), "out of bounds") {
				t.Errorf("row %d: %v", row, err)
			}
		}
	})
}

func TestProductRefuses(t *testing.T) {
	start(t)
	for name, c := range map[string]struct {
		a     attrs
		bytes int
		want  string
	}{
		"block":   {attrs{"N": 16, "K": 32, "bits": 4, "block_size": 16}, 288, "block_size 32, 64 or 128"},
		"bits":    {attrs{"N": 16, "K": 32, "bits": 5, "block_size": 32}, 288, "bits must be 4 or 8"},
		"no N":    {attrs{"K": 32, "bits": 4, "block_size": 32}, 288, "out of bounds: N"},
		"K":       {attrs{"N": 16, "K": 0, "bits": 4, "block_size": 32}, 288, "out of bounds: K"},
		"six":     {attrs{"N": 16, "K": 288, "bits": 6, "block_size": 32}, 3360, "K a multiple of 256"},
		"six 64":  {attrs{"N": 16, "K": 256, "bits": 6, "block_size": 64}, 3360, "block_size 32"},
		"factors": {attrs{"N": 16, "K": 288, "bits": 4, "block_size": 32, "offsets": 2}, 2880, "K a multiple of 256"},
		"offsets": {attrs{"N": 16, "K": 256, "bits": 4, "block_size": 32, "offsets": 3}, 2880, "offsets"},
		"table":   {attrs{"N": 16, "K": 32, "bits": 4, "block_size": 32, "table": 4}, 288, "table"},
		"wide":    {attrs{"N": 16, "K": 32, "bits": 4, "block_size": 32, "offsets": 1<<32 + 1}, 320, "offsets"},
		"wide t":  {attrs{"N": 16, "K": 32, "bits": 4, "block_size": 32, "table": 1<<32 + 1}, 288, "table"},
		"tabled":  {attrs{"N": 16, "K": 32, "bits": 8, "block_size": 32, "table": 1}, 544, "table"},
		"short 6": {attrs{"N": 16, "K": 256, "bits": 6, "block_size": 32}, 3359, "another size"},
		"short":   {attrs{"N": 16, "K": 32, "bits": 4, "block_size": 32}, 287, "another size"},
		"long":    {attrs{"N": 16, "K": 32, "bits": 8, "block_size": 32}, 545, "another size"},
	} {
		g := &graph{}
		g.constant("w", uint8s, make([]byte, c.bytes), []int{c.bytes})
		g.value(false, "x", float32s, "t", 32)
		g.node("tgi", "MatMulQ", []string{"x", "w"}, "out", c.a)
		g.value(true, "out", float32s, "t", 16)
		s, err := openSession(g.write(t), sessionOptions{threads: 1})
		if err == nil {
			s.close()
			n := newNode(t, g.write(t), sessionOptions{threads: 1})
			put(t, n, false, "x", make([]float32, 32), 1, 32)
			put(t, n, true, "out", make([]float32, 16), 1, 16)
			err = n.run()
		}
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

// BenchmarkProduct multiplies by the matrices of two model shapes, from memory; it reports multiply-adds.
func BenchmarkProduct(b *testing.B) {
	for name, f := range map[string]form{"4 bits": {bits: 4, block: 32}, "6 bits": {bits: 6, block: 32},
		"8 bits": {bits: 8, block: 32}, "table": {bits: 4, block: 32, table: 1},
		"4 bits, factors": {bits: 4, block: 32, offsets: true, factors: true}} {
		for _, shape := range [][2]int{{3072, 576}, {9728, 896}, {896, 4864}} {
			q := newQuantised(rand.New(rand.NewPCG(1, 1)), shape[0], shape[1], f)
			n := openProduct(b, q, nil, 2)
			for _, rows := range []int{1, 4, 16, 128, 512} {
				b.Run(fmt.Sprintf("%s/%dx%d/%d rows", name, q.n, q.k, rows), func(b *testing.B) {
					put(b, n, false, "x", normal(rand.New(rand.NewPCG(1, 1)), rows*q.k), int64(rows), int64(q.k))
					put(b, n, true, "out", make([]float32, rows*q.n), int64(rows), int64(q.n))
					for b.Loop() {
						if err := n.run(); err != nil {
							b.Fatal(err)
						}
					}
					b.ReportMetric(float64(rows*q.n*q.k)*float64(b.N)/b.Elapsed().Seconds()/1e9, "GMAC/s")
				})
			}
		}
	}
}
