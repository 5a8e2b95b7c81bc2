package tower

import (
	"slices"
	"testing"
)

// TestExactPlaces: the numbers of patches in a line for which PyTorch 2.15 gives other places than 0, 1, 2, ... on a
// processor with vectors of 8 numbers, up to 79, are refused, and those of published models are not.
func TestExactPlaces(t *testing.T) {
	others := []int{19, 25, 29, 31, 38, 40, 41, 43, 47, 49, 50, 54, 55, 58, 59, 61, 62, 67, 68, 71, 72, 73, 74, 76, 77}
	for n := 1; n < 80; n++ {
		if exactWith(n, 8) == slices.Contains(others, n) || exactPlaces(n) && !exactWith(n, 8) {
			t.Errorf("%d patches: exact %v with vectors of 8, %v with all", n, exactWith(n, 8), exactPlaces(n))
		}
	}
	for _, n := range []int{7, 14, 16, 24, 26, 27, 32, 64} {
		if !exactPlaces(n) {
			t.Errorf("%d patches are refused", n)
		}
	}
}
