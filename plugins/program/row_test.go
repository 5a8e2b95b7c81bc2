package program

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// TestLikeliest: the best of a row are those that sorting all of it gives, with probabilities that are those of all.
func TestLikeliest(t *testing.T) {
	for seed := range uint64(50) {
		r := rand.New(rand.NewPCG(seed, 1))
		row := make([]float32, 1+r.IntN(300))
		sum := 0.0
		for i := range row {
			row[i] = float32(r.IntN(40)-20) / 4 // with equals
			if row[i] == 0 && r.IntN(2) == 0 {
				row[i] = float32(math.Copysign(0, -1))
			}
			sum += math.Exp(float64(row[i]))
		}
		ids := make([]uint32, len(row))
		for i := range ids {
			ids[i] = uint32(i)
		}
		slices.SortStableFunc(ids, func(a, b uint32) int { return int(4*row[b] - 4*row[a]) })
		k := 1 + r.IntN(20)
		got := likeliest(row, k)
		if len(got) != min(k, len(row)) {
			t.Fatalf("%d of %d, want %d", len(got), len(row), k)
		}
		for i, x := range got {
			want := float64(row[ids[i]]) - math.Log(sum)
			if x.id != ids[i] || math.Abs(float64(x.logprob)-want) > 1e-5 {
				t.Fatalf("place %d: %+v, want token %d with %v", i, x, ids[i], want)
			}
		}
	}
}

// TestEntropy: of equals it is the logarithm of their number; tokens that cannot come count for nothing.
func TestEntropy(t *testing.T) {
	never, nan := float32(math.Inf(-1)), float32(math.NaN())
	for _, c := range []struct {
		row  []float32
		want float64
	}{
		{[]float32{3, 3, 3, 3}, math.Log(4)}, {[]float32{5}, 0}, {[]float32{never, 1, never, 1, nan}, math.Log(2)},
		{[]float32{0, float32(math.Log(3))}, -0.25*math.Log(0.25) - 0.75*math.Log(0.75)},
	} {
		if got := entropy(c.row); math.Abs(got-c.want) > 1e-6 {
			t.Errorf("%v: %v, want %v", c.row, got, c.want)
		}
	}
}
