package engine

import (
	"context"
	"errors"
	"testing"

	"tgi/runtime/llm"
)

// TestDemand has two engines share one Demand, one of which steps inside the other's
// forward pass.
func TestDemand(t *testing.T) {
	var d Demand
	outer, inner := newFake(64, 16, 256), newFake(64, 16, 256)
	a, b := byHand(t, outer, Config{Demand: &d}), byHand(t, inner, Config{Demand: &d})
	r := endless(3)
	r.N = 2
	submit(t, a, context.Background(), r)
	submit(t, b, context.Background(), endless(3))
	var seen []int
	inner.before = func(llm.Step) { seen = append(seen, d.Rows()) }
	outer.before = func(llm.Step) {
		seen = append(seen, d.Rows())
		b.step()
		if len(seen) == 2 {
			outer.fail = errors.New("no more")
		}
	}
	for a.step() {
		if n := d.Rows(); n != 0 {
			t.Errorf("%d rows between two steps", n)
		}
	}
	// The prompt is one row; its pass fails, which ends both sequences.
	if len(seen) != 2 || seen[0] != 1 || seen[1] != 2 {
		t.Errorf("rows in the passes: %v, want 1 and, inside it, 2", seen)
	}
}
