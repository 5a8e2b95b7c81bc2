package grammar

import "testing"

// TestNestedCounts checks that counts are merged exactly if the merged repeat allows the same lengths.
func TestNestedCounts(t *testing.T) {
	const most = 60 // stands for no bound
	bounds := func(lo, hi uint32, of map[int]bool) map[int]bool {
		// sums of lo to hi members of a set of lengths, up to most
		sums, out := map[int]bool{0: true}, map[int]bool{}
		for n := uint32(0); n <= hi && n <= most; n++ {
			if n >= lo {
				for s := range sums {
					out[s] = true
				}
			}
			next := map[int]bool{}
			for s := range sums {
				for l := range of {
					if s+l <= most {
						next[s+l] = true
					}
				}
			}
			sums = next
		}
		return out
	}
	same := func(a, b map[int]bool) bool {
		for n := range most + 1 {
			if a[n] != b[n] {
				return false
			}
		}
		return true
	}
	one, joined, apart := map[int]bool{1: true}, 0, 0
	highs := []uint32{1, 2, 3, 4, 5, unbounded}
	for least := uint32(0); least < 5; least++ {
		for _, m := range highs {
			for lo := uint32(0); lo < 4; lo++ {
				for _, hi := range highs {
					if m < least || hi < lo {
						continue
					}
					want := bounds(lo, hi, bounds(least, m, one))
					low, high, ok := nestedCounts(least, m, lo, hi)
					if ok && !same(bounds(low, high, one), want) {
						t.Errorf("x{%d,%d}{%d,%d} became x{%d,%d}", least, m, lo, hi, low, high)
					}
					if ok {
						joined++
					} else if apart++; contiguous(want, most) {
						t.Errorf("x{%d,%d}{%d,%d} stayed as it is", least, m, lo, hi)
					}
				}
			}
		}
	}
	if joined == 0 || apart == 0 {
		t.Errorf("%d became one, %d did not", joined, apart)
	}
	if lo, hi, ok := nestedCounts(1, 1<<20, 1, 1<<20); !ok || lo != 1 || hi != unbounded {
		t.Error(lo, hi, ok)
	}
	if _, _, ok := nestedCounts(1<<20, 1<<20, 1<<20, 1<<20); ok {
		t.Error("a product overflows")
	}
	if _, _, ok := addedCounts(1<<31, 1<<31, 1, 1); ok {
		t.Error("a sum overflows")
	}
	if lo, hi, ok := addedCounts(0, 1<<31, 0, 1); !ok || lo != 0 || hi != unbounded {
		t.Error(lo, hi, ok)
	}
	if lo, hi, ok := addedCounts(1, 2, 3, unbounded); !ok || lo != 4 || hi != unbounded {
		t.Error(lo, hi, ok)
	}
}

// contiguous reports whether a set of lengths has no gap between its minimum and its maximum.
func contiguous(set map[int]bool, most int) bool {
	begun, over := false, false
	for n := range most + 1 {
		if set[n] && over {
			return false
		}
		over = over || begun && !set[n]
		begun = begun || set[n]
	}
	return true
}
