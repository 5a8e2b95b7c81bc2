package sample

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// TestCut compares the radix selection with sorting, over keys from all distinct
// to all alike.
func TestCut(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	s := new(scratch)
	for _, n := range []int{1, 2, 3, 10, 1000} {
		for _, span := range []uint64{1, 2, 30, 5000, 1 << 32} {
			keys, weights := make([]uint32, n), make([]float32, n)
			sum := 0.0
			for i := range keys {
				keys[i] = uint32(rng.Uint64N(span))
				weights[i] = float32(rng.IntN(4)) // exact sums; some weigh nothing
				sum += float64(weights[i])
			}
			order := make([]int, n)
			for i := range order {
				order[i] = i
			}
			slices.SortStableFunc(order, func(a, b int) int { return int(int64(keys[a]) - int64(keys[b])) })
			for _, share := range []float64{1e-9, 0.1, 0.5, 0.9, 1} {
				for _, w := range [][]float32{weights, nil} {
					target := share * sum
					if w == nil {
						target = math.Ceil(share * float64(n))
					}
					if target == 0 {
						continue
					}
					var want cutoff
					for at, before := 0, 0.0; at < n && before < target; at++ {
						if k := keys[order[at]]; at == 0 || k != want.key {
							want = cutoff{k, before}
						}
						if w == nil {
							before++
						} else {
							before += float64(w[order[at]])
						}
					}
					if got := s.cut(keys, w, target); got != want {
						t.Fatalf("n=%d span=%d target=%v: %+v, want %+v", n, span, target, got, want)
					}
				}
			}
		}
	}
}

// TestCutBeyond: rounding may make the target more than there is; then nothing
// is cut off.
func TestCutBeyond(t *testing.T) {
	got := new(scratch).cut([]uint32{9, 4, 4}, []float32{1, 2, 0}, 3.5)
	if want := (cutoff{9, 2}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}

func TestKeysKeepOrder(t *testing.T) {
	inf := float32(math.Inf(1))
	down := []float32{inf, math.MaxFloat32, 3, 1, 1e-40, 0, -1e-40, -1, -3, -math.MaxFloat32, negInf}
	for i := 1; i < len(down); i++ {
		if a, b := descendingKey(down[i-1]), descendingKey(down[i]); a >= b {
			t.Errorf("descending: key of %v is %#x, of %v %#x", down[i-1], a, down[i], b)
		}
	}
	if a, b := descendingKey(0), descendingKey(float32(math.Copysign(0, -1))); a != b {
		t.Errorf("descending: the zeros have keys %#x and %#x", a, b)
	}
	up := []float32{0, 1e-7, 0.5, 1, 30.9, 61, 62, 1000, inf}
	for i := 1; i < len(up); i++ {
		a, b := distanceKey(up[i-1]), distanceKey(up[i])
		if past := up[i-1] >= 2*spread; a > b || a == b && !past {
			t.Errorf("distance: key of %v is %#x, of %v %#x", up[i-1], a, up[i], b)
		}
	}
}
