package logits_test

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"tgi/plugins/logits"
	"tgi/sdk/abi"
)

// odd values that rows and answers are made of.
var odd = []float32{0, float32(math.Copysign(0, -1)), 1, -1, negInf, negInf, float32(math.Inf(1)), nan, math.MaxFloat32,
	-math.MaxFloat32,
	math.SmallestNonzeroFloat32, math.Float32frombits(0xffc00001), math.Float32frombits(0x7f800001),
	math.Float32frombits(0xff800001)}

// mixed is a row of which a part, in percent, is odd.
func mixed(r *rand.Rand, n, percent int) []float32 {
	row := make([]float32, n)
	for i := range row {
		if row[i] = float32(r.IntN(64)) / 4; r.IntN(100) < percent {
			row[i] = odd[r.IntN(len(odd))]
		}
	}
	return row
}

// bothWays runs a test with and without vector code.
func bothWays(t *testing.T, test func(t *testing.T)) {
	t.Run("vector", test)
	t.Run("portable", func(t *testing.T) {
		defer logits.Portable()()
		test(t)
	})
}

// TestView compares the selection with a sort.
func TestView(t *testing.T) {
	bothWays(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(1, 1))
		for i := range 400 {
			size := 1 + r.IntN([]int{10, 100, 10_000}[i%3])
			if i%40 == 0 {
				size = 40_000 + r.IntN(100_000)
			}
			row := mixed(r, size, []int{0, 5, 100}[r.IntN(3)])
			if i%5 == 0 { // rising: every block is above the bar
				slices.SortFunc(row, func(a, b float32) int { return int(math.Copysign(1, float64(a-b))) })
			}
			n := 1 + r.IntN(min(size, abi.MaxView))
			if i%80 == 0 { // the sample has all of the values
				for i := range row {
					if i%(size/4096) != 0 {
						row[i] = negInf
					}
				}
			}
			plain := slices.Clone(row)
			for i, v := range plain {
				if v != v {
					plain[i] = negInf
				}
			}
			var want []byte
			for _, id := range sorted(plain)[:n] {
				want = binary.LittleEndian.AppendUint32(want, id)
				want = binary.LittleEndian.AppendUint32(want, math.Float32bits(plain[id]))
			}
			got := make([]byte, len(want))
			logits.WriteView(got, row, n)
			if !slices.Equal(got, want) {
				t.Fatalf("%d of %d tokens:\n% x\nwant\n% x", n, size, got, want)
			}
		}
	})
}

// TestUnusable finds NaN and +Inf wherever they stand.
func TestUnusable(t *testing.T) {
	bothWays(t, func(t *testing.T) {
		for size := range 200 {
			row := make([]float32, size)
			for i := range row {
				row[i] = []float32{negInf, math.MaxFloat32, -math.MaxFloat32, 0}[i%4]
			}
			if got := logits.Unusable(row, 0); got != size {
				t.Fatalf("%d of %d valid values", got, size)
			}
			for i := range row {
				for _, v := range odd {
					was := row[i]
					row[i] = v
					want := size
					if v != v || v > math.MaxFloat32 {
						want = i
					}
					if got := logits.Unusable(row, 0); got != want {
						t.Fatalf("%v at %d of %d: found at %d", v, i, size, got)
					}
					if got := logits.Unusable(row, i+1); got != size {
						t.Fatalf("%v at %d of %d: found at %d after it", v, i, size, got)
					}
					row[i] = was
				}
			}
		}
	})
}

// randomAnswer makes an array for a mode, usually valid.
func randomAnswer(r *rand.Rand, mode uint32, row []float32) (out []byte) {
	vocab := len(row)
	word := func(v uint32) { out = binary.LittleEndian.AppendUint32(out, v) }
	id := func() uint32 {
		if r.IntN(200) == 0 {
			return uint32(vocab)
		}
		return uint32(r.IntN(vocab))
	}
	value := func() float32 {
		if r.IntN(4) == 0 {
			return odd[r.IntN(len(odd))]
		}
		return float32(r.IntN(9)) - 4
	}
	n := r.IntN(12)
	switch mode {
	case abi.ModeAllow, abi.ModeDeny:
		for range n {
			word(id())
		}
	case abi.ModeSparse:
		for range n {
			word(id())
			word(math.Float32bits(value()))
		}
	case abi.ModeView:
		for _, id := range r.Perm(vocab)[:min(n, vocab)] {
			word(uint32(id))
			word(math.Float32bits(value()))
		}
	case abi.ModeBitmask:
		for range abi.MaskWords(uint32(vocab)) {
			word(r.Uint32() & r.Uint32() & -uint32(r.IntN(2)))
		}
	case abi.ModeRow:
		none := r.IntN(20) == 0
		for _, v := range row {
			if none {
				v = negInf
			} else if r.IntN(40) == 0 {
				v = value()
			}
			word(math.Float32bits(v))
		}
	}
	return out
}

// wrong returns the rule that an answer breaks, checking one by one; "" for a valid one.
func wrong(row []float32, mode, flags uint32, out []byte) string {
	word := func(i int) uint32 { return binary.LittleEndian.Uint32(out[4*i:]) }
	step := map[uint32]int{abi.ModeAllow: 1, abi.ModeDeny: 1, abi.ModeSparse: 2, abi.ModeView: 2}[mode]
	for i := 0; step > 0 && i < len(out)/4; i += step {
		if int(word(i)) >= len(row) {
			return "id"
		}
		if v := math.Float32frombits(word(i + step - 1)); step == 2 && !(v <= math.MaxFloat32) {
			return "number"
		}
	}
	after := slices.Clone(row)
	reference(after, mode, flags, out)
	lives := false
	for i, v := range after {
		lives = lives || v > negInf
		if !(v <= math.MaxFloat32) && math.Float32bits(v) != math.Float32bits(row[i]) && row[i] <= math.MaxFloat32 {
			return "number"
		}
		if mode == abi.ModeRow && !(v <= math.MaxFloat32) && math.Float32bits(v) != math.Float32bits(row[i]) {
			return "number"
		}
	}
	if !lives {
		return "dead"
	}
	return ""
}

// TestApply compares every mode with a simple implementation, over rows and answers with unusual values. An invalid
// answer is an error and changes nothing.
func TestApply(t *testing.T) {
	bothWays(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(2, 2))
		verdicts := map[string]int{}
		for i := range 60_000 {
			mode := uint32(1 + i%6)
			flags := uint32(0)
			if mode == abi.ModeSparse || mode == abi.ModeView {
				flags = uint32(r.IntN(2)) * abi.FlagOnly
			}
			row := mixed(r, 1+r.IntN(100), []int{0, 10, 100}[r.IntN(3)])
			if r.IntN(4) == 0 { // nearly dead
				for i := range row[1:] {
					row[i] = negInf
				}
			}
			if wrong(row, abi.ModePass, 0, nil) == "dead" {
				continue // the row had it before
			}
			answer := randomAnswer(r, mode, row)
			before, want := bitsOf(row), slices.Clone(row)
			why := wrong(row, mode, flags, answer)
			if why == "" {
				reference(want, mode, flags, answer)
			}
			err := logits.Apply(row, mode, flags, answer, false)
			if (err != nil) != (why != "") {
				t.Fatalf("mode %d flags %d over %v: % x: %v, want %q", mode, flags, want, answer, err, why)
			}
			verdicts[fmt.Sprint(mode, why)]++
			if err != nil {
				if !slices.Equal(bitsOf(row), before) {
					t.Fatalf("mode %d flags %d: %v changed the row", mode, flags, err)
				}
				continue
			}
			for i, v := range row {
				if v != want[i] && (v == v || want[i] == want[i]) {
					t.Fatalf("mode %d flags %d: % x: token %d: %v, want %v", mode, flags, answer, i, v, want[i])
				}
			}
		}
		for mode := 1; mode <= abi.ModeRow; mode++ {
			for _, why := range []string{"", "dead"} {
				if verdicts[fmt.Sprint(mode, why)] < 20 {
					t.Errorf("mode %d: only %d answers with verdict %q: too few for a useful test", mode,
						verdicts[fmt.Sprint(mode, why)], why)
				}
			}
		}
	})
}

// TestDryChecksAndChangesNothing checks that ids and numbers are validated even if the token is known.
func TestDryChecksAndChangesNothing(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 3))
	for i := range 5000 {
		mode := uint32(1 + i%6)
		row := mixed(r, 50, 10)
		before, answer := bitsOf(row), randomAnswer(r, mode, row)
		err := logits.Apply(row, mode, 0, answer, true)
		why := wrong(row, mode, 0, answer)
		if !slices.Equal(bitsOf(row), before) || why == "" && err != nil || why == "id" && err == nil {
			t.Fatalf("mode %d: %v, the rules say %q", mode, err, why)
		}
	}
}

// FuzzAnswer checks that no content of a guest's memory causes a panic, and that an accepted answer leaves a row in
// which a token is allowed, without a new NaN or +Inf.
func FuzzAnswer(f *testing.F) {
	step := func(mode, out, count, flags, temperature, force, forces uint32) []byte {
		b := make([]byte, abi.StepMode, abi.StepSize+64)
		for _, v := range []uint32{mode, out, count, flags, temperature, force, forces} {
			b = binary.LittleEndian.AppendUint32(b, v)
		}
		return b[:cap(b)]
	}
	for mode := range uint32(8) {
		f.Add(step(mode, 64, 2, 0, 0x7fc00000, 0, 0), uint32(0))
		f.Add(step(mode, 64, 2, 1, 0x3f800000, 64, 3), uint32(0))
		f.Add(step(mode, 0xfffffffc, 0xffffffff, 2, 0, 0xfffffff0, 256), uint32(1))
		f.Add(step(mode, 68, 0, 0, 0, 0xffffffff, 0), uint32(0))
	}
	f.Fuzz(func(t *testing.T, memory []byte, status uint32) {
		if len(memory) < abi.StepSize {
			return
		}
		row := rowAt(1, 40)
		row[3], row[4] = negInf, nan
		before := bitsOf(row)
		if err := logits.Decoded(memory, 0, status, row); err != nil {
			if !slices.Equal(bitsOf(row), before) {
				t.Fatalf("%v, but the row changed", err)
			}
			return
		}
		lives := false
		for i, v := range row {
			lives = lives || v > negInf
			if !(v <= math.MaxFloat32) && i != 4 {
				t.Fatalf("token %d has %v", i, v)
			}
		}
		if !lives {
			t.Fatal("no token is allowed")
		}
	})
}
