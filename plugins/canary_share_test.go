package plugins

import (
	"fmt"
	"testing"
)

// TestCanaryMixes: of requests whose ids are alike the same share gets a canary, give or take what chance does. With 20
// ids and a share of half the number has a variance of 5.
func TestCanaryMixes(t *testing.T) {
	for _, form := range []string{"r%d", "%d", "request-%04d", "%032x", "0190e1f2-%d-7abc"} {
		const names, ids = 1000, 20
		sum, squares := 0, 0
		for n := range names {
			c, got := NewCanary(CanaryOptions{Percent: 50}), 0
			for i := range ids {
				if c.takes(fmt.Sprintf("plugin%d", n), fmt.Sprintf(form, i+1)) {
					got++
				}
			}
			sum += got
			squares += (got - ids/2) * (got - ids/2)
		}
		if mean, variance := float64(sum)/names, float64(squares)/names; mean < 9.7 || mean > 10.3 || variance < 4 ||
			variance > 6 {
			t.Errorf("%s: %.2f of %d requests, variance %.2f", form, mean, ids, variance)
		}
	}
}
