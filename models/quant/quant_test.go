package quant

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"tgi/models/tensors"
)

func TestPackedBytesOfAWorkedExample(t *testing.T) {
	// The first block's largest magnitude is -4, so the scale is -4/-8 = 0.5
	// and -4 takes code 0; the second's is 3.5, so its scale is negative. The
	// row ends inside the second block: codes of zero fill it.
	row := []float32{-4, 0, 0.5, 1, 3.4, 3.9, -0.26, -0.24, 2, -2, 0.25, 0.75, 3, -3, 1.5, -1.5, 3.5, -3.5, 0.4375}
	f := Format{Form: tensors.Form{Bits: 4}, Block: 16}
	codes, scales := make([]byte, f.RowBytes(len(row))), make([]float32, f.Blocks(len(row)))
	f.Rows(codes, scales, row, len(row))
	if want := []float32{0.5, -0.4375}; !slices.Equal(scales, want) {
		t.Errorf("scales %v, want %v", scales, want)
	}
	want := []byte{0x80, 0xa9, 0xff, 0x87, 0x4c, 0xa8, 0x2e, 0x5b, 0xf0, 0x87, 0x88, 0x88, 0x88, 0x88, 0x88, 0x88}
	if !slices.Equal(codes, want) {
		t.Errorf("codes\n got %x\nwant %x", codes, want)
	}
}

func formats() []Format {
	int4, int8 := tensors.Form{Bits: 4}, tensors.Form{Bits: 8}
	return []Format{{Form: int4, Block: 16}, {Form: int4, Block: 32}, {Form: int4, Block: 128}, {Form: int8, Block: 16},
		{Form: int8, Block: 128}}
}

func TestErrorIsAtMostHalfAStep(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, f := range formats() {
		for _, k := range []int{1, 15, 16, 17, 128, 576, 1000} {
			const rows = 9
			src := make([]float32, rows*k)
			for i := range src {
				src[i] = float32(r.NormFloat64())
			}
			codes, scales := make([]byte, rows*f.RowBytes(k)), make([]float32, rows*f.Blocks(k))
			reported := f.Rows(codes, scales, src, k)
			back := make([]float32, len(src))
			dequantise(f, back, codes, scales, k)
			var measured WeightError
			for i := range src {
				d := float64(back[i]) - float64(src[i])
				measured.Merge(WeightError{noise: d * d, signal: float64(src[i]) * float64(src[i]), worst: math.Abs(d),
					n: 1})
			}
			if reported.Count() != measured.Count() || math.Abs(reported.worst-measured.worst) > 1e-7 ||
				math.Abs(reported.Relative()/measured.Relative()-1) > 1e-5 && k > 1 {
				t.Errorf("%+v, rows of %d: reported error %+v, measured %+v", f, k, reported, measured)
			}
			for i, x := range src {
				step := math.Abs(float64(scales[i/k*f.Blocks(k)+i%k/f.Block]))
				d := math.Abs(float64(back[i] - x))
				// The end of the range opposite the largest element is cut off
				// at code 7 (127): up to a whole step there.
				clipped := math.Abs(float64(x)) > step*(float64(f.zero())-1)
				if d > step*0.5001 && !clipped || d > step*1.0001 {
					t.Fatalf("%+v, rows of %d: weight %g came back as %g, step %g", f, k, x, back[i], step)
				}
			}
		}
	}
}

func TestLargestElementIsExact(t *testing.T) {
	for _, f := range formats() {
		for _, top := range []float32{3.7, -3.7, 1e-20, -1e30} {
			src := make([]float32, f.Block)
			src[5] = top
			src[3] = top / 3
			codes, scales := make([]byte, f.RowBytes(len(src))), make([]float32, 1)
			f.Rows(codes, scales, src, len(src))
			back := make([]float32, len(src))
			dequantise(f, back, codes, scales, len(src))
			if back[5] != top || back[0] != 0 {
				t.Errorf("%+v: %g came back as %g, 0 as %g", f, top, back[5], back[0])
			}
		}
	}
}

func TestBlocksOfNothing(t *testing.T) {
	for _, f := range formats() {
		src := make([]float32, f.Block)
		src[1] = math.SmallestNonzeroFloat32 // its scale's inverse overflows
		codes, scales := make([]byte, f.RowBytes(len(src))), make([]float32, 1)
		f.Rows(codes, scales, src, len(src))
		back := make([]float32, len(src))
		dequantise(f, back, codes, scales, len(src))
		for _, x := range back {
			if x != 0 {
				t.Fatalf("%+v: zeros came back as %v", f, back)
			}
		}
	}
}

func TestRowsDoNotDependOnTheirNeighbours(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	const rows, k = 33, 200
	src := make([]float32, rows*k)
	for i := range src {
		src[i] = float32(r.NormFloat64())
	}
	for _, f := range formats() {
		all, allScales := make([]byte, rows*f.RowBytes(k)), make([]float32, rows*f.Blocks(k))
		f.Rows(all, allScales, src, k)
		var codes []byte
		var scales []float32
		for row := range slices.Chunk(src, k) {
			c, s := make([]byte, f.RowBytes(k)), make([]float32, f.Blocks(k))
			f.Rows(c, s, row, k)
			codes, scales = append(codes, c...), append(scales, s...)
		}
		if !slices.Equal(all, codes) || !slices.Equal(allScales, scales) {
			t.Errorf("%+v: rows differ when quantised alone", f)
		}
	}
}

func TestWeightError(t *testing.T) {
	var a, b WeightError
	a.add([]float32{3, 4}, []int32{6, 9}, 0.5)
	b.add([]float32{0}, []int32{1}, -1)
	a.Merge(b)
	if got, want := a.Relative(), math.Sqrt(1.25/25); math.Abs(got-want) > 1e-12 || a.worst != 1 || a.Count() != 3 {
		t.Errorf("relative %g (want %g), worst %g, count %d", got, want, a.worst, a.Count())
	}
	if got := (&WeightError{}).Relative(); got != 0 {
		t.Errorf("nothing has an error of %g", got)
	}
}

func TestAgreement(t *testing.T) {
	var a Agreement
	// softmax(0, ln 3) = (1/4, 3/4); swapped, KL = (3/4-1/4) ln 3.
	ln3 := float32(math.Log(3))
	for _, pair := range [][2][]float32{{{0, ln3}, {5, 5 + ln3}}, {{0, ln3}, {ln3, 0}}} {
		if err := a.Add(pair[0], pair[1]); err != nil {
			t.Fatal(err)
		}
	}
	if a.Top1() != 0.5 || math.Abs(a.KL()-math.Log(3)/4) > 1e-6 || math.Abs(a.KLAt(1)-math.Log(3)/2) > 1e-6 {
		t.Errorf("top-1 %g, KL %g, worst %g", a.Top1(), a.KL(), a.KLAt(1))
	}
	if want := "top-1 agreement 50.0 %, KL 0.2747 (worst 0.549) over 2 positions"; a.String() != want {
		t.Errorf("%q, want %q", a.String(), want)
	}
	nan := float32(math.NaN())
	for _, pair := range [][2][]float32{{{1}, {1, 2}}, {{}, {}}, {{1, nan}, {1, 2}},
		{{1, 2}, {1, float32(math.Inf(1))}}} {
		if err := a.Add(pair[0], pair[1]); err == nil || !strings.HasPrefix(err.Error(), "quant: ") {
			t.Errorf("%v gave %v", pair, err)
		}
	}
	if a.Positions != 2 {
		t.Errorf("%d positions after failures, want 2", a.Positions)
	}
}

// TestKLAt: of a hundred positions the share that is asked for is below what it returns, by the nearest rank.
func TestKLAt(t *testing.T) {
	var a Agreement
	if a.KLAt(0.99) != 0 {
		t.Errorf("%g without positions", a.KLAt(0.99))
	}
	for i := range 100 { // KL((1/2, 1/2) || (1/2+d, 1/2-d)) grows with d
		d := math.Log(1 + float64((i*37)%100)/100)
		if err := a.Add([]float32{0, 0}, []float32{float32(d), 0}); err != nil {
			t.Fatal(err)
		}
	}
	kl := func(d float64) float64 {
		d = math.Log(1 + d)
		return math.Log((1+math.Exp(d))/2) - d/2
	}
	for share, want := range map[float64]float64{0: kl(0), 0.5: kl(0.49), 0.99: kl(0.98), 1: kl(0.99)} {
		if got := a.KLAt(share); math.Abs(got-want) > 1e-6 {
			t.Errorf("share %g: %g, want %g", share, got, want)
		}
	}
}

func TestLoss(t *testing.T) {
	logits := []float32{1, 1 + float32(math.Log(3))} // probabilities 1/4 and 3/4
	for token, want := range []float64{math.Log(4), math.Log(4.0 / 3)} {
		if got, err := Loss(logits, uint32(token)); err != nil || math.Abs(got-want) > 1e-6 {
			t.Errorf("token %d: %g, %v, want %g", token, got, err, want)
		}
	}
	for _, bad := range [][]float32{{}, {1}, {1, float32(math.Inf(1))}} {
		if _, err := Loss(bad, 1); err == nil || !strings.HasPrefix(err.Error(), "quant: ") {
			t.Errorf("%v: %v", bad, err)
		}
	}
}

func BenchmarkRows(b *testing.B) {
	const rows, k = 512, 1024
	src := make([]float32, rows*k)
	r := rand.New(rand.NewPCG(5, 6))
	for i := range src {
		src[i] = float32(r.NormFloat64())
	}
	for _, f := range []Format{{Form: tensors.Form{Bits: 4}, Block: 128}, {Form: tensors.Form{Bits: 8}, Block: 128}} {
		b.Run(fmt.Sprintf("%dbit", f.Bits), func(b *testing.B) {
			codes, scales := make([]byte, rows*f.RowBytes(k)), make([]float32, rows*f.Blocks(k))
			b.SetBytes(4 * rows * k)
			for b.Loop() {
				f.Rows(codes, scales, src, k)
			}
		})
	}
}

// echo is a model whose likeliest token is the one it was given, or the one
// after it where off says so.
type echo struct {
	vocab int
	off   map[uint32]bool
	seen  []uint32
	short bool
}

func (e *echo) Logits(tokens []uint32) ([]float32, error) {
	if len(tokens) > 16 {
		return nil, fmt.Errorf("%d tokens at once", len(tokens))
	}
	e.seen = append(e.seen, tokens...)
	out := make([]float32, len(tokens)*e.vocab)
	for i, t := range tokens {
		if e.off[t] {
			t++
		}
		out[i*e.vocab+int(t)] = 3
	}
	if e.short {
		out = out[1:]
	}
	return out, nil
}

func TestCompareWalksTheTextOnce(t *testing.T) {
	var tokens []uint32
	for i := range uint32(40) {
		tokens = append(tokens, i)
	}
	a, b := &echo{vocab: 50}, &echo{vocab: 50, off: map[uint32]bool{0: true, 16: true, 39: true, 20: true}}
	got, err := Compare(a, b, tokens, 50)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(a.seen, tokens) || !slices.Equal(b.seen, tokens) {
		t.Errorf("models saw %v and %v", a.seen, b.seen)
	}
	if got.Positions != 40 || math.Abs(got.Top1()-0.9) > 1e-12 {
		t.Errorf("%v", got)
	}
	if _, err := Compare(a, &echo{vocab: 50, short: true}, tokens, 50); err == nil ||
		!strings.Contains(err.Error(), "799 logits") {
		t.Errorf("missing logits gave %v", err)
	}
	if _, err := Compare(&echo{vocab: 7}, &echo{vocab: 7}, []uint32{1}, 50); err == nil {
		t.Error("logits of another width were accepted")
	}
}

// dequantise writes the weights that the codes stand for to dst, rows of k.
func dequantise(f Format, dst []float32, codes []byte, scales []float32, k int) {
	rows := len(dst) / k
	parallel(rows, func(r int) {
		row, rowScales := codes[r*f.RowBytes(k):], scales[r*f.Blocks(k):]
		for i := range k {
			var c int
			if f.Bits == 8 {
				c = int(row[i])
			} else {
				c = int(row[i/2]>>(4*(i%2))) & 15
			}
			dst[r*k+i] = float32(c-f.zero()) * rowScales[i/f.Block]
		}
	})
}
