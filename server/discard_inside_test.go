package server

import "testing"

// TestDiscardPlaces: there are few places for bodies that are thrown away, fewer for one address, and they come back.
func TestDiscardPlaces(t *testing.T) {
	var d discards
	taken := map[string]int{}
	for _, from := range []string{"a", "b", "c", "d", "e"} {
		for d.enter(from) {
			taken[from]++
		}
	}
	if taken["a"] != mostDiscardsEach || taken["d"] != mostDiscardsEach || taken["e"] != 0 || d.all != mostDiscards {
		t.Errorf("%v of %d", taken, d.all)
	}
	for from, n := range taken {
		for range n {
			d.leave(from)
		}
	}
	if d.all != 0 || len(d.of) != 0 || !d.enter("e") {
		t.Errorf("left: %+v", d.of)
	}
}
