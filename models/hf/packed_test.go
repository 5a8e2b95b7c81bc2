package hf

import (
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"tgi/models/tensors"
	"tgi/models/tensors/tensorstest"
)

// numbersNF4 are those of bitsandbytes' nf4, rounded to four digits.
var numbersNF4 = []float32{-1, -0.6962, -0.5251, -0.3949, -0.2844, -0.1848, -0.0911, 0, 0.0796, 0.1609, 0.2461, 0.3379,
	0.4407, 0.5626, 0.7230, 1}

// TestIsNF4: numbers that the table does not hold within half of its step are not taken for it, nor what is no number.
func TestIsNF4(t *testing.T) {
	if !isNF4(numbersNF4) {
		t.Error("nf4 is not taken for it")
	}
	for _, bad := range []float32{0.5, -0.5, float32(math.NaN()), float32(math.Inf(1)), float32(math.Inf(-1))} {
		for i := range numbersNF4 {
			other := slices.Clone(numbersNF4)
			other[i] += bad
			if isNF4(other) {
				t.Errorf("number %d of %g is taken for nf4", i, other[i])
			}
		}
	}
}

// TestPackedIntegers: the integers of a packed matrix are its weights, but for the rounding of nf4's table. What the
// products lose, whose scales and offsets are 16-bit floats, docs/models.md says.
func TestPackedIntegers(t *testing.T) {
	const dir = "../testdata/packed"
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	none := []string{"compressed-float", "fp8", "fp8-latent", "fp4"} // which 8 bits come near
	for _, e := range entries {
		t.Run(e.Name(), func(t *testing.T) {
			ck, err := Open(filepath.Join(dir, e.Name()))
			if err != nil {
				t.Fatal(err)
			}
			defer ck.Close()
			matrices, sum := 0, loss{}
			for _, name := range ck.Tensors.Names() {
				w, err := ck.Tensors.Tensor(name)
				if err != nil {
					t.Fatal(err)
				}
				if w.Form().Bits != 0 {
					matrices++
					compareIntegers(t, w, &sum)
				}
			}
			most := 0.0 // scales are 16-bit floats already
			switch e.Name() {
			case "gptq", "gptq-order", "awq", "compressed-4-zeros": // which have offsets
				most = 0.0005
			case "nf4":
				most = 0.007
			}
			if got := sum.relative(); got > most || most > 0 && got < most/4 {
				t.Errorf("stored weights err by %.4f %%, want at most %.4f %%", 100*got, 100*most)
			} else if matrices > 0 {
				t.Logf("stored weights err by %.4f %%", 100*got)
			}
			if want := !slices.Contains(none, e.Name()); want != (matrices > 0) {
				t.Errorf("%d matrices have integers", matrices)
			}
		})
	}
}

// loss is an error of weights, and the weights: sums of squares.
type loss struct{ noise, signal float64 }

func (l loss) relative() float64 {
	return math.Sqrt(l.noise / max(l.signal, math.SmallestNonzeroFloat64))
}

// compareIntegers compares what Integers gives with what Floats does, and adds up what is lost where scales and offsets
// are rounded to 16-bit floats.
func compareIntegers(t *testing.T, w *tensors.Tensor, sum *loss) {
	t.Helper()
	form := w.Form()
	for x := range tensorstest.Blocks(t, w) {
		scale, offset := x.Scale, x.Offset
		for c, code := range x.Codes {
			value, most := tensorstest.Number(form, code), 1e-6*(math.Abs(float64(offset))+127*math.Abs(float64(scale)))
			if form.Table == tensors.TableNF4 { // half of its step
				most = 0.5 * math.Abs(float64(scale))
			}
			want := x.Values[c]
			if d := math.Abs(float64(float32(value)*scale + offset - want)); !(d <= most) {
				t.Fatalf("%s: row %d, block %d: code %d is %g off %g, at most %g", w.Name, x.Row, x.Block, code, d,
					want, most)
			}
			stored := float64(value)*float64(tensors.RoundHalf(scale)) + float64(tensors.RoundHalf(offset))
			sum.noise += (stored - float64(want)) * (stored - float64(want))
			sum.signal += float64(want) * float64(want)
		}
	}
}
