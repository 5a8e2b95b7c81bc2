package embeddings

import (
	"math"
	"testing"
)

// TestLongestFirst: two texts are cut as one token after the other of the longer one would be.
func TestLongestFirst(t *testing.T) {
	for a := range 12 {
		for b := range 12 {
			for room := range 14 {
				if a+b <= room {
					continue
				}
				gotA, gotB := longestFirst(a, b, room)
				x, y := a, b
				for x+y > room {
					if x > y {
						x--
					} else {
						y--
					}
				}
				// Of equally long texts the library gives the odd token to what was longer, or to the second.
				if gotA+gotB != room || max(gotA-x, x-gotA) > 1 || gotA > a || gotB > b {
					t.Errorf("%d and %d in %d: %d and %d, one by one %d and %d", a, b, room, gotA, gotB, x, y)
				}
			}
		}
	}
}

func TestScores(t *testing.T) {
	s := []float32{0, 1000, -1000}
	Sigmoid(s)
	if s[0] != 0.5 || s[1] != 1 || s[2] != 0 {
		t.Error(s)
	}
	s = []float32{1000, 1000, -1000}
	Softmax(s)
	if s[0] != 0.5 || s[1] != 0.5 || s[2] != 0 {
		t.Error(s)
	}
	if c := Cosine([]float32{1, 0}, []float32{1, 1}); math.Abs(float64(c)-math.Sqrt2/2) > 1e-6 {
		t.Error(c)
	}
	if c := Cosine([]float32{0, 0}, []float32{1, 1}); c != 0 {
		t.Error(c)
	}
}
