package llm

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// TestAppendPlaces: positions are those of transformers' get_rope_index, whole and in pieces.
func TestAppendPlaces(t *testing.T) {
	list := []Embedding{{At: 0, N: 1}, {At: 2, N: 6, Columns: 3}, {At: 9, N: 4, Columns: 1}}
	want := []int32{
		0, 0, 0, 1, 1, 1, // text
		2, 2, 2, 2, 2, 3, 2, 2, 4, 2, 3, 2, 2, 3, 3, 2, 3, 4, // two lines of three
		5, 5, 5, // behind the third column
		6, 6, 6, 6, 7, 6, 6, 8, 6, 6, 9, 6, // four lines of one
		10, 10, 10, 11, 11, 11,
	}
	n := len(want) / 3
	if got := AppendPlaces(nil, list, 0, n); !slices.Equal(got, want) {
		t.Fatalf("%v, want %v", got, want)
	}
	r := rand.New(rand.NewPCG(1, 1))
	for range 200 {
		from := r.IntN(n)
		end := from + r.IntN(n-from+1)
		if got := AppendPlaces(nil, list, from, end); !slices.Equal(got, want[3*from:3*end]) {
			t.Errorf("%d to %d: %v, want %v", from, end, got, want[3*from:3*end])
		}
	}
	if HasPlaces(list[:1]) || !HasPlaces(list) {
		t.Error("HasPlaces")
	}
	if got := AppendPlaces(nil, list[:1], 3, 4); !slices.Equal(got, []int32{3, 3, 3}) {
		t.Errorf("text: %v", got)
	}
}

// TestMutualRuns: wherever a sequence is cut by Whole, each token sees what it sees in one step, and its run is in it.
func TestMutualRuns(t *testing.T) {
	list := []Embedding{{At: 2, N: 3, Mutual: true}, {At: 5, N: 4, Mutual: true}, {At: 12, N: 6},
		{At: 20, N: 1, Mutual: true}}
	const n = 24
	want := AppendKeyEnds(nil, list, 0, n)
	if !slices.Equal(want[:13], []int32{1, 2, 5, 5, 5, 9, 9, 9, 9, 10, 11, 12, 13}) || want[20] != 21 {
		t.Fatalf("%v", want)
	}
	r := rand.New(rand.NewPCG(1, 1))
	for range 300 {
		var got []int32
		for at := 0; at < n; {
			to, least := Whole(list, at, min(at+1+r.IntN(8), n))
			if to == at {
				to = least
			}
			got = AppendKeyEnds(got, list, at, to)
			for i := at; i < to; i++ {
				if int(got[i]) > to {
					t.Fatalf("token %d sees those up to %d, the step ends at %d", i, got[i], to)
				}
			}
			at = to
		}
		if !slices.Equal(got, want) {
			t.Errorf("%v, want %v", got, want)
		}
	}
	if HasMutual(list, 0, 2) || !HasMutual(list, 0, 3) || !HasMutual(list, 8, 9) || HasMutual(list, 9, 20) {
		t.Error("HasMutual")
	}
}
